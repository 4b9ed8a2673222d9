"""Which runs are known: ``adopt`` adds runs from elsewhere and trusts those of others, ``forget`` removes runs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
from msgspec.structs import replace

from longshore.cli.options import JSON
from longshore.cli.terminal import print_json
from longshore.config.secrets import hide_secrets
from longshore.control.adopt import (
    AdoptResult,
    ForgottenRun,
    RunContents,
    adopt,
    forget_missing_runs,
    forget_run,
    read_contents,
    trust_run,
)
from longshore.errors import LongshoreError
from longshore.model.report import escape_controls


def adopted_line(outcome: AdoptResult) -> str:
    """Format the outcome of adopting a run directory."""
    assert outcome.card
    was = f" (its id led to '{outcome.former_path}' before)" if outcome.former_path else ""
    trusted = f", and trusted as a run of '{outcome.owner}'" if outcome.trusted else ""
    return escape_controls(f"Adopted run {outcome.card.id} ({outcome.card.name}) in '{outcome.path}'{was}{trusted}")


def contents_text(contents: RunContents) -> str:
    """Format what a run of another user would start."""
    record = contents.record
    lines = [
        f"'{record.path}' belongs to the user '{contents.owner}'. Commands that act on it would start as you:",
        f"  service: {contents.card.service}" + (f", the class '{contents.plug_in}'" if contents.plug_in else ""),
        f"  jobs: {contents.jobs}",
        *(f"  first job of a label: {name}: {hide_secrets(command)}" for name, command in contents.commands),
        *(f"  program: {program}" for program in contents.programs),
        f"  all commands: {contents.workflow}",
    ]
    return "\n".join(map(escape_controls, lines))


def forgotten_line(outcome: ForgottenRun) -> str:
    """Format the outcome of forgetting a run."""
    what = "stays" if os.path.lexists(outcome.path) else "is gone"
    where = f"; its directory {what}: {outcome.path}" if outcome.path else ""
    return escape_controls(f"Forgot run {outcome.id}{where}")


@click.command(epilog="Example: longshore adopt /data/submit    (all runs below it)")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--trust", is_flag=True, help="Show what runs of other users would start, and allow commands to act.")
@click.option("--yes", is_flag=True, help="Do not ask before a run is trusted.")
@JSON
@click.pass_context
def adopt_command(ctx: click.Context, /, paths: tuple[Path, ...], *, trust: bool, yes: bool, as_json: bool) -> None:
    """Add runs to the registry: run directories, archives of runs, or all run directories below a directory."""
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


@click.command(epilog="Example: longshore forget k7f3aa    or: longshore forget --missing")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--missing", is_flag=True, help="All runs whose directories were removed or moved.")
@click.option("--force", is_flag=True, help="Even if the run is live; it continues.")
@JSON
def forget_command(runs: tuple[str, ...], *, missing: bool, force: bool, as_json: bool) -> None:
    """Remove runs from the registry: they are no longer listed or found by id. Their directories stay."""
    if not runs and not missing:
        raise click.UsageError("Name the runs, as in 'longshore forget @last', or use --missing.")
    forgotten = forget_missing_runs() if missing else []
    if not as_json:
        for each in forgotten:
            click.echo(forgotten_line(each))
    for reference in runs:
        forgotten.append(forget_run(reference, force=force))
        if not as_json:
            click.echo(forgotten_line(forgotten[-1]))
    if as_json:
        from longshore.control.documents import forget_document

        print_json(forget_document(forgotten, as_of=time.time()))
