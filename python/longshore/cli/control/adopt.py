"""``longshore adopt``: adds runs from elsewhere to the registry."""

from __future__ import annotations

import time
from pathlib import Path

import click

from longshore.app import api
from longshore.cli.options import JSON, print_json


@click.command(epilog="Example: longshore adopt /data/submit    (all runs below it)")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@JSON
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[Path, ...], *, as_json: bool) -> None:
    """Add runs to the registry: run directories, or all run directories below a directory."""
    from longshore.cli.show.adopt_forget_text import adopted_line
    from longshore.cli.show.format import escape_controls

    outcomes = api.adopt(paths)
    if as_json:
        from longshore.app.documents.adopt_forget import adopt_document

        print_json(adopt_document(outcomes, as_of=time.time()))
    for outcome in outcomes:
        if outcome.error:
            hint = f"\n  {escape_controls(outcome.error.hint)}" if outcome.error.hint else ""
            click.echo(f"longshore: error: {escape_controls(outcome.error.message)}{hint}", err=True)
        elif not as_json:
            click.echo(adopted_line(outcome))
    ctx.exit(next((outcome.error.exit_status for outcome in outcomes if outcome.error), 0))
