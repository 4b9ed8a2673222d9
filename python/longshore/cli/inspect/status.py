"""``longshore status``."""

from __future__ import annotations

import time
from typing import Any

import click

from longshore.cli.options import GLOBAL, JSON, RUN_ID, SERVICE, chosen_run, print_json


@click.command(epilog="Example: longshore status --id @last && echo all done")
@RUN_ID
@click.argument("run", required=False)
@SERVICE
@click.option(
    "--hist", type=click.FloatRange(min=0.0), metavar="DAYS", help="As in BPS; a run's state is always known."
)
@GLOBAL
@JSON
@click.pass_context
def command(ctx: click.Context, /, reference: str | None, run: str | None, **options: Any) -> None:
    """Say how a run stands. Exit status: 0 SUCCEEDED, 10 UNKNOWN, 15 RUNNING, 16 DELETED, 17 HELD, 19 FAILED."""
    from longshore.app.inspect.remote_runs import open_or_query
    from longshore.app.report.status import status_run
    from longshore.model.run.report import RunReport
    from longshore.model.run.state import EXIT_STATUS

    chosen = chosen_run(reference, run)
    if not chosen:
        raise click.UsageError("Name the run: --id RUN.")
    opened = open_or_query(
        chosen,
        service=options["wms_service_class"],
        everywhere=options["is_global"],
        days=options["hist"] or 0.0,
    )
    report = opened if isinstance(opened, RunReport) else status_run(opened)
    if options["as_json"]:
        from longshore.app.documents.run import status_document

        print_json(status_document(report, as_of=time.time()))
    else:
        click.echo(report.state)
        for note in report.notes:
            click.echo(f"longshore: {note}", err=True)
    ctx.exit(EXIT_STATUS[report.state])
