"""``longshore submitcmd``: submits one script as a job, without a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON, SHARE_OUTPUTS, print_json
from longshore.cli.submit_options import CONFIG_FILE, PROBE, report_submission, script_options

if TYPE_CHECKING:
    from longshore.config.layers import Overrides


@click.command(epilog="Example: longshore submitcmd script.yaml --wait")
@CONFIG_FILE
@script_options
@click.option("--dry-run", is_flag=True, help="Write the run directory, then stop.")
@PROBE
@SHARE_OUTPUTS
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does, or 21 at a pause.")
@JSON
@click.pass_context
def submitcmd_command(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    dry_run: bool,
    with_probe: bool,
    share_outputs: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Submit one script as a job: the section customJob of FILE, without a graph."""
    from longshore.cli.logging_setup import LogProgress
    from longshore.plan.script_run import prepare_script, submit_script

    if not dry_run:
        with LogProgress() as progress:
            submitted = submit_script(
                config_file, overrides, with_probe=with_probe, shares_outputs=share_outputs, progress=progress
            )
        ctx.exit(report_submission(submitted, wait=wait, as_json=as_json))
    with LogProgress() as progress:
        prepared = prepare_script(config_file, overrides, progress=progress)
    if as_json:
        import time

        from longshore.reports.documents.run import submit_document

        document = submit_document(
            prepared.run,
            prepared.card,
            site=prepared.site,
            notes=("dry run: nothing was submitted",),
            as_of=time.time(),
        )
        print_json(document)
    else:
        click.echo(f"Submit dir: {prepared.run.root}")
