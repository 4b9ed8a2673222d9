"""``longshore drive``: the engine of a run; started detached by other commands, in the foreground for debugging."""

from __future__ import annotations

import click

from longshore.app import api


@click.command(hidden=True, epilog="Example: longshore drive --by resume submit/u/me/mosaic/20261120T100000Z")
@click.argument("run", required=False, metavar="RUN")
@click.option("--by", type=click.Choice(["submit", "resume", "take-over", "restart", "cancel"]), default="resume")
@click.option("--standby", metavar="SERVICE", help="Import the engine, and wait for the run; for 'submit'.")
@click.pass_context
def command(ctx: click.Context, /, run: str | None, by: str, standby: str | None) -> None:
    """Run the engine of a run in the foreground until no job can change any more."""
    if standby is not None:
        words = api.await_run(standby)
        if words is not None:
            with command.make_context(ctx.info_name, words, parent=ctx.parent) as handed:
                command.invoke(handed)
        return
    if run is None:
        raise click.MissingParameter(ctx=ctx, param=next(each for each in ctx.command.params if each.name == "run"))
    api.drive(api.open_run(run, acts=True), by)
