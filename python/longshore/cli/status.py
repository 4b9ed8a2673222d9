"""The state of a run (``status``), apart so that scripts, which ask often, import nothing else."""

from __future__ import annotations

import sys
import time

import click

from longshore.cli.options import GLOBAL, JSON, SERVICE, Number, SearchOptions, group_options, run_option
from longshore.cli.terminal import is_terminal, print_json, print_notes
from longshore.model.report import RunReport
from longshore.model.states import STATE_EXIT_STATUS
from longshore.reports.remote_runs import open_or_query
from longshore.reports.status import status_run


@click.command(epilog="Example: longshore status --id @last && echo all done")
@run_option()
@SERVICE
@click.option(
    "--hist",
    type=Number(min=0.0),
    metavar="DAYS",
    help="As in BPS; without effect: the state of a run is always known.",
)
@GLOBAL
@JSON
@group_options(search=SearchOptions)
@click.pass_context
def status_command(ctx: click.Context, /, *, run: str, search: SearchOptions, as_json: bool) -> None:
    """Print the state of a run. Exit status: 0 SUCCEEDED, 10 UNKNOWN, 15 RUNNING, 16 DELETED, 17 HELD, 19 FAILED."""
    opened = open_or_query(run, service=search.wms_service_class, everywhere=search.is_global, days=search.hist or 0.0)
    if search.hist is not None and not isinstance(opened, RunReport):
        print_notes(["'--hist' has no effect: the state of a run is always known here"])
    report = opened if isinstance(opened, RunReport) else status_run(opened, check=True)
    if as_json:
        from longshore.reports.documents.run import status_document

        print_json(status_document(report, as_of=time.time()))
    else:
        # Scripts compare the state with BPS's; a person sees whether the run is paused.
        click.echo(report.state_word if is_terminal(sys.stdout) else report.state)
        print_notes(report.notes)
    ctx.exit(STATE_EXIT_STATUS[report.state])
