"""``longshore cancel``."""

from __future__ import annotations

import time

import click

from longshore.cli.options import JSON, RUN_ID, Progress, chosen_run
from longshore.model.state import JobState

_LOOK_S = 60.0


@click.command(epilog="Example: longshore cancel --id @last")
@RUN_ID
@click.argument("run", required=False)
@JSON
def command(reference: str | None, run: str | None, as_json: bool) -> None:
    """End a run: every job that runs is told to end, then killed; what never ran is DELETED."""
    from longshore.app.cancel import cancel
    from longshore.app.runs import open_run
    from longshore.cli.show_json import dumps, status_document
    from longshore.contract.service import Selection
    from longshore.errors import SubmissionRefusedError

    chosen = chosen_run(reference, run)
    if not chosen:
        raise click.UsageError("Name the run: longshore cancel RUN.")
    opened = open_run(chosen)
    progress = Progress()
    try:
        report = cancel(opened, Selection(), wait_s=_LOOK_S, show=progress.show)
    finally:
        progress.close()
    if as_json:
        click.echo(dumps(status_document(report, as_of=time.time())))
        return
    if report.state is JobState.RUNNING:
        raise SubmissionRefusedError(
            f"Couldn't cancel job with id '{opened.card.id}' ({'; '.join(report.notes) or 'it is still running'})"
        )
    click.echo(f"Successfully canceled job with id '{opened.card.id}'")
