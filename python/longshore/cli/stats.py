"""What runs used (``stats``), and the requests that would fit (``suggest-resources``)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from longshore.cli.options import JSON, OUTPUT_FILE, STDOUT, NonEmptyPath, Number
from longshore.cli.terminal import Terminal, measure_terminal, print_json, print_notes
from longshore.model.measurements import DEFAULT_MARGIN, MAX_MARGIN, MIN_MARGIN
from longshore.model.report import escape_controls
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
        from longshore.reports.statistics_text import statistics_lines
        from longshore.reports.styled import lines_text

        terminal = measure_terminal(sys.stdout) if sys.stdout else Terminal()
        lines = statistics_lines(found, terminal.width, has_unicode=terminal.has_unicode)
        click.echo(lines_text(lines, color=terminal.has_color))
    print_notes(str(damage) for run in opened for damage in run.damages)


@click.command(
    epilog="Example: longshore suggest-resources @last --output tuned.yaml    "
    "or: longshore suggest-resources k7f3aa m2c9d1 --over run.yaml"
)
@click.argument("references", metavar="RUN|LABEL...", nargs=-1, required=True)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Only that label. Can be repeated.")
@click.option(
    "--margin",
    type=Number(min=MIN_MARGIN, max=MAX_MARGIN),
    default=DEFAULT_MARGIN,
    show_default=True,
    metavar="FACTOR",
    help="Factor on what was measured.",
)
@click.option(
    "--over",
    type=NonEmptyPath(),
    metavar="FILE",
    help="Include FILE, so that the written file wins over it and is submitted.",
)
@click.option(
    "--output",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="Write a new file instead of printing the YAML; - is the standard output.",
)
@JSON
def suggest_resources_command(
    references: tuple[str, ...],
    *,
    labels: tuple[str, ...],
    margin: float,
    over: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write the YAML of requests that fit what the attempts of runs used, and what they would have saved.

    Each line has a comment that tells where its figure comes from. Several runs count together.
    """
    from longshore.model.wording import count_noun
    from longshore.reports.suggested_requests import advise_requests, requests_yaml

    opened, selected = find_runs_and_labels(references, labels)
    advice = advise_requests(opened, labels=selected, margin=margin)
    output = None if output == STDOUT else output
    text = requests_yaml(advice, over=over or "", output=output)
    if as_json:
        from longshore.reports.documents.statistics import suggest_resources_document

        print_json(suggest_resources_document(advice, text, output=str(output) if output else None, as_of=time.time()))
    elif output is None:
        click.echo(text, nl=False)
    else:
        click.echo(escape_controls(f"wrote '{output}' with requests of {count_noun(len(advice.changed), 'label')}"))
        if advice.changed:
            click.echo(f"the runs would have saved {advice.savings}")
        else:
            click.echo("no request is to be changed")
    print_notes(str(damage) for run in opened for damage in run.damages)
