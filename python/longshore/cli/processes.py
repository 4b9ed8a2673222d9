"""Processes that accompany a run, its engine (``drive``) and notifier (``notify``), because others start both detached.

In the foreground, ``drive`` is for debugging; ``notify --test`` tries the rules.
"""

from __future__ import annotations

import os
import time
from shlex import quote
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON
from longshore.cli.terminal import print_json
from longshore.errors import RunNotFoundError, UsageError
from longshore.model.report import escape_controls
from longshore.runstate.open_run import OpenRun, open_run

if TYPE_CHECKING:
    from longshore.control.notifier import NoticeTrial


@click.command(hidden=True, epilog="Example: longshore drive --by resume submit/u/me/mosaic/20261120T100000Z")
@click.argument("run", required=False, metavar="RUN")
@click.option("--by", type=click.Choice(["submit", "resume", "take-over", "restart", "cancel"]), default="resume")
@click.option("--standby", metavar="SERVICE", help="Import the engine, and wait for the run; for 'submit'.")
@click.pass_context
def drive_command(ctx: click.Context, /, run: str | None, by: str, standby: str | None) -> None:
    """Run the engine of a run in the foreground until no job can change any more."""
    from longshore.engine.run.engine_service import EngineService

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
    from longshore.config.service_lookup import find_service
    from longshore.engine.run.engine_service import EngineService
    from longshore.system.detached import await_words

    found = find_service(service)
    if isinstance(found, EngineService):
        found.import_engine()
    try:
        return await_words()
    except OSError as error:
        raise UsageError("'--standby' is for the command that submits a run", hint="Leave it out.") from error


NOT_SENT = 1
"""Exit status of a test in which a notice was not sent."""


@click.command(epilog="Example: longshore notify --test mosaic.yaml    or, of a run: longshore notify --test @last")
@click.argument("name", metavar="FILE|RUN")
@click.option("--test", "is_test", is_flag=True, help="Send a test notice by each rule; exit status 1 if one fails.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a value of FILE. Can be repeated.")
@JSON
@click.pass_context
def notify_command(ctx: click.Context, /, *, name: str, is_test: bool, sets: tuple[str, ...], as_json: bool) -> None:
    """Send the notices of RUN as they fall due, until it is over; engines start this by themselves.

    With --test, each rule of the section 'notify' of FILE or RUN sends a test notice.
    """
    from longshore.control.notifier import try_notices, watch_run

    if not is_test:
        if as_json or sets:
            raise click.UsageError("--json and --set are for --test.")
        watch_run(_open_run(name), lambda line: click.echo(f"longshore: {escape_controls(line)}", err=True))
        return

    from longshore.config.layers import Overrides

    def show(trial: NoticeTrial) -> None:
        if not as_json:
            way = "command" if trial.rule.webhook is None else "webhook"
            click.echo(f"{escape_controls(trial.rule.name)} ({way}): {escape_controls(trial.why) or 'sent'}")

    trials = try_notices(name, Overrides(sets=sets), now=time.time(), show=show)
    if as_json:
        from longshore.control.documents import notify_document

        print_json(notify_document(trials, as_of=time.time()))
    ctx.exit(NOT_SENT if any(trial.why for trial in trials) else 0)


def _open_run(name: str) -> OpenRun:
    try:
        return open_run(name, acts=True)
    except RunNotFoundError as error:
        # Unlike that of `Path`, it gives an answer for names that are too long.
        if os.path.isfile(name):  # noqa: PTH113
            raise UsageError(
                f"'{name}' is a file, and notices are those of a run",
                hint=f"To try the rules of the file: longshore notify --test {quote(name)}",
            ) from error
        raise
