"""``longshore report``."""

from __future__ import annotations

import time

import click

from longshore.cli.options import JSON, RUN_ID, chosen_run


@click.command(epilog="Example: longshore report --id @last")
@RUN_ID
@click.argument("run", required=False)
@JSON
def command(reference: str | None, run: str | None, as_json: bool) -> None:
    """Show all runs, or one run in detail."""
    from longshore.app.report import list_runs, report_run
    from longshore.app.runs import open_run
    from longshore.cli.show_json import dumps, report_document
    from longshore.cli.show_text import detailed, summary_table

    chosen = chosen_run(reference, run)
    if chosen:
        reports = [report_run(open_run(chosen), details=True)]
        broken: list[str] = []
    else:
        reports, broken = list_runs()
    if as_json:
        click.echo(dumps(report_document(reports, as_of=time.time(), details=bool(chosen))))
    else:
        click.echo(detailed(reports[0]) if chosen else summary_table(reports))
    for line in broken:
        click.echo(f"longshore: {line}", err=True)
