"""``longshore resume``."""

from __future__ import annotations

import time

import click

from longshore.cli.options import JSON, RUN_ID, chosen_run


@click.command(epilog="Example: longshore resume @last")
@RUN_ID
@click.argument("run", required=False)
@JSON
def command(reference: str | None, run: str | None, as_json: bool) -> None:
    """Take up a run whose engine died. What succeeded is not run again; what still runs is adopted."""
    from longshore.app.resume import resume
    from longshore.app.runs import open_run

    chosen = chosen_run(reference, run)
    if not chosen:
        raise click.UsageError("Name the run: longshore resume RUN.")
    opened = open_run(chosen)
    submission = resume(opened)
    notes = submission.notes if submission else ("nothing to resume: every job of the run is over",)
    if as_json:
        from longshore.cli.show_json import dumps, resume_document

        path = str(opened.run.root)
        click.echo(dumps(resume_document(opened.card.id, opened.card.name, path, notes, as_of=time.time())))
        return
    for note in notes:
        click.echo(f"longshore: {note}", err=True)
    click.echo(f"Submit dir: {opened.run.root}")
    click.echo(f"Run Id: {opened.card.id}")
    click.echo(f"Run Name: {opened.card.name}")
