"""``longshore report``."""

from __future__ import annotations

import time
from typing import Any

import click

from longshore.cli.options import GLOBAL, JSON, PASS_THRU, RUN_ID, SERVICE, chosen_run


@click.command(epilog="Example: longshore report --id @last    or: longshore report --hist 2 --user me")
@RUN_ID
@click.argument("run", required=False)
@SERVICE
@click.option("--user", metavar="NAME", help="Only the runs of that user.")
@click.option("--hist", type=click.FloatRange(min=0.0), metavar="DAYS", help="Also runs that ended so many days ago.")
@PASS_THRU
@click.option("--return-exit-codes", is_flag=True, help="With --id: also count how jobs failed, per label.")
@GLOBAL
@JSON
def command(reference: str | None, run: str | None, **options: Any) -> None:
    """Show the runs that are not over (the last five if there is none), or one run in detail."""
    from longshore.app.report import list_runs, report_run
    from longshore.app.runs import open_run
    from longshore.cli.show_json import dumps, report_document
    from longshore.cli.show_text import detailed, exit_codes, summary_table

    chosen = chosen_run(reference, run)
    now = time.time()
    notes: tuple[str, ...] = ()
    if chosen:
        reports = [report_run(open_run(chosen, service=options["wms_service_class"]), details=True)]
        text = detailed(reports[0])
        if options["return_exit_codes"]:
            text += f"\n\n\n{exit_codes(reports[0])}"
    else:
        found = list_runs(days=options["hist"] or None, user=options["user"], now=now)
        reports, notes = list(found.reports), found.notes
        text = summary_table(reports)
    if options["as_json"]:
        text = dumps(report_document(reports, as_of=now, details=bool(chosen)))
    click.echo(text)
    for line in notes:
        click.echo(f"longshore: {line}", err=True)
