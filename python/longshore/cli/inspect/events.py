"""``longshore events``."""

from __future__ import annotations

from typing import Any

import click

from longshore.cli.options import JSON, RUN_ID, chosen_run


@click.command(epilog="Example: longshore events @last --follow | jq -r 'select(.event == \"failed\") | .job'")
@RUN_ID
@click.argument("run", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on as more happens, until the run is finished.")
@click.option("--since", metavar="MARK", help="Only what came after the event of that 'mark'.")
@JSON
@click.pass_context
def command(ctx: click.Context, /, reference: str | None, run: str | None, **options: Any) -> None:
    """Print all that happened in a run as JSON Lines, one event a line, in order."""
    from longshore.app.documents.document import to_line
    from longshore.app.documents.event import event_document
    from longshore.app.runs.event_log import RunEvents
    from longshore.app.runs.open_run import of_one_run, open_run
    from longshore.cli.safe_output import Output
    from longshore.engine.rundir.job_table import JobTable

    # It is JSON in any case; where that is asked for, errors are too.
    follow = options["follow"]
    chosen = chosen_run(reference, run)
    if not chosen:
        raise click.UsageError("Name the run: longshore events RUN.")
    opened = open_run(chosen)
    events = RunEvents(opened, since=options["since"])
    jobs = JobTable(opened.run, "names")
    output = Output(raw=True)

    def name_of(job: int) -> tuple[str, str]:
        with of_one_run(opened.run):
            return jobs.names[job], jobs.label(job)

    for mark, event in events.follow() if follow else events:
        output.line(to_line(event_document(event, mark, run=opened.card.id, name_of=name_of)))
        if follow:
            output.flush()
    output.flush()
    if events.lost:
        from longshore.app.report.status import status_run
        from longshore.cli.inspect.follow import end_of_following

        ctx.exit(end_of_following(status_run(opened)))
