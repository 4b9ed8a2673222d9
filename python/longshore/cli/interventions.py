"""Interventions in runs: ``cancel``, ``pause``, ``unpause``, ``throttle``, ``hold``, ``release``, ``set``."""

from __future__ import annotations

import sys
import time
from typing import Final

import click

from longshore.cli.options import GLOBAL, JSON, PASS_THRU, SERVICE, OptionRecord, WholeNumber, group_options, run_option
from longshore.cli.terminal import print_json, print_notes
from longshore.contract.service import Intervention, JobSelection
from longshore.control.interventions import cancel, live_runs_of, parse_changes, steer
from longshore.errors import RunNotFoundError
from longshore.model.report import RunReport
from longshore.model.states import TERMINAL_STATES, JobState
from longshore.reports.remote_runs import open_or_query
from longshore.reports.status import status_run
from longshore.runstate.open_run import OpenRun, open_run

_JOB = click.option("--job", "jobs", multiple=True, metavar="NAME", help="Only that job. Can be repeated.")
_LABEL = click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only jobs of that label.")


@click.command(epilog="Example: longshore pause @last --why 'the archive is down'")
@run_option()
@click.option("--why", metavar="TEXT", help="Reason, shown in reports of the run.")
@JSON
def pause_command(*, run: str, why: str | None, as_json: bool) -> None:
    """Start no more jobs of a run. Running jobs continue."""
    _steer(run, Intervention(act="pause", set={"why": why} if why else {}), as_json=as_json)


@click.command(epilog="Example: longshore unpause @last")
@run_option()
@JSON
def unpause_command(*, run: str, as_json: bool) -> None:
    """Continue a paused run."""
    _steer(run, Intervention(act="unpause"), as_json=as_json)


@click.command(epilog="Example: longshore throttle @last --max 4 --label coadd    or: longshore throttle @last --off")
@run_option()
@click.option("--max", "max_jobs", type=WholeNumber(min=1), metavar="N", help="Maximum number of active jobs.")
@click.option("--off", is_flag=True, help="Remove the maximum.")
@_LABEL
@JSON
def throttle_command(*, run: str, max_jobs: int | None, off: bool, labels: tuple[str, ...], as_json: bool) -> None:
    """Limit the number of active jobs of a run, or of a label. Running jobs continue; --off alone lifts all limits."""
    if (max_jobs is None) != off:
        raise click.UsageError("Give a number, as in --max 4, or --off; to start no jobs at all, pause the run.")
    values = {} if max_jobs is None else {"max": str(max_jobs)}
    _steer(run, Intervention(act="throttle", selection=JobSelection(labels=labels), set=values), as_json=as_json)


@click.command(epilog="Example: longshore hold @last coadd_7 coadd_8    or: longshore hold @last --label coadd")
@click.argument("run")
@click.argument("names", nargs=-1, metavar="[JOB]...")
@_JOB
@_LABEL
@JSON
def hold_command(
    *, run: str, names: tuple[str, ...], jobs: tuple[str, ...], labels: tuple[str, ...], as_json: bool
) -> None:
    """Hold jobs: they do not start until they are released. Running jobs continue, and are not retried."""
    selection = JobSelection(jobs=(*names, *jobs), labels=labels)
    _steer(run, Intervention(act="hold", selection=selection), as_json=as_json)


@click.command(epilog="Example: longshore release @last    or: longshore release @last --label coadd")
@click.argument("run")
@click.argument("names", nargs=-1, metavar="[JOB]...")
@_JOB
@_LABEL
@JSON
def release_command(
    *, run: str, names: tuple[str, ...], jobs: tuple[str, ...], labels: tuple[str, ...], as_json: bool
) -> None:
    """Release held jobs."""
    selection = JobSelection(jobs=(*names, *jobs), labels=labels)
    _steer(run, Intervention(act="release", selection=selection), as_json=as_json)


