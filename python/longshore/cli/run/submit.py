"""``longshore submit``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import JSON
from longshore.cli.submit_options import FILE, see_through, submission_options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from longshore.app.configure.layers import Overrides
    from longshore.app.progress import Teller
    from longshore.app.submit.hand_over import SubmittedRun


@click.command(
    epilog="Examples: longshore submit montage.yaml --set requestMemory=4096 --wait; "
    "longshore submit submit/u/me/montage/20260102T030405Z",
)
@click.argument("config_file", metavar="FILE|RUN_DIR", type=FILE)
@submission_options
@click.option("--force", is_flag=True, help="Of RUN_DIR: even if what it was prepared from is different now.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; exit as 'status' does.")
@JSON
@click.pass_context
def command(
    ctx: click.Context, /, *, config_file: Path, overrides: Overrides, force: bool, wait: bool, as_json: bool
) -> None:
    """Prepare the run that FILE describes and hand it to a workload manager.

    With the directory that 'prepare' wrote, hand that over as it is, if nothing it was made from has changed since.
    """
    from longshore.cli.logging_setup import Teller

    with Teller() as tell:
        submitted = _submitted(config_file, overrides, force=force, tell=tell)
    ctx.exit(see_through(submitted, wait=wait, as_json=as_json))


def _submitted(path: Path, overrides: Overrides, *, force: bool, tell: Teller) -> SubmittedRun:
    # `os.path`, unlike `Path`, has an answer for names that are too long or may not be looked at.
    if os.path.isdir(path):  # noqa: PTH112
        from longshore.app.submit.submit_prepared import take_up

        if overrides:
            keys = [*overrides.options, *(pair.partition("=")[0] for pair in overrides.sets)]
            named = ", ".join(f"'{key}'" for key in keys)
            raise UsageError(
                f"'{path}' is prepared already, and {named} would have no effect",
                hint="Prepare the run again with these options, or leave them out.",
            )
        return take_up(path, force=force, tell=tell)
    from longshore.app.submit.submit import submit

    if force:
        raise UsageError("'--force' is for a directory that was prepared", hint="Leave it out.")
    return submit(path, overrides, tell=tell)
