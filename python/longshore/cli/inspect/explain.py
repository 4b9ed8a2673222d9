"""``longshore explain``: explains the state and history of a job."""

from __future__ import annotations

import time

import click

from longshore.app import api
from longshore.cli.options import JSON, print_json, print_notes


@click.command(epilog="Example: longshore explain @last coadd_7")
@click.argument("run")
@click.argument("job")
@JSON
def command(run: str, job: str, *, as_json: bool) -> None:
    """Explain why JOB waits, runs, was retried, failed or was pruned, and print its history."""
    now = time.time()
    opened = api.open_run(run)
    explained = api.explain(opened, job)
    print_notes(map(str, opened.damages))
    if as_json:
        from longshore.app.documents.job import explain_job_document
        from longshore.cli.show.job_text import state_reasons

        print_json(explain_job_document(explained, state_reasons(explained, now=now), damage=opened.damages, as_of=now))
        return
    from longshore.cli.show.job_text import explanation_text

    click.echo(explanation_text(explained, now=now))
