"""``longshore submit``: prepares a run and submits it, or submits a prepared run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.app import api
from longshore.cli.options import JSON
from longshore.cli.submit_options import FILE_TYPE, report_submission, submission_options

if TYPE_CHECKING:
    from longshore.app.configure.layers import Overrides


@click.command(
    epilog="Examples: longshore submit montage.yaml --set requestMemory=4096 --wait; "
    "longshore submit montage.yaml --strict; longshore submit submit/u/me/montage/20260102T030405Z",
)
@click.argument("config_file", metavar="FILE|RUN_DIR", type=FILE_TYPE)
@submission_options
@click.option("--force", is_flag=True, help="Submit RUN_DIR even if its input files have changed.")
@click.option("--strict", is_flag=True, help="Refuse a run with any warning, and list all warnings.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does.")
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    config_file: Path,
    overrides: Overrides,
    force: bool,
    strict: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Prepare the run that FILE describes and submit it to a workload manager.

    RUN_DIR, written by 'prepare', is submitted as it is, unless its input files have changed.
    """
    from longshore.cli.logging_setup import LogProgress

    with LogProgress() as progress:
        submitted = api.submit(config_file, overrides, force=force, strict=strict, progress=progress)
    ctx.exit(report_submission(submitted, wait=wait, as_json=as_json))
