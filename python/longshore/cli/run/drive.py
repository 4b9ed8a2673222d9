"""``longshore drive``: what a detached engine is started with; also of use to look at an engine at work."""

from __future__ import annotations

import click


@click.command(hidden=True, epilog="Example: longshore drive --by resume submit/u/me/mosaic/20261120T100000Z")
@click.argument("run")
@click.option("--by", type=click.Choice(["submit", "resume", "take-over", "restart", "cancel"]), default="resume")
def command(run: str, by: str) -> None:
    """Be the engine of a run, in the foreground, until nothing of it can move any more."""
    from longshore.app.runs.open_run import open_run
    from longshore.engine.run.service import EngineService
    from longshore.errors import UsageError

    opened = open_run(run)
    if not isinstance(opened.service, EngineService):
        raise UsageError(f"runs of the service '{opened.card.service}' have no engine of ours")
    opened.service.drive(opened.run, by)
