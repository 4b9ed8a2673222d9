"""``longshore adopt``: adds runs from elsewhere to the registry, and trusts runs of other users."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from longshore.cli.options import JSON, print_json
from longshore.control.adopt import adopt, read_contents, trust_run
from longshore.errors import LongshoreError

if TYPE_CHECKING:
    from longshore.control.adopt import AdoptResult


@click.command(epilog="Example: longshore adopt /data/submit    (all runs below it)")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help="Show what runs of other users would start, and allow commands to act.")
@click.option("--yes", is_flag=True, help="Do not ask before a run is trusted.")
@JSON
@click.pass_context
def adopt_command(ctx: click.Context, /, paths: tuple[Path, ...], *, trust: bool, yes: bool, as_json: bool) -> None:
    """Add runs to the registry: run directories, archives of runs, or all run directories below a directory."""
    from longshore.cli.show.adopt_forget_text import adopted_line
    from longshore.cli.show.format import escape_controls

    outcomes = adopt(paths)
    if trust:
        outcomes = [_trust(outcome, yes=yes) if outcome.card else outcome for outcome in outcomes]
    if as_json:
        from longshore.control.documents import adopt_document

        print_json(adopt_document(outcomes, as_of=time.time()))
    for outcome in outcomes:
        if outcome.error:
            hint = f"\n  {escape_controls(outcome.error.hint)}" if outcome.error.hint else ""
            click.echo(f"longshore: error: {escape_controls(outcome.error.message)}{hint}", err=True)
        elif not as_json:
            click.echo(adopted_line(outcome))
    ctx.exit(next((outcome.error.exit_status for outcome in outcomes if outcome.error), 0))


def _trust(outcome: AdoptResult, *, yes: bool) -> AdoptResult:
    """Show what a run of another user would start, and record the user's consent; without effect for an own run."""
    from longshore.cli.show.adopt_forget_text import contents_text

    try:
        contents = read_contents(outcome.path)
        if contents is None:
            return outcome
        click.echo(contents_text(contents), err=True)
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("A run would be trusted; without a terminal that requires --yes.")
            click.confirm("Trust this run?", abort=True, err=True)
        trust_run(contents)
    except LongshoreError as error:
        return replace(outcome, card=None, error=error)
    return replace(outcome, trusted=contents)
