"""``longshore drive``: the engine of a run; started detached by other commands, in the foreground for debugging."""

from __future__ import annotations

import click

from longshore.app.runs.open_run import open_run
from longshore.config.service_lookup import find_service
from longshore.engine.run.engine_service import EngineService
from longshore.errors import UsageError
from longshore.system.detached import await_words


@click.command(hidden=True, epilog="Example: longshore drive --by resume submit/u/me/mosaic/20261120T100000Z")
@click.argument("run", required=False, metavar="RUN")
@click.option("--by", type=click.Choice(["submit", "resume", "take-over", "restart", "cancel"]), default="resume")
@click.option("--standby", metavar="SERVICE", help="Import the engine, and wait for the run; for 'submit'.")
@click.pass_context
def drive_command(ctx: click.Context, /, run: str | None, by: str, standby: str | None) -> None:
    """Run the engine of a run in the foreground until no job can change any more."""
    if standby is not None:
        words = _await_run(standby)
        if words is not None:
            with drive_command.make_context(ctx.info_name, words, parent=ctx.parent) as handed:
                drive_command.invoke(handed)
        return
    if run is None:
        raise click.MissingParameter(ctx=ctx, param=next(each for each in ctx.command.params if each.name == "run"))
    opened = open_run(run, acts=True)
    if not isinstance(opened.service, EngineService):
        raise UsageError(f"runs of the service '{opened.card.service}' have no engine of ours")
    opened.service.drive(opened.run, by)


def _await_run(service: str) -> list[str] | None:
    """Import the engine of a service, and wait for the words with which to go on; ``None`` if it is not needed."""
    found = find_service(service)
    if isinstance(found, EngineService):
        found.import_engine()
    try:
        return await_words()
    except OSError as error:
        raise UsageError("'--standby' is for the command that submits a run", hint="Leave it out.") from error