@click.command(epilog="Example: longshore set @last requestMemory=8G numberOfRetries=3 --label coadd")
@click.argument("run")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@_JOB
@_LABEL
@JSON
def set_command(
    *, run: str, pairs: tuple[str, ...], jobs: tuple[str, ...], labels: tuple[str, ...], as_json: bool
) -> None:
    """Change the requests of jobs that have not started, or will be retried.

    KEY is requestMemory, requestCpus, requestDisk, requestWalltime, requestResources.NAME or numberOfRetries.
    """
    selection = JobSelection(jobs=jobs, labels=labels)
    _steer(run, Intervention(act="set", selection=selection, set=parse_changes(pairs)), as_json=as_json)


def _steer(run: str, intervention: Intervention, *, as_json: bool) -> None:
    """Apply the intervention, and print its outcome."""
    opened = open_run(run, acts=True)
    report = steer(opened, intervention)
    if as_json:
        from longshore.reports.documents.run import steer_document

        print_json(steer_document(report, intervention, as_of=time.time()))
        return
    click.echo(f"{intervention.act}: {opened.card.id} is {report.state_word}{_describe_change(intervention)}")
    print_notes(report.notes)


def _describe_change(steering: Intervention) -> str:
    words = [f"{key}={value}" for key, value in steering.set.items()]
    words += [f"job {name}" for name in steering.selection.jobs]
    words += [f"label {name}" for name in steering.selection.labels]
    return f" ({', '.join(words)})" if words else ""


_ASKS_ABOVE: Final = 10
"""Active jobs that are cancelled at a terminal without a question."""


class CancelOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: runs to cancel, and how."""

    wms_service_class: str | None
    is_global: bool
    user: str | None
    yes: bool
    require_bps: bool
    pass_thru: str
    as_json: bool


class SelectionOptions(OptionRecord, frozen=True, kw_only=True):
    """Options: jobs of a run to cancel."""

    jobs: tuple[str, ...]
    labels: tuple[str, ...]
    no_final: bool


@click.command(epilog="Example: longshore cancel --id @last    or: longshore cancel @last --label coadd")
@run_option(required=False)
@SERVICE
@click.option("--user", metavar="NAME", help="All runs of a user that are not over.")
@click.option(
    "--yes", is_flag=True, help=f"Do not ask before the runs of a user, or more than {_ASKS_ABOVE} jobs, are cancelled."
)
@click.option(
    "--job", "jobs", multiple=True, metavar="NAME", help="Only that job; its descendants are PRUNED. Can be repeated."
)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only jobs of that label. Can be repeated.")
@click.option("--no-final", is_flag=True, help="Cancel the final job too; otherwise it still runs.")
@click.option("--require-bps/--skip-require-bps", default=True, help="As in BPS: cancel only Longshore's runs.")
@PASS_THRU
@GLOBAL
@JSON
@group_options(options=CancelOptions, selection_options=SelectionOptions)
@click.pass_context
def cancel_command(
    ctx: click.Context, /, *, run: str | None, options: CancelOptions, selection_options: SelectionOptions
) -> None:
    """Cancel a run: running jobs are asked to end, then killed; jobs that never ran are DELETED."""
    if bool(run) == bool(options.user):
        raise click.UsageError("Name one run, as in 'longshore cancel @last', or a user with --user.")
    selection = JobSelection(
        jobs=selection_options.jobs,
        labels=selection_options.labels,
        final_too=selection_options.no_final,
        pass_thru=options.pass_thru,
    )
    runs = _find_runs(run, options)
    if not runs:
        hint = f"'longshore report --user {options.user}' lists the runs of a user"
        more = "." if options.is_global else "; '--global' searches all queues of the workload manager."
        raise RunNotFoundError(f"no run of the user '{options.user}' is live", hint=hint + more)
    if not options.yes:
        if run:
            confirm_jobs(runs[0], selection)
        else:
            _confirm(runs)
    reports = [_cancel(opened, selection, options) for opened in runs]
    if options.as_json:
        from longshore.reports.documents.run import cancel_document

        print_json(cancel_document(reports, as_of=time.time()))
    ctx.exit(6 if any(_is_still_alive(report) for report in reports) else 0)


def _find_runs(run: str | None, options: CancelOptions) -> list[OpenRun | RunReport]:
    service, everywhere = options.wms_service_class, options.is_global
    if run:
        return [open_or_query(run, service=service, everywhere=everywhere, runs_only=options.require_bps, acts=True)]
    found, notes = live_runs_of(options.user or "", service=service, everywhere=everywhere)
    print_notes(notes)
    return found


def _confirm(runs: list[OpenRun | RunReport]) -> None:
    """Show the runs to cancel, and ask for confirmation."""
    for opened in runs:
        click.echo("  ".join(_id_and_name(opened)), err=True)
    if not sys.stdin.isatty():
        raise click.UsageError(f"{len(runs)} runs would be cancelled; without a terminal that requires --yes.")
    click.confirm(f"Cancel these {len(runs)} runs?", abort=True, err=True)


def confirm_jobs(opened: OpenRun | RunReport, selection: JobSelection) -> None:
    """Ask a person before many jobs are cancelled; a script is not asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return

    if selection.jobs and len(selection.jobs) <= _ASKS_ABOVE and not selection.labels:
        return
    labels = (opened if isinstance(opened, RunReport) else status_run(opened, check=True)).labels
    active = sum(
        count
        for label, counts in labels.items()
        if selection.everything or label in selection.labels
        for state, count in counts.items()
        if state not in TERMINAL_STATES
    ) + len(selection.jobs)
    if active > _ASKS_ABOVE:
        name = " ".join(_id_and_name(opened))
        click.confirm(f"Cancel {active} jobs of run {name} that are not over?", abort=True, err=True)


