"""``longshore restart``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, RUN_ID, SERVICE, chosen_run

if TYPE_CHECKING:
    from longshore.app.restart import Again


@click.command(epilog="Example: longshore restart --id @last --dry-run")
@RUN_ID
@click.argument("run", required=False)
@SERVICE
@click.option("--dry-run", is_flag=True, help="Only say what would run again, and why.")
@JSON
def command(
    reference: str | None, run: str | None, wms_service_class: str | None, dry_run: bool, as_json: bool
) -> None:
    """Run again what did not succeed, in the same run directory. What succeeded is not run again."""
    from longshore.app.restart import restart, what_to_restart
    from longshore.app.runs import open_run
    from longshore.cli.show_json import dumps, restart_document

    chosen = chosen_run(reference, run)
    if not chosen:
        raise click.UsageError("Name the run: longshore restart RUN.")
    opened = open_run(chosen, service=wms_service_class)
    again = what_to_restart(opened)
    notes: list[str] = []
    submitted = bool(again.total or again.unfinished) and not dry_run
    if not as_json:
        _say(again, opened.card.id)
    if submitted:
        opened_card, notes = restart(opened)
    if as_json:
        document = restart_document(
            opened.card.id,
            opened.card.name,
            str(opened.run.root),
            labels=again.labels,
            unfinished=again.unfinished,
            submitted=submitted,
            notes=notes,
            as_of=time.time(),
        )
        click.echo(dumps(document))
    elif submitted:
        for note in notes:
            click.echo(f"longshore: {note}", err=True)
        click.echo(f"Submit dir: {opened.run.root}")
        click.echo(f"Run Id: {opened_card.submissions[-1].id}")
        click.echo(f"Run Name: {opened_card.name}")


def _say(again: Again, run: str) -> None:
    """What runs again and why, a line per label."""
    from longshore.app.restart import WHY

    if not again.total and not again.unfinished:
        click.echo(f"longshore: nothing to run again: every job of '{run}' succeeded", err=True)
        return
    click.echo(f"longshore: {again.total} jobs of '{run}' run again", err=True)
    for label, counts in again.labels.items():
        reasons = ", ".join(f"{count} {WHY[state]}" for state, count in counts.items())
        click.echo(f"longshore:   {label}: {reasons}", err=True)
    if again.unfinished:
        click.echo(f"longshore: and {again.unfinished} that were never over go on", err=True)
