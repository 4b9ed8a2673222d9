"""``longshore explain``: explains the state and history of a job."""

from __future__ import annotations

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.options import JSON, print_json, print_notes
from longshore.reports.explain import explain_job


@click.command(epilog="Example: longshore explain @last coadd_7")
@click.argument("run")
@click.argument("job")
@JSON
def explain_command(run: str, job: str, *, as_json: bool) -> None:
    """Explain why JOB waits, runs, was retried, failed or was pruned, and print its history."""
    opened = open_run(run)
    explained = explain_job(opened, job)
    print_notes(map(str, opened.damages))
    if as_json:
        from longshore.reports.documents.job import explain_job_document

        print_json(explain_job_document(explained, damage=opened.damages))
    else:
        click.echo(explained.text)
