"""``longshore cancel``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from longshore.cli.options import (
    GLOBAL,
    JSON,
    PASS_THRU,
    SERVICE,
    OptionRecord,
    grouped,
    print_json,
    print_notes,
    run_option,
)
from longshore.cli.run_progress import RunProgress

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun
    from longshore.contract.intervention import JobSelection
    from longshore.model.run.report import RunReport

_LOOK_S = 60.0
_NOTHING = "No job matches the search criteria."
_NOTHING_HINT = "Hints: Double check id, and/or use --global to search all job queues."


class CancelOptions(OptionRecord, frozen=True, kw_only=True):
    """Which runs are cancelled, and how."""

    wms_service_class: str | None
    is_global: bool
    user: str | None
    yes: bool
    require_bps: bool
    pass_thru: str
    as_json: bool


class SelectionOptions(OptionRecord, frozen=True, kw_only=True):
    """Which jobs of a run are cancelled."""

    jobs: tuple[str, ...]
    labels: tuple[str, ...]
    no_final: bool


@click.command(epilog="Example: longshore cancel --id @last    or: longshore cancel @last --label coadd")
@run_option(required=False)
@SERVICE
@click.option("--user", metavar="NAME", help="All runs of that user that are not over.")
@click.option("--yes", is_flag=True, help="Do not ask before ending the runs of a user.")
@click.option("--job", "jobs", multiple=True, metavar="NAME", help="Only that job; what descends from it is PRUNED.")
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only the jobs of that label.")
@click.option("--no-final", is_flag=True, help="Skip the final job too, which otherwise runs in any case.")
@click.option("--require-bps/--skip-require-bps", default=True, help="As in BPS; every run known here is one of ours.")
@PASS_THRU
@GLOBAL
@JSON
@grouped(options=CancelOptions, selected=SelectionOptions)
@click.pass_context
def command(ctx: click.Context, /, *, run: str | None, options: CancelOptions, selected: SelectionOptions) -> None:
    """End a run: every job that runs is told to end, then killed; what never ran is DELETED."""
    from longshore.contract.intervention import JobSelection
    from longshore.errors import RunNotFoundError

    if bool(run) == bool(options.user):
        raise click.UsageError("Name one run, as in 'longshore cancel RUN', or the runs of a user with --user.")
    selection = JobSelection(
        jobs=selected.jobs, labels=selected.labels, final_too=selected.no_final, pass_thru=options.pass_thru
    )
    runs = [_named(run, options)] if run else _runs_of(options.user or "", options)
    if not runs:
        raise RunNotFoundError(_NOTHING, hint=_NOTHING_HINT)
    if not run and not options.yes:
        _ask(runs)
    reports = [_cancel(opened, selection, options) for opened in runs]
    if options.as_json:
        from longshore.app.documents.run import cancel_document

        print_json(cancel_document(reports, as_of=time.time()))
    ctx.exit(6 if any(_still_runs(report) for report in reports) else 0)


def _named(run: str, options: CancelOptions) -> OpenRun | RunReport:
    from longshore.app.inspect.remote_runs import open_or_query

    return open_or_query(
        run, service=options.wms_service_class, everywhere=options.is_global, runs_only=options.require_bps
    )


def _runs_of(user: str, options: CancelOptions) -> list[OpenRun | RunReport]:
    from longshore.app.control.cancel import runs_of
    from longshore.app.inspect.remote_runs import query_runs
    from longshore.contract.search import RunSearch

    known: list[OpenRun | RunReport] = [*runs_of(user)]
    search = RunSearch(user=user, everywhere=options.is_global)
    found = query_runs(options.wms_service_class, search, required=options.is_global)
    if found is None:
        return known
    there = {str(opened.run.root) for opened in runs_of(user)}
    print_notes(found.notes)
    return [*known, *(report for report in found.reports if report.path not in there)]


def _ask(runs: list[OpenRun | RunReport]) -> None:
    """Show what would end, and go on only if the user says so."""
    for opened in runs:
        click.echo("  ".join(_names(opened)), err=True)
    if not sys.stdin.isatty():
        raise click.UsageError(f"{len(runs)} runs would end; off a terminal that needs --yes.")
    click.confirm(f"End these {len(runs)} runs?", abort=True, err=True)


def _names(opened: OpenRun | RunReport) -> tuple[str, str]:
    """Id and name."""
    from longshore.model.run.report import RunReport

    return (opened.id, opened.name) if isinstance(opened, RunReport) else (opened.card.id, opened.card.name)


def _cancel(opened: OpenRun | RunReport, selection: JobSelection, options: CancelOptions) -> RunReport:
    from longshore.app.control.cancel import cancel, cancel_remote
    from longshore.app.report.status import status_run
    from longshore.model.run.report import RunReport
    from longshore.model.run.state import TERMINAL

    remote = isinstance(opened, RunReport)
    over = (opened if isinstance(opened, RunReport) else status_run(opened)).state in TERMINAL
    with RunProgress() as progress:
        if not isinstance(opened, RunReport):
            report = cancel(opened, selection, wait_s=_LOOK_S, show=progress.show)
        elif not selection.everything or selection.final_too:
            raise click.UsageError(f"only the whole of '{opened.id}' can be cancelled: its directory is not here")
        elif over:
            report = opened
        else:
            report = cancel_remote(
                opened,
                pass_thru=options.pass_thru,
                runs_only=options.require_bps,
                wait_s=_LOOK_S,
                show=progress.show,
            )
    if not options.as_json:
        _say(report, _names(opened)[0], over=over, notes=() if remote else report.notes)
    return report


def _say(report: RunReport, name: str, *, over: bool, notes: Iterable[str]) -> None:
    print_notes(notes)
    if over:
        click.echo(f"longshore: nothing to cancel: run '{name}' is {report.state}", err=True)
    elif _still_runs(report):
        click.echo(f"Couldn't cancel job with id '{name}' (it still runs)", err=True)
    else:
        click.echo(f"Successfully canceled job with id '{name}'")


def _still_runs(report: RunReport) -> bool:
    return any(note.startswith("still alive") for note in report.notes)
