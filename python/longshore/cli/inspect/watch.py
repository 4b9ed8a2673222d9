"""Watches a run until it is over: redrawn in place on a terminal, a line per change elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from longshore.app import api
from longshore.cli.options import INTERRUPTED
from longshore.cli.run_progress import progress_line
from longshore.cli.show.format import indent_paragraph
from longshore.cli.show.report_text import exit_codes_table, report_text, summary_table
from longshore.cli.show.run_summary_text import run_summary_lines
from longshore.model.run.moment import format_timestamp
from longshore.model.run.states import STATE_EXIT_STATUS

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun
    from longshore.model.run.report import RunReport

_INTERVAL_S: Final = 2.0
"""Seconds between two reports; one of a run with a hundred thousand jobs takes a hundredth of that."""


class _Screen(Protocol):
    def show(self, report: RunReport, now: float) -> None: ...


def watch(opened: OpenRun, *, codes: bool) -> int:
    """Watch a run until it is over, then show it in full; return the exit status of its state.

    With `codes`, the final report counts the exit codes of failed jobs.
    """
    builder = api.report_builder(opened)
    try:
        with _terminal_screen() if _is_terminal() else _line_screen() as screen:
            while True:
                now = time.time()
                report = builder.build(now)
                # Check twice: the workload manager may have begun to answer between the report and the check.
                if api.is_over(opened, report) and api.is_over(opened, report := builder.build(now)):
                    break
                screen.show(report, now)
                time.sleep(_INTERVAL_S)
        click.echo(report_text(report))
        if codes:
            click.echo(f"\n\n{exit_codes_table(report)}")
    except KeyboardInterrupt:
        click.echo(f"longshore: no longer watching; run '{opened.card.id}' is unchanged", err=True)
        return INTERRUPTED
    return STATE_EXIT_STATUS[report.state]


def _is_terminal() -> bool:
    return bool(sys.stdout) and sys.stdout.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


def screen_text(report: RunReport, now: float) -> str:
    """Text shown while a run is watched: its row, its activity and its failures, without logs."""
    lines = [summary_table([report]), "", progress_line(report)]
    if report.summary:
        lines += run_summary_lines(report.summary, now=now, examples=False)
    lines += [f"Note: {indent_paragraph(note)}" for note in report.notes]
    return "\n".join([*lines, "", f"{format_timestamp(now)}: Ctrl-C stops the watching, not the run."])


@contextmanager
def _terminal_screen() -> Iterator[_Screen]:
    # Imported here: slow to import, and only `--watch` needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    class TerminalScreen:
        def __init__(self, live: Any) -> None:
            self._live = live

        def show(self, report: RunReport, now: float) -> None:
            self._live.update(Text(screen_text(report, now), overflow="fold"), refresh=True)

    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        yield TerminalScreen(live)


@contextmanager
def _line_screen() -> Iterator[_Screen]:
    class LineScreen:
        def __init__(self) -> None:
            self._last = ""

        def show(self, report: RunReport, now: float) -> None:
            line = progress_line(report)
            if line != self._last:
                click.echo(f"{format_timestamp(now)} {line}")
                self._last = line

    yield LineScreen()
