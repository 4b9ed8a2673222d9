"""``longshore events``: prints the events of a run as JSON Lines."""

from __future__ import annotations

import click

from longshore.app import api
from longshore.cli.options import run_option


@click.command(epilog="Example: longshore events @last --follow | jq -r 'select(.event == \"failed\") | .job'")
@run_option()
@click.option("--follow", "-f", is_flag=True, help="Go on as more happens, until the run is finished.")
@click.option("--since", metavar="MARK", help="Only what came after the event of that 'mark'.")
@click.option("--json", is_flag=True, expose_value=False, help="Errors are JSON too; events are in any case.")
@click.pass_context
def command(ctx: click.Context, /, *, run: str, follow: bool, since: str | None) -> None:
    """Print all that happened in a run as JSON Lines, one event a line, in order."""
    from longshore.app.documents.document import to_line
    from longshore.app.documents.event import event_document
    from longshore.cli.safe_output import SafeOutput

    opened = api.open_run(run)
    events = api.events(opened, since=since)
    name_of = api.job_name_lookup(opened)
    output = SafeOutput(raw=True)
    for mark, event in events.follow() if follow else events:
        output.line(to_line(event_document(event, mark, run=opened.card.id, name_of=name_of)))
        if follow:
            output.flush()
    output.flush()
    if events.is_engine_gone:
        from longshore.cli.inspect.follow import end_of_following

        ctx.exit(end_of_following(api.status(opened)))
