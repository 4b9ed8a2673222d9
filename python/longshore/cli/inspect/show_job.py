"""``longshore show-job``: shows the command, environment, request and files of a job."""

from __future__ import annotations

import time

import click

from longshore.app.runs.open_run import open_run
from longshore.cli.options import JSON, print_json, print_notes
from longshore.cli.parameter_types import WholeNumber
from longshore.reports.show_job import show_job


@click.command(epilog="Example: longshore show-job @last coadd_7    or: longshore show-job @last coadd_7 --script | sh")
@click.argument("run")
@click.argument("job")
@click.option("--attempt", type=WholeNumber(min=1), metavar="N", help="Number of the attempt (default: the newest).")
@click.option("--script", is_flag=True, help="Print only a shell script that runs the job by hand.")
@JSON
def show_job_command(run: str, job: str, *, attempt: int | None, script: bool, as_json: bool) -> None:
    """Show the command, environment, request, files, parents and children of JOB."""
    if script and as_json:
        raise click.UsageError("--script excludes --json, whose document has the script too.")
    opened = open_run(run)
    shown = show_job(opened, job, attempt=attempt)
    print_notes(map(str, opened.damages))
    if script:
        click.echo(shown.script.encode("utf-8", "surrogateescape"), nl=False)
    elif as_json:
        from longshore.reports.documents.job import job_document

        print_json(job_document(shown, damage=opened.damages, as_of=time.time()))
    else:
        click.echo(shown.text)
