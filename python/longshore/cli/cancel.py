"""``longshore cancel``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from longshore.cli.options import GLOBAL, JSON, PASS_THRU, RUN_ID, SERVICE, Progress, chosen_run

if TYPE_CHECKING:
    from longshore.app.runs import OpenRun
    from longshore.contract.service import Selection
    from longshore.model.report import RunReport

_LOOK_S = 60.0
_NOTHING = "No job matches the search criteria."
_NOTHING_HINT = "Hints: Double check id, and/or use --global to search all job queues."


@click.command(epilog="Example: longshore cancel --id @last    or: longshore cancel @last --label coadd")
@RUN_ID
@click.argument("run", required=False)
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
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """End a run: every job that runs is told to end, then killed; what never ran is DELETED."""
    from longshore.app.runs import open_run
    from longshore.contract.service import Selection
    from longshore.errors import RunNotFoundError

    chosen = chosen_run(options["reference"], options["run"])
    if bool(chosen) == bool(options["user"]):
        raise click.UsageError("Name one run, as in 'longshore cancel RUN', or the runs of a user with --user.")
    selection = Selection(
        jobs=options["jobs"],
        labels=options["labels"],
        final_too=options["no_final"],
        pass_thru=options["pass_thru"],
    )
    runs = [open_run(chosen, service=options["wms_service_class"])] if chosen else _runs_of(options["user"])
    if not runs:
        raise RunNotFoundError(_NOTHING, hint=_NOTHING_HINT)
    if not chosen and not options["yes"]:
        _ask(runs)
    reports = [_cancel(opened, selection, as_json=options["as_json"]) for opened in runs]
    if options["as_json"]:
        from longshore.cli.show_json import cancel_document, dumps

        click.echo(dumps(cancel_document(reports, as_of=time.time())))
    ctx.exit(6 if any(_still_runs(report) for report in reports) else 0)


def _runs_of(user: str) -> list[OpenRun]:
    from longshore.app.cancel import runs_of

    return runs_of(user)


def _ask(runs: list[OpenRun]) -> None:
    """Show what would end, and go on only if the user says so."""
    for opened in runs:
        click.echo(f"{opened.card.id}  {opened.card.name}", err=True)
    if not sys.stdin.isatty():
        raise click.UsageError(f"{len(runs)} runs would end; off a terminal that needs --yes.")
    click.confirm(f"End these {len(runs)} runs?", abort=True, err=True)


def _cancel(opened: OpenRun, selection: Selection, *, as_json: bool) -> RunReport:
    from longshore.app.cancel import cancel
    from longshore.app.status import status_run
    from longshore.model.state import TERMINAL

    over = status_run(opened).state in TERMINAL
    progress = Progress()
    try:
        report = cancel(opened, selection, wait_s=_LOOK_S, show=progress.show)
    finally:
        progress.close()
    if not as_json:
        for note in report.notes:
            click.echo(f"longshore: {note}", err=True)
        if over:
            click.echo(f"longshore: nothing to cancel: run '{opened.card.id}' is {report.state}", err=True)
        elif _still_runs(report):
            click.echo(f"Couldn't cancel job with id '{opened.card.id}' (it still runs)", err=True)
        else:
            click.echo(f"Successfully canceled job with id '{opened.card.id}'")
    return report


def _still_runs(report: RunReport) -> bool:
    return any(note.startswith("still alive") for note in report.notes)
