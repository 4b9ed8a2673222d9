"""``longshore report``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from longshore.cli.options import GLOBAL, JSON, PASS_THRU, RUN_ID, SERVICE, chosen_run, print_json

if TYPE_CHECKING:
    from longshore.contract.search import RemoteRuns

_OF_LISTS = ("user", "filters", "fields", "tsv", "no_header")


@click.command(
    epilog="Example: longshore report --id @last    or: longshore report --hist 2 --filter state=FAILED,DELETED"
)
@RUN_ID
@click.argument("run", required=False)
@SERVICE
@click.option("--user", metavar="NAME", help="Only the runs of that user.")
@click.option("--hist", type=click.FloatRange(min=0.0), metavar="DAYS", help="Also runs that ended so many days ago.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Only such runs, over or not: also FIELD!=VALUE, FIELD~REGEX, FIELD>NUMBER, FIELD<NUMBER. Can be repeated.",
)
@click.option("--format", "fields", metavar="FIELD,...", help="Which fields to show of each run.")
@click.option("--tsv", is_flag=True, help="Part fields by tabs instead of laying out a table.")
@click.option("--no-header", is_flag=True, help="Leave the names of the fields out.")
@PASS_THRU
@click.option("--return-exit-codes", is_flag=True, help="With --id: also count how jobs failed, per label.")
@click.option(
    "--watch", is_flag=True, help="With --id: keep showing it until it is over; the exit status is its state's."
)
@GLOBAL
@JSON
@click.pass_context
def command(ctx: click.Context, /, reference: str | None, run: str | None, **options: Any) -> None:
    """Show the runs that are not over (the last five if there is none), or one run in detail."""
    chosen = chosen_run(reference, run)
    if chosen:
        if unfit := next((name for name in _OF_LISTS if options[name]), None):
            word = {"filters": "filter", "fields": "format", "no_header": "no-header"}.get(unfit, unfit)
            raise click.UsageError(f"--{word} is for the list of runs, not for a single one.")
        ctx.exit(_one(chosen, **options))
    if options["watch"]:
        raise click.UsageError("Name the run to watch: --id RUN.")
    _several(**options)


def _one(chosen: str, **options: Any) -> int:
    from longshore.app.inspect.remote_runs import open_or_query
    from longshore.app.report.report import report_run
    from longshore.cli.show.report_text import detailed, exit_codes
    from longshore.model.run.report import RunReport

    opened = open_or_query(
        chosen,
        service=options["wms_service_class"],
        everywhere=options["is_global"],
        days=options["hist"] or 0.0,
    )
    if options["watch"] and isinstance(opened, RunReport):
        raise click.UsageError(f"--watch is for runs whose directory is here; '{opened.path}' is not.")
    if options["watch"]:
        if options["as_json"]:
            raise click.UsageError(
                "--watch is for people: with --json ask again and again, or wait with 'submit --wait'."
            )
        from longshore.cli.inspect.watch import watch

        assert not isinstance(opened, RunReport)
        return watch(opened, codes=options["return_exit_codes"])
    now = time.time()
    report = opened if isinstance(opened, RunReport) else report_run(opened, details=options["as_json"], now=now)
    if options["as_json"]:
        from longshore.app.documents.report import report_pieces

        if sys.stdout:
            # Not `click.echo`, which would flush a hundred thousand times.
            sys.stdout.writelines(report_pieces(report, as_of=now))
        return 0
    text = detailed(report)
    if options["return_exit_codes"]:
        text += f"\n\n\n{exit_codes(report)}"
    click.echo(text)
    return 0


def _remote_runs(**options: Any) -> RemoteRuns | None:
    """The runs that workload managers know, where one is named or only one can answer."""
    from longshore.app.inspect.remote_runs import query_runs
    from longshore.contract.search import RunSearch

    required = bool(options["is_global"] or options["pass_thru"])
    search = RunSearch(
        user=options["user"] or "",
        days=options["hist"] or 0.0,
        everywhere=options["is_global"],
        pass_thru=options["pass_thru"],
    )
    return query_runs(options["wms_service_class"], search, required=required)


def _several(**options: Any) -> None:
    from longshore.app.inspect.fields import FIELDS, chosen_fields, wanted
    from longshore.app.inspect.run_list import list_runs
    from longshore.cli.show.report_text import fields_table, summary_table

    now = time.time()
    if (options["fields"] or options["tsv"] or options["no_header"]) and options["as_json"]:
        raise click.UsageError("--format, --tsv and --no-header are for text: --json always has all fields.")
    fields = chosen_fields(options["fields"]) if options["fields"] else tuple(FIELDS)[:9]
    keeps = wanted(options["filters"]) if options["filters"] else None
    found = list_runs(
        days=options["hist"] or None,
        user=options["user"],
        wanted=keeps,
        now=now,
        remote=_remote_runs(**options),
        only_remote=bool(options["pass_thru"]),
    )
    if options["as_json"]:
        from longshore.app.documents.report import report_document

        print_json(report_document(found.reports, as_of=now, details=False, notes=found.notes))
    elif options["fields"] or options["tsv"] or options["no_header"]:
        text = fields_table(found.reports, fields, header=not options["no_header"], tsv=options["tsv"])
        click.echo(text, nl=bool(text))
    else:
        click.echo(summary_table(found.reports, global_ids=options["is_global"]))
    for line in found.notes:
        click.echo(f"longshore: {line}", err=True)
