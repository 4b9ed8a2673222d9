"""``longshore drive``: the engine of a run; started detached by other commands, in the foreground for debugging."""

from __future__ import annotations

import click

from longshore.app import api


@click.command(hidden=True, epilog="Example: longshore drive --by resume submit/u/me/mosaic/20261120T100000Z")
@click.argument("run")
@click.option("--by", type=click.Choice(["submit", "resume", "take-over", "restart", "cancel"]), default="resume")
def command(run: str, by: str) -> None:
    """Run the engine of a run in the foreground until no job can change any more."""
    api.drive(api.open_run(run), by)
