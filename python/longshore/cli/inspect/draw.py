"""``longshore draw``: draws the graph of a run or of a configuration."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from longshore.cli.options import IMPORT, JSON, print_notes
from longshore.cli.parameter_types import OUTPUT_FILE, STDOUT, WholeNumber
from longshore.rundir.archive_names import archive_suffix

_FORMATS = ("dot", "mermaid", "svg")
_SUFFIXES = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".md": "mermaid", ".svg": "svg"}
_DOT_TIMEOUT_S = 60.0


@click.command(epilog="Example: longshore draw @last --output run.svg    or: longshore draw run.yaml --format mermaid")
@click.argument("run", metavar="RUN|FILE")
@click.option("--job", metavar="JOB", help="Draw the jobs around that job instead of the labels.")
@click.option("--depth", type=WholeNumber(1, 10), default=1, show_default=True, help="Steps before and after the job.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
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
        from longshore.cli.show.dot import to_dot, to_mermaid

        format_name = format_name or _SUFFIXES.get(output.suffix.lower() if output else "", "dot")
        text = to_mermaid(picture) if format_name == "mermaid" else to_dot(picture)
        if format_name == "svg":
            text = _to_svg(text)
    if output is None or output == STDOUT:
        click.echo(text)
    else:
        _write_file(output, text)


def _to_svg(text: str) -> str:
    from longshore.errors import FilesError
    from longshore.system.programs import SystemShell

    result = SystemShell().run(["dot", "-Tsvg"], env=os.environ, timeout_s=_DOT_TIMEOUT_S, stdin=text)
    if not result.ok:
        raise FilesError(
            f"Graphviz ('dot'), which draws the SVG, failed: {result.why}",
            hint="Install graphviz, or use --format dot or mermaid.",
        )
    return result.out


def _write_file(path: Path, text: str) -> None:
    from longshore.errors import FilesError

    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error
    click.echo(f"wrote '{path}'", file=sys.stderr)
