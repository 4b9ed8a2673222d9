"""``longshore dashboard``: shows the runs of this user in a browser of this host."""

from __future__ import annotations

import os
import sys

import click

from longshore.cli.parameter_types import WholeNumber
from longshore.reports.dashboard import open_dashboard


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
