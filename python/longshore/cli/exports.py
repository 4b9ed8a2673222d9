"""Runs in formats of other programs: JSON Lines (``events``), tables and traces (``export``), pictures (``draw``)."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from longshore.cli.options import IMPORT, JSON, OUTPUT_FILE, STDOUT, WholeNumber, run_option
from longshore.cli.terminal import SafeOutput, print_notes
from longshore.errors import FilesError
from longshore.model.report import Drawing, DrawingNode
from longshore.model.states import STATE_EXIT_STATUS, JobState
from longshore.reports.status import status_run
from longshore.rundir.archive_names import archive_suffix
from longshore.runstate.events import RunEvents, job_name_lookup
from longshore.runstate.open_run import open_run


@click.command(epilog="Example: longshore events @last --follow | jq -r 'select(.event == \"failed\") | .job'")
@run_option()
@click.option("--follow", "-f", is_flag=True, help="Continue with new events until the run is over.")
@click.option("--since", metavar="MARK", help="Only events after the one with that 'mark'.")
@click.option("--json", is_flag=True, expose_value=False, help="Print errors as JSON too; events always are.")
@click.pass_context
def events_command(ctx: click.Context, /, *, run: str, follow: bool, since: str | None) -> None:
    """Print the events of a run in order, as JSON Lines (one event a line)."""
    from longshore.reports.documents.document import to_line
    from longshore.reports.documents.event import event_document

    opened = open_run(run)
    events = RunEvents(opened, since=since)
    name_of = job_name_lookup(opened)
    output = SafeOutput(raw=True)
    for mark, event in events.follow() if follow else events:
        output.write_line(to_line(event_document(event, mark, run=opened.card.id, name_of=name_of)))
        if follow:
            output.flush()
    output.flush()
    if events.is_engine_gone:
        report = status_run(opened, check=True)
        print_notes(report.notes)
        ctx.exit(STATE_EXIT_STATUS[report.state])


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
    from longshore.reports.export.formats import export_run, render_run

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


_COLOURS: Final[tuple[tuple[JobState, str], ...]] = (
    (JobState.FAILED, "#f4b6b6"),
    (JobState.HELD, "#f6d9a8"),
    (JobState.RUNNING, "#b9d7f5"),
    (JobState.PENDING, "#d9e8f7"),
    (JobState.DELETED, "#dddddd"),
    (JobState.PRUNED, "#e6dcef"),
)
"""Colour of a box by the states of its jobs; the first that matches is used."""
_SUCCEEDED_COLOUR: Final = "#c4e6c0"
_DEFAULT_COLOUR: Final = "#ffffff"
_MERMAID_UNSAFE: Final = re.compile(r"[^\w .,:+/=-]")


def to_dot(picture: Drawing) -> str:
    """Format a picture for Graphviz."""
    from longshore.plan.drawings import escape_dot

    lines = [
        "digraph longshore {",
        f"  label={_quote(picture.title)}; labelloc=t; rankdir=TB;",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fillcolor="#ffffff"];',
    ]
    for number, box in enumerate(picture.boxes):
        text = r"\n".join(escape_dot(line) for line in box_lines(box))
        emphasis = ", penwidth=3" if box.here else ""
        style = ', style="rounded,dashed"' if box.more else f', fillcolor="{_box_colour(box)}"'
        lines.append(f'  n{number} [label="{text}"{style}{emphasis}];')
    for arrow in picture.arrows:
        text = f' [label="{arrow.jobs:,}"]' if arrow.jobs > 1 else ""
        lines.append(f"  n{arrow.start} -> n{arrow.end}{text};")
    return "\n".join([*lines, "}"])


def to_mermaid(picture: Drawing) -> str:
    """Format a picture for Mermaid, as Markdown pages of several forges draw it."""
    lines = ["flowchart TD"]
    for number, box in enumerate(picture.boxes):
        text = "<br/>".join(_MERMAID_UNSAFE.sub(_to_entity, line) for line in box_lines(box))
        lines.append(f'  n{number}["{text}"]')
        if not box.more:
            lines.append(f"  style n{number} fill:{_box_colour(box)}" + (",stroke-width:3px" if box.here else ""))
    for arrow in picture.arrows:
        text = f"|{arrow.jobs}|" if arrow.jobs > 1 else ""
        lines.append(f"  n{arrow.start} -->{text} n{arrow.end}")
    return "\n".join(lines)


def box_lines(box: DrawingNode) -> list[str]:
    """Lines of text in a box."""
    if box.more:
        return [box.name, box.label]
    lines = [box.name]
    if box.name != box.label:
        lines.append(box.label)
    elif box.jobs:
        lines.append(f"{box.jobs:,} job" + "s" * (box.jobs != 1))
    return [*lines, *_state_lines(box.counts, box.jobs)]


def _state_lines(counts: Mapping[JobState, int], jobs: int) -> list[str]:
    """Number of jobs per state, as short as possible."""
    if jobs == 1 or len(counts) == 1:
        return [state.value.lower() for state in counts]
    return [", ".join(f"{number:,} {state.value.lower()}" for state, number in counts.items())] if counts else []


def _box_colour(box: DrawingNode) -> str:
    for state, colour in _COLOURS:
        if box.counts.get(state):
            return colour
    return _SUCCEEDED_COLOUR if box.counts and set(box.counts) == {JobState.SUCCEEDED} else _DEFAULT_COLOUR


def _quote(text: str) -> str:
    from longshore.plan.drawings import escape_dot

    return f'"{escape_dot(text)}"'


def _to_entity(found: re.Match[str]) -> str:
    return f"#{ord(found[0])};"


_PICTURE_FORMATS = ("dot", "mermaid", "svg")
_SUFFIXES = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".md": "mermaid", ".svg": "svg"}
_DOT_TIMEOUT_S = 60.0


@click.command(epilog="Example: longshore draw @last --output run.svg    or: longshore draw run.yaml --format mermaid")
@click.argument("run", metavar="RUN|FILE")
@click.option("--job", metavar="JOB", help="Draw the jobs around that job instead of the labels.")
@click.option("--depth", type=WholeNumber(1, 10), default=1, show_default=True, help="Steps before and after the job.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_PICTURE_FORMATS),
    help="Format (default: by the suffix of --output, else dot).",
)
@click.option("--output", type=OUTPUT_FILE, metavar="PATH", help="Write to a file; - is the standard output.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a key of the configuration, as for submit."
)
@IMPORT
@JSON
def draw_command(
    run: str,
    *,
    job: str | None,
    depth: int,
    format_name: str | None,
    output: Path | None,
    sets: tuple[str, ...],
    imports_code: bool,
    as_json: bool,
) -> None:
    """Draw the graph of a run or of a configuration FILE: a box per label, with its number of jobs.

    The picture of a run shows the states of each label's jobs; with --job, the job, its parents and its children.
    """
    from longshore.reports.draw import draw_configuration, draw_run

    if Path(run).is_file() and not archive_suffix(run):
        if job is not None:
            raise click.UsageError("--job requires a run; a configuration has no jobs yet.")
        from longshore.cli.logging_setup import LogProgress
        from longshore.config.layers import Overrides

        with LogProgress() as progress:
            picture = draw_configuration(Path(run), Overrides(sets=sets), imports_code=imports_code, progress=progress)
    else:
        if imports_code:
            raise click.UsageError("--import is for a configuration; a look at a run imports no code of it.")
        if sets:
            raise click.UsageError("--set is for a configuration; a run cannot be changed here.")
        picture = draw_run(run, job=job, depth=depth)
        print_notes(map(str, picture.damage))
    if as_json:
        from longshore.reports.documents.document import to_json
        from longshore.reports.documents.job import draw_document

        text = to_json(draw_document(picture, as_of=time.time()))
    else:
        format_name = format_name or _SUFFIXES.get(output.suffix.lower() if output else "", "dot")
        text = to_mermaid(picture) if format_name == "mermaid" else to_dot(picture)
        if format_name == "svg":
            text = _to_svg(text)
    if output is None or output == STDOUT:
        click.echo(text)
    else:
        _write_file(output, text)


def _to_svg(text: str) -> str:
    from longshore.system.programs import SystemShell

    result = SystemShell().run(["dot", "-Tsvg"], env=os.environ, timeout_s=_DOT_TIMEOUT_S, stdin=text)
    if not result.ok:
        raise FilesError(
            f"Graphviz ('dot'), which draws the SVG, failed: {result.why}",
            hint="Install graphviz, or use --format dot or mermaid.",
        )
    return result.out


def _write_file(path: Path, text: str) -> None:

    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error
    click.echo(f"wrote '{path}'", file=sys.stderr)
