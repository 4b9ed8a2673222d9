"""``longshore stats``: prints statistics of the attempts of runs, per label and per host."""

from __future__ import annotations

import sys
import time

import click

from longshore.cli.options import JSON, print_json, print_notes
from longshore.reports.statistics import find_runs_and_labels, read_statistics


@click.command(
    epilog="Example: longshore stats @last    or: longshore stats @last calibrate    or: longshore stats k7f3aa m2c9d1"
)
@click.argument("references", metavar="RUN|LABEL...", nargs=-1, required=True)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only that label. Can be repeated.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values, a row per run, label and host.")
@JSON
def stats_command(references: tuple[str, ...], *, labels: tuple[str, ...], as_csv: bool, as_json: bool) -> None:
    """Print waits, run times, use of processors and memory, retries and badput, per label and host.

    Several runs stand side by side. A name that is no run is a label of the runs, or of the last run.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv excludes --json.")
    opened, selected = find_runs_and_labels(references, labels)
    found = [read_statistics(run, labels=selected) for run in opened]
    if as_json:
        from longshore.reports.documents.statistics import stats_document

        print_json(stats_document(found, selected, as_of=time.time()))
    elif as_csv:
        from longshore.reports.statistics_text import write_csv

        if sys.stdout:
            write_csv(found, sys.stdout)
    else:
        from longshore.cli.terminal import Terminal, measure_terminal
        from longshore.reports.statistics_text import statistics_lines
        from longshore.reports.styled import lines_text

        terminal = measure_terminal(sys.stdout) if sys.stdout else Terminal()
        lines = statistics_lines(found, terminal.width, has_unicode=terminal.has_unicode)
        click.echo(lines_text(lines, color=terminal.has_color))
    print_notes(str(damage) for run in opened for damage in run.damages)
