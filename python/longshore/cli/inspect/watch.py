"""Watches a run until it is over: in the live view on a terminal, a line per change elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

import click

from longshore.app import api
from longshore.cli.interrupts import INTERRUPTED
from longshore.cli.live_view import FrameWriter
from longshore.cli.run_progress import progress_line
from longshore.cli.show.report_text import exit_codes_table, report_text
from longshore.cli.terminal import can_redraw
from longshore.model.run.moment import format_timestamp
from longshore.model.run.states import STATE_EXIT_STATUS, JobState

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun
    from longshore.model.run.report import RunReport

_INTERVAL_S: Final = 1.0
"""Seconds between two reports; one of a run with a hundred thousand jobs takes a hundredth of that."""


class _Screen(Protocol):
    def draw(self, report: RunReport, now: float) -> None: ...


def watch(opened: OpenRun, *, codes: bool) -> int:
    """Watch a run until it is over, and leave its end on the screen; return the exit status of its state.

    With `codes`, the final report counts the exit codes of failed jobs.
    """
    builder = api.report_builder(opened)
    screen: _Screen = FrameWriter(sys.stdout) if can_redraw(sys.stdout) else _LineScreen()
    try:
        while True:
            now = time.time()
            report = builder.build(now)
            # Check twice: the workload manager may have begun to answer between the report and the check.
            if api.is_over(opened, report) and api.is_over(opened, report := builder.build(now)):
                break
            screen.draw(report, now)
            time.sleep(_INTERVAL_S)
        if isinstance(screen, FrameWriter):
            screen.draw(report, now, is_last=True)
            if report.counts.get(JobState.FAILED):
                click.echo(f"Failures and their logs: longshore report {opened.reference}")
        else:
            click.echo(report_text(report))
        if codes:
            click.echo(f"\n\n{exit_codes_table(report)}")
    except KeyboardInterrupt:
        click.echo(f"longshore: no longer watching; run '{opened.card.id}' is unchanged", err=True)
        return INTERRUPTED
    return STATE_EXIT_STATUS[report.state]


class _LineScreen:
    """Prints a line per change."""

    def __init__(self) -> None:
        self._last = ""

    def draw(self, report: RunReport, now: float) -> None:
        """Print a line if there is news."""
        line = progress_line(report)
        if line != self._last:
            click.echo(f"{format_timestamp(now)} {line}")
            self._last = line
