"""``longshore archive``: writes a run into one file that commands read like the run."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import Final

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.logging_setup import LogProgress
from longshore.cli.options import JSON, print_json
from longshore.cli.parameter_types import NonEmptyPath
from longshore.control.archive import archive_run

_MAX_DAMAGES: Final = 3


@click.command(epilog="Example: longshore archive @last    then: longshore report --id FILE.tar.xz")
@click.argument("run")
@click.option(
    "--output",
    type=NonEmptyPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The archive: FILE.tar.xz, FILE.tar.gz or FILE.tar.bz2 (default: beside the run directory).",
)
@click.option("--remove", is_flag=True, help="Remove the run directory once the archive was read back and compared.")
@JSON
def archive_command(*, run: str, output: Path | None, remove: bool, as_json: bool) -> None:
    """Write a run that is over into one file, which report, status, logs, explain, stats and events read.

    With --remove, the id of the run leads to the archive from then on.
    """
    result = archive_run(open_run(run, acts=True), output, remove=remove, progress=LogProgress())
    if as_json:
        from longshore.control.documents import archive_document

        print_json(archive_document(result, as_of=time.time()))
        return
    from longshore.cli.show.format import escape_controls, format_size
    from longshore.model.wording import count_noun

    files = f"{count_noun(result.files, 'file')} of {format_size(result.content_b)}"
    click.echo(
        escape_controls(f"archived run '{result.run}' in '{result.path}': {files}, {format_size(result.size_b)}")
    )
    for name in result.left_out:
        click.echo(escape_controls(f"longshore: not in the archive: '{name}' is a link, pipe or socket"), err=True)
    for damage in result.damages[:_MAX_DAMAGES]:
        click.echo(
            escape_controls(f"longshore: warning: the run is damaged, and so is its archive: {damage}"), err=True
        )
    if more := result.damages[_MAX_DAMAGES:]:
        words = f"longshore: warning: {len(more)} more damages; to see them: longshore verify {quote(run)}"
        click.echo(escape_controls(words), err=True)
    if result.removed:
        click.echo("removed the run directory")
