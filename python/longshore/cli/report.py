"""Reports: ``report`` lists runs or tells of one, as text, JSON or a page; ``dashboard`` serves the pages."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.cli.options import (
    GLOBAL,
    JSON,
    OUTPUT_FILE,
    PASS_THRU,
    SERVICE,
    Number,
    OptionRecord,
    SearchOptions,
    WholeNumber,
    group_options,
    run_option,
)
from longshore.cli.terminal import Terminal, is_terminal, measure_terminal, print_json, print_notes

if TYPE_CHECKING:
    from longshore.model.report import RunReport
    from longshore.runstate.open_run import OpenRun


class ListOptions(OptionRecord, frozen=True, kw_only=True):
    """Options for the list of runs."""

    user: str | None
    filters: tuple[str, ...]
    fields: str | None
    tsv: bool
    no_header: bool
    pass_thru: str

    @property
    def list_only_option(self) -> str | None:
        """The first option given that has no meaning for a single run."""
        values = {
            "--user": self.user,
            "--filter": self.filters,
            "--format": self.fields,
            "--tsv": self.tsv,
            "--no-header": self.no_header,
        }
        return next((name for name, value in values.items() if value), None)

    @property
    def excluded_by_bps(self) -> str | None:
        """The first option given that chooses another form of the list than BPS's table."""
        values = {"--format": self.fields, "--tsv": self.tsv, "--no-header": self.no_header}
        return next((name for name, value in values.items() if value), None)


class DetailOptions(OptionRecord, frozen=True, kw_only=True):
    """Options for a single run."""

    return_exit_codes: bool
    watch: bool
    bps: bool
    html: Path | None
    as_json: bool

    @property
    def excluded_by_html(self) -> str | None:
        """The first option given that has no meaning beside ``--html``."""
        values = {
            "--json": self.as_json,
            "--watch": self.watch,
            "--bps": self.bps,
            "--return-exit-codes": self.return_exit_codes,
        }
        return next((name for name, value in values.items() if value), None)


@click.command(
    epilog="Example: longshore report --id @last    or: longshore report --id @last --html report.html    "
    "or: longshore report --hist 2 --filter state=FAILED,DELETED"
)
@run_option(required=False)
@SERVICE
@click.option("--user", metavar="NAME", help="Only runs of that user.")
@click.option("--hist", type=Number(min=0.0), metavar="DAYS", help="Also runs that ended in the last DAYS days.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Only matching runs, live or over; also FIELD!=VALUE, FIELD~REGEX, FIELD>NUMBER, FIELD<NUMBER. "
    "Can be repeated.",
)
@click.option("--format", "fields", metavar="FIELD,...", help="Fields of the list.")
@click.option("--tsv", is_flag=True, help="Separate fields by tabs.")
@click.option("--no-header", is_flag=True, help="Omit the header.")
@PASS_THRU
@click.option(
    "--return-exit-codes", is_flag=True, help="With --id: also count the exit codes of failed jobs per label."
)
@click.option(
    "--watch", is_flag=True, help="With --id: update the report until the run is over; the exit status is its state's."
)
@click.option(
    "--html",
    type=OUTPUT_FILE,
    metavar="FILE",
    help="With --id: write the report to an HTML file that needs no network; - is the standard output.",
)
@click.option("--bps", is_flag=True, help="Print BPS's tables with all columns, as where the output is no terminal.")
@GLOBAL
@JSON
@group_options(search=SearchOptions, listing=ListOptions, detail=DetailOptions)
@click.pass_context
def report_command(
    ctx: click.Context, /, *, run: str | None, search: SearchOptions, listing: ListOptions, detail: DetailOptions
) -> None:
    """List the runs that are not over (without any: the last five), or report one run in detail."""
    other_form = "--json" if detail.as_json else listing.excluded_by_bps
    if detail.bps and other_form:
        raise click.UsageError(f"--bps and {other_form} exclude each other.")
    if run:
        if listing.list_only_option:
            raise click.UsageError(f"{listing.list_only_option} is for the list of runs, not for a single run.")
        if listing.pass_thru:
            # BPS has this option for both.
            print_notes(["'--pass-thru' has no effect: it is for the list of runs"])
        ctx.exit(_print_run(run, search, detail))
    if detail.watch:
        raise click.UsageError("Name the run to watch, as in 'longshore report --watch @last'.")
    if detail.html:
        raise click.UsageError(f"Name the run, as in 'longshore report @last --html {detail.html}'.")
    if detail.return_exit_codes:
        print_notes(
            ["'--return-exit-codes' has no effect: it is for a single run, as in 'longshore report --id @last'"]
        )
    _print_list(search, listing, detail)


def _terminal(detail: DetailOptions) -> Terminal | None:
    """Return the terminal that tables have to fit; ``None`` where BPS's tables are printed."""
    return measure_terminal(sys.stdout) if is_terminal(sys.stdout) and not detail.bps else None


