"""``longshore pause``, ``unpause``, ``throttle``, ``hold``, ``release``, ``set``: change the course of a live run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, RUN_ID, chosen_run, print_json

if TYPE_CHECKING:
    from longshore.contract.intervention import Intervention

_JOB = click.option("--job", "jobs", multiple=True, metavar="NAME", help="Only that job. Can be repeated.")
_LABEL = click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only jobs of that label.")


@click.command(epilog="Example: longshore pause @last --why 'the archive is down'")
@RUN_ID
@click.argument("run", required=False)
@click.option("--why", metavar="TEXT", help="What to show to whoever asks how the run stands.")
@JSON
def pause(reference: str | None, run: str | None, why: str | None, as_json: bool) -> None:
    """Start nothing more of a run. What runs goes on."""
    _steer(reference, run, "pause", values={"why": why} if why else {}, as_json=as_json)


@click.command(epilog="Example: longshore unpause @last")
@RUN_ID
@click.argument("run", required=False)
@JSON
def unpause(reference: str | None, run: str | None, as_json: bool) -> None:
    """Let a run go on that was paused."""
    _steer(reference, run, "unpause", as_json=as_json)


@click.command(epilog="Example: longshore throttle @last --max 4 --label coadd    or: longshore throttle @last --off")
@RUN_ID
@click.argument("run", required=False)
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="How many may be active at once.")
@click.option("--off", is_flag=True, help="As many as there is room for.")
@_LABEL
@JSON
def throttle(  # noqa: PLR0917 - click hands them over by keyword
    reference: str | None, run: str | None, most: int | None, off: bool, labels: tuple[str, ...], as_json: bool
) -> None:
    """Bound how many jobs of a run, or of one label, are active at once. What runs goes on."""
    if (most is None) != off:
        raise click.UsageError("Say how many, as in --max 4, or --off; to start none at all, pause the run.")
    values = {} if most is None else {"max": str(most)}
    _steer(reference, run, "throttle", labels=labels, values=values, as_json=as_json)


@click.command(epilog="Example: longshore hold @last coadd_7 coadd_8    or: longshore hold @last --label coadd")
@click.argument("run")
@click.argument("names", nargs=-1, metavar="[JOB]...")
@_JOB
@_LABEL
@JSON
def hold(run: str, names: tuple[str, ...], jobs: tuple[str, ...], labels: tuple[str, ...], as_json: bool) -> None:
    """Keep jobs from starting until they are released. One that runs goes on, and is not tried again."""
    _steer(None, run, "hold", jobs=(*names, *jobs), labels=labels, as_json=as_json)


@click.command(epilog="Example: longshore release @last    or: longshore release @last --label coadd")
@click.argument("run")
@click.argument("names", nargs=-1, metavar="[JOB]...")
@_JOB
@_LABEL
@JSON
def release(run: str, names: tuple[str, ...], jobs: tuple[str, ...], labels: tuple[str, ...], as_json: bool) -> None:
    """Let jobs go on that were held."""
    _steer(None, run, "release", jobs=(*names, *jobs), labels=labels, as_json=as_json)


@click.command(epilog="Example: longshore set @last requestMemory=8G numberOfRetries=3 --label coadd")
@click.argument("run")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@_JOB
@_LABEL
@JSON
def change(run: str, pairs: tuple[str, ...], jobs: tuple[str, ...], labels: tuple[str, ...], as_json: bool) -> None:
    """Change what jobs ask for that have not started, or will be tried again.

    KEY is requestMemory, requestCpus, requestDisk, requestWalltime, requestResources.NAME or numberOfRetries.
    """
    from longshore.app.control.steer import parsed

    _steer(None, run, "set", jobs=jobs, labels=labels, values=parsed(pairs), as_json=as_json)


def _steer(
    reference: str | None,
    run: str | None,
    act: str,
    *,
    jobs: tuple[str, ...] = (),
    labels: tuple[str, ...] = (),
    values: Mapping[str, str] | None = None,
    as_json: bool,
) -> None:
    """Give the order, and say what came of it."""
    from longshore.app.control.steer import steer
    from longshore.app.runs.open_run import open_run
    from longshore.contract.intervention import Intervention, JobSelection

    chosen = chosen_run(reference, run)
    if not chosen:
        raise click.UsageError(f"Name the run: longshore {act} RUN.")
    opened = open_run(chosen)
    steering = Intervention(act=act, selection=JobSelection(jobs=jobs, labels=labels), set=values or {})
    report = steer(opened, steering)
    if as_json:
        from longshore.app.documents.run import steer_document

        print_json(steer_document(report, steering, as_of=time.time()))
        return
    click.echo(f"{act}: {opened.card.id} is {report.state}{_meant(steering)}")
    for note in report.notes:
        click.echo(f"longshore: {note}", err=True)


def _meant(steering: Intervention) -> str:
    words = [f"{key}={value}" for key, value in steering.set.items()]
    words += [f"job {name}" for name in steering.selection.jobs]
    words += [f"label {name}" for name in steering.selection.labels]
    return f" ({', '.join(words)})" if words else ""
