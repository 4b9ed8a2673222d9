"""Interventions in a live run: ``longshore pause``, ``unpause``, ``throttle``, ``hold``, ``release``, ``set``."""

from __future__ import annotations

import time

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.options import JSON, print_json, print_notes, run_option
from longshore.cli.parameter_types import WholeNumber
from longshore.contract.service import Intervention, JobSelection
from longshore.control.interventions import parse_changes, steer

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
