"""``longshore export``: writes a run in a format of other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.options import print_notes, run_option
from longshore.cli.parameter_types import OUTPUT_FILE, STDOUT
from longshore.reports.export.formats import export_run, render_run

_FORMATS: Final = ("csv", "openmetrics", "wfformat", "ro-crate")


@click.command(
    epilog="Example: longshore export @last --format csv --output attempts.csv    "
    "or: longshore export @last --format openmetrics"
)
@run_option()
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    required=True,
    help="csv: a table with a row per attempt. openmetrics: metrics of the run at this moment, for Prometheus. "
    "wfformat: the workflow and its execution in WfFormat 1.5 of WfCommons. "
    "ro-crate: a Process Run Crate, which tells what was run with which files.",
)
@click.option(
    "--output",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="Write to a file, whole or not at all; without it, or with -, to the standard output. "
    "A crate becomes a new directory, or an archive if FILE ends with .zip.",
)
def export_command(run: str, *, format_name: str, output: Path | None) -> None:
    """Export a run, live or over, for other programs."""
    opened = open_run(run)
    if output is not None and output != STDOUT:
        export_run(opened, format_name, output)
        click.echo(f"wrote '{output}'", file=sys.stderr)
    else:
        chunks = render_run(opened, format_name)
        if sys.stdout:
            sys.stdout.flush()
            sys.stdout.buffer.writelines(chunks)
    print_notes(str(damage) for damage in opened.damages)
