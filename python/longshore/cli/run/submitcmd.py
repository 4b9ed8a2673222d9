"""``longshore submitcmd``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, print_json
from longshore.cli.submit_options import CONFIG_FILE, script_options, see_through

if TYPE_CHECKING:
    from longshore.app.configure.layers import Overrides


@click.command(epilog="Example: longshore submitcmd script.yaml --wait")
@CONFIG_FILE
@script_options
@click.option("--dry-run", is_flag=True, help="Write the run directory and stop.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does.")
@JSON
@click.pass_context
def command(
    ctx: click.Context, /, *, config_file: Path, overrides: Overrides, dry_run: bool, wait: bool, as_json: bool
) -> None:
    """Run one script of your own as a job: the section customJob of FILE, no graph needed."""
    from longshore.app.submit.hand_over import SubmittedRun
    from longshore.app.submit.submitcmd import submitcmd
    from longshore.cli.logging_setup import Teller

    with Teller() as tell:
        outcome = submitcmd(config_file, overrides, dry_run=dry_run, tell=tell)
    if isinstance(outcome, SubmittedRun):
        ctx.exit(see_through(outcome, wait=wait, as_json=as_json))
    elif as_json:
        import time

        from longshore.app.documents.run import submit_document

        document = submit_document(
            outcome.run,
            outcome.card,
            site=outcome.site,
            notes=("dry run: nothing was handed over",),
            as_of=time.time(),
        )
        print_json(document)
    else:
        click.echo(f"Submit dir: {outcome.run.root}")
