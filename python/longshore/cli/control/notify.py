"""``longshore notify``: the notifier of a run, and a test of its rules."""

from __future__ import annotations

import os
import time
from shlex import quote
from typing import TYPE_CHECKING

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.options import JSON, print_json
from longshore.cli.show.format import escape_controls
from longshore.control.notifier import try_notices, watch_run
from longshore.errors import RunNotFoundError, UsageError

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun
    from longshore.control.notifier import NoticeTrial

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
