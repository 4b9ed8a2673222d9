"""``longshore events``: prints the events of a run as JSON Lines."""

from __future__ import annotations

import click

from longshore.app.runs.events import RunEvents, job_name_lookup
from longshore.app.runs.open_run import open_run
from longshore.cli.options import print_notes, run_option
from longshore.model.states import STATE_EXIT_STATUS
from longshore.reports.status import status_run


@click.command(epilog="Example: longshore events @last --follow | jq -r 'select(.event == \"failed\") | .job'")
@run_option()
@click.option("--follow", "-f", is_flag=True, help="Continue with new events until the run is over.")
@click.option("--since", metavar="MARK", help="Only events after the one with that 'mark'.")
@click.option("--json", is_flag=True, expose_value=False, help="Print errors as JSON too; events always are.")
@click.pass_context
def events_command(ctx: click.Context, /, *, run: str, follow: bool, since: str | None) -> None:
    """Print the events of a run in order, as JSON Lines (one event a line)."""
    from longshore.cli.safe_output import SafeOutput
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
