"""``longshore submit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshore.cli.options import JSON
from longshore.cli.submission import CONFIG_FILE, named_values, see_through, submission_options


@click.command(
    epilog="Example: longshore submit montage.yaml --set requestMemory=4096 --wait",
)
@CONFIG_FILE
@submission_options
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does.")
@JSON
@click.pass_context
def command(ctx: click.Context, /, config_file: Path, **options: Any) -> None:
    """Prepare the run that FILE describes and hand it to a workload manager."""
    from longshore.app.submit import submit
    from longshore.cli.logs import Teller

    with Teller() as tell:
        submitted = submit(config_file, options=named_values(options), sets=options["sets"], tell=tell)
    ctx.exit(see_through(submitted, wait=options["wait"], as_json=options["as_json"]))