def _id_and_name(opened: OpenRun | RunReport) -> tuple[str, str]:
    """Id and name of a run."""
    return (opened.id, opened.name) if isinstance(opened, RunReport) else (opened.card.id, opened.card.name)


def _cancel(run: OpenRun | RunReport, selection: JobSelection, options: CancelOptions) -> RunReport:
    from longshore.cli.watch import RunProgress

    remote = isinstance(run, RunReport)
    was_over = (run if isinstance(run, RunReport) else status_run(run, check=True)).state in TERMINAL_STATES
    told: list[str] = []

    def tell(note: str) -> None:
        told.append(note)
        print_notes([note])

    with RunProgress() as progress:
        report = cancel(run, selection, runs_only=options.require_bps, show=progress.show, tell=tell)
    if not options.as_json:
        notes = () if remote else [note for note in report.notes if note not in told]
        print_notes(notes)
        _print_result(report, _id_and_name(run)[0], selection, was_over=was_over)
    return report


def _print_result(report: RunReport, name: str, selection: JobSelection, *, was_over: bool) -> None:
    if was_over:
        click.echo(f"longshore: nothing to cancel: run '{name}' is {report.state}", err=True)
    elif not selection.everything:
        _print_cancelled_jobs(report, name, selection)
    elif _is_still_alive(report):
        click.echo(f"Couldn't cancel job with id '{name}' (it still runs)", err=True)
    else:
        click.echo(f"Successfully canceled job with id '{name}'")


def _print_cancelled_jobs(report: RunReport, name: str, selection: JobSelection) -> None:
    """Print the names of the jobs and labels that were cancelled, and of the jobs that were over before."""
    selected = set(selection.jobs)
    over = {
        job.name: job.state
        for job in report.jobs or ()
        if job.name in selected and job.state in TERMINAL_STATES and job.state is not JobState.DELETED
    }
    for job, state in over.items():
        click.echo(f"longshore: nothing to cancel: job '{job}' of run '{name}' is {state}", err=True)
    for job in dict.fromkeys(selection.jobs):
        if job not in over:
            click.echo(f"Successfully canceled job '{job}' of run '{name}'")
    for label in dict.fromkeys(selection.labels):
        click.echo(f"Successfully canceled label '{label}' of run '{name}'")


def _is_still_alive(report: RunReport) -> bool:
    return any(note.startswith("still alive") for note in report.notes)
