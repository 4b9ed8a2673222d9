"""``longshore verify``: checks that a run directory is as it was written."""

from __future__ import annotations

import time

import click

from longshore.app.runs.open_run import open_run
from longshore.app.verify.verify import verify_run
from longshore.cli.logging_setup import LogProgress
from longshore.cli.options import JSON, print_json
from longshore.cli.show.report_text import error_text
from longshore.errors import LongshoreError, RunUnreadableError

DAMAGED = RunUnreadableError.exit_status
"""Exit status when a run is damaged."""


@click.command(epilog="Example: longshore verify @last    or: longshore verify --list @last")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--list", "lists", is_flag=True, help="Also print each file that is checked, and what is not.")
@JSON
@click.pass_context
def verify_command(ctx: click.Context, /, *, runs: tuple[str, ...], lists: bool, as_json: bool) -> None:
    """Check every file that a resume, restart or report of RUN relies on; the exit status is 5 if any is damaged."""
    results, errors = [], []
    for reference in runs:
        try:
            results.append(verify_run(open_run(reference), LogProgress()))
        except LongshoreError as error:
            if len(runs) == 1:
                raise
            errors.append((reference, error))
            click.echo(error_text(error), err=True)
            continue
        if not as_json:
            from longshore.cli.show.verify_text import verify_text

            click.echo(verify_text(results[-1], lists=lists))
    if as_json:
        from longshore.control.documents import verify_document

        print_json(verify_document(results, errors, as_of=time.time()))
    ctx.exit(0 if not errors and all(result.is_intact for result in results) else DAMAGED)