def _print_run(run: str, search: SearchOptions, detail: DetailOptions) -> int:
    from longshore.cli.report_text import exit_codes_table, report_text
    from longshore.model.report import RunReport
    from longshore.reports.remote_runs import open_or_query
    from longshore.reports.report import report_run

    if detail.html and detail.excluded_by_html:
        raise click.UsageError(f"--html and {detail.excluded_by_html} exclude each other.")
    opened = open_or_query(run, service=search.wms_service_class, everywhere=search.is_global, days=search.hist or 0.0)
    if detail.html:
        return _write_html(opened, detail.html)
    if detail.watch:
        if isinstance(opened, RunReport):
            raise click.UsageError(f"--watch requires the run directory, and '{opened.path}' is not accessible here.")
        if detail.as_json:
            raise click.UsageError("--watch prints text: with --json repeat the command, or use 'submit --wait'.")
        from longshore.cli.watch import watch

        return watch(opened, codes=detail.return_exit_codes)
    now = time.time()
    report = opened if isinstance(opened, RunReport) else report_run(opened, details=detail.as_json, now=now)
    if detail.as_json:
        from longshore.reports.documents.report import report_pieces

        if sys.stdout:
            # Not `click.echo`, which would flush a hundred thousand times.
            sys.stdout.writelines(report_pieces(report, as_of=now))
        return 0
    terminal = _terminal(detail)
    if terminal:
        from longshore.cli.report_screen import report_screen

        text = report_screen(report, terminal)
    else:
        text = report_text(report)
    if detail.return_exit_codes:
        text += f"\n\n\n{exit_codes_table(report)}"
    click.echo(text)
    return 0


def _write_html(opened: OpenRun | RunReport, path: Path) -> int:
    from longshore.reports.page.render import make_run_page, write_page

    if str(path) == "-":
        click.echo(make_run_page(opened), nl=False)
    else:
        write_page(path, make_run_page(opened))
        click.echo(f"wrote '{path}'", err=True)
    return 0


def _print_list(search: SearchOptions, listing: ListOptions, detail: DetailOptions) -> None:
    from longshore.cli.report_text import fields_table, summary_table
    from longshore.reports.run_list import RunQuery, list_runs, parse_fields

    now = time.time()
    has_custom_fields = bool(listing.fields or listing.tsv or listing.no_header)
    if has_custom_fields and detail.as_json:
        raise click.UsageError("--format, --tsv and --no-header exclude --json, which always has all fields.")
    fields = parse_fields(listing.fields)
    query = RunQuery(
        days=search.hist or None,
        user=listing.user,
        filters=listing.filters,
        service=search.wms_service_class,
        everywhere=search.is_global,
        pass_thru=listing.pass_thru,
    )
    found = list_runs(query, now=time.time())
    if detail.as_json:
        from longshore.reports.documents.report import report_document

        print_json(report_document(found.reports, as_of=now, details=False, notes=found.notes))
    elif has_custom_fields:
        text = fields_table(found.reports, fields, header=not listing.no_header, tsv=listing.tsv)
        click.echo(text, nl=bool(text))
    elif terminal := _terminal(detail):
        from longshore.cli.report_screen import run_list_screen

        click.echo(run_list_screen(found.reports, terminal, global_ids=search.is_global))
    else:
        print_notes(f"run '{report.id}' is PAUSED" for report in found.reports if report.state_word == "PAUSED")
        click.echo(summary_table(found.reports, global_ids=search.is_global))
    print_notes(found.notes)


@click.command(
    epilog="Example: longshore dashboard    or: longshore dashboard --port 8123 --no-open",
    short_help="Show runs in a browser, updated by itself.",
)
@click.option(
    "--port", type=WholeNumber(0, 65_535), default=0, metavar="N", help="Port of 127.0.0.1 (default: a free one)."
)
@click.option("--no-open", is_flag=True, help="Print the address, and open no browser.")
def dashboard_command(*, port: int, no_open: bool) -> None:
    """Show the list of runs, and the report of each, in a browser until Ctrl-C.

    The pages are those of 'report --html'; they update by themselves, and nothing on them changes a run. Only programs
    of this host that know the address can read them: it has a token.
    """
    from longshore.reports.dashboard import open_dashboard

    with open_dashboard(port) as server:
        click.echo(f"Dashboard: {server.address}")
        click.echo("Ctrl-C ends it; runs continue.", err=True)
        if sys.stdout:  # `None` if it was closed before this program began
            sys.stdout.flush()
        if not no_open and _has_display():
            # Imported late: it looks for programs.
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            # The way to end it, and no failure.
            click.echo("", err=True)


def _has_display() -> bool:
    """Tell whether a browser can open a window; one in the terminal would cover the address."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
