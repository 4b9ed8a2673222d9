"""``longshore draw``: draws the graph of a run or of a configuration."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from longshore.app import api
from longshore.cli.options import JSON

_FORMATS = ("dot", "mermaid", "svg")
_SUFFIXES = {".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".md": "mermaid", ".svg": "svg"}
_SVG_S = 60.0


@click.command(epilog="Example: longshore draw @last --output run.svg    or: longshore draw run.yaml --format mermaid")
@click.argument("run", metavar="RUN|FILE")
@click.option("--job", metavar="JOB", help="Draw what is near that job of the run, and not the labels.")
@click.option(
    "--depth", type=click.IntRange(1, 10), default=1, show_default=True, help="Steps before and after the job."
)
@click.option("--format", "form", type=click.Choice(_FORMATS), help="Else what the output's name says, or dot.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="PATH", help="Write it to a file.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="As for submit, where a file is drawn.")
@JSON
def command(
    run: str,
    *,
    job: str | None,
    depth: int,
    form: str | None,
    output: Path | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Draw a run, or what a configuration FILE would come to: a box for each label, with its number of jobs.

    The picture is as legible for a hundred thousand jobs as for ten. Of a run it shows how each label stands; with
    --job, the jobs that one waits for and is waited for by.
    """
    if Path(run).is_file():
        if job is not None:
            raise click.UsageError("--job is for a run; a configuration has no jobs yet.")
        from longshore.app.configure.layers import Overrides
        from longshore.cli.logging_setup import LogProgress

        with LogProgress() as progress:
            picture = api.draw_configuration(Path(run), Overrides(sets=sets), progress=progress)
    else:
        if sets:
            raise click.UsageError("--set is for a configuration; a run is as it is.")
        picture = api.draw_run(run, job=job, depth=depth)
    if as_json:
        from longshore.app.documents.document import to_json
        from longshore.app.documents.picture import draw_document

        text = to_json(draw_document(picture, as_of=time.time()))
    else:
        from longshore.cli.show.dot import to_dot, to_mermaid

        form = form or _SUFFIXES.get(output.suffix.lower() if output else "", "dot")
        text = to_mermaid(picture) if form == "mermaid" else to_dot(picture)
        if form == "svg":
            text = _svg(text)
    if output is None:
        click.echo(text)
    else:
        _write(output, text)


def _svg(text: str) -> str:
    from longshore.errors import FilesError
    from longshore.world.processes.shell import SystemShell

    answer = SystemShell().run(["dot", "-Tsvg"], env=os.environ, timeout_s=_SVG_S, stdin=text)
    if not answer.ok:
        raise FilesError(
            f"an SVG is drawn by Graphviz, and 'dot' failed: {answer.why}",
            hint="Install graphviz, or use --format dot or mermaid.",
        )
    return answer.out


def _write(path: Path, text: str) -> None:
    from longshore.errors import FilesError

    try:
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error
    click.echo(f"wrote '{path}'", file=sys.stderr)
