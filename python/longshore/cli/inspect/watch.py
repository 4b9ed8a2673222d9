"""Watches a run until it is over: in the live view on a terminal; elsewhere in lines, which a pause ends too."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from longshore.cli.interrupts import INTERRUPTED
from longshore.cli.live_view import FrameWriter
from longshore.cli.run_progress import RunProgress
from longshore.cli.show.report_text import exit_codes_table, report_text
from longshore.cli.submit_options import print_interrupted_wait, print_ways_on
from longshore.cli.terminal import can_redraw
from longshore.model.states import JobState
from longshore.reports.report import ReportBuilder
from longshore.reports.state import is_over

if TYPE_CHECKING:
    from longshore.app.runs.open_run import OpenRun

_INTERVAL_S: Final = 1.0
"""Seconds between two reports; one of a run with a hundred thousand jobs takes a hundredth of that."""


def watch(opened: OpenRun, *, codes: bool) -> int:
    """Watch a run until it is over, and leave its end on the screen; return the exit status of its state.

    With `codes`, the final report counts the exit codes of failed jobs. A pause ends the watching where no person
    watches.
    """
    from longshore.reports.status import PauseWatch

    builder = ReportBuilder(opened)
    screen = FrameWriter(sys.stdout) if can_redraw(sys.stdout) else None
    lines, pause = RunProgress(builder, is_output=True), PauseWatch()
    try:
        while True:
            now = time.time()
            report = builder.build(now)
            # Check twice: the workload manager may have begun to answer between the report and the check.
            if is_over(opened, report) and is_over(opened, report := builder.build(now)):
                break
            if screen:
                screen.draw(report, now)
            else:
                lines.show(report)
                if pause.lasts(report):
                    break
            time.sleep(_INTERVAL_S)
        if screen:
            screen.draw(report, now, is_last=True)
            if report.counts.get(JobState.FAILED):
                click.echo(f"Failures and their logs: longshore report {opened.reference}")
        else:
            click.echo(report_text(report))
        if codes:
            click.echo(f"\n\n{exit_codes_table(report)}")
        print_ways_on(opened, report)
    except KeyboardInterrupt:
        print_interrupted_wait(opened.reference)
        return INTERRUPTED
    return report.wait_status
