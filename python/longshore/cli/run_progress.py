"""Progress display of a run while a command waits for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Self

import click

from longshore.app.text.styled import Span, line_text
from longshore.cli.terminal import can_redraw, has_color
from longshore.model.run.states import JobState

if TYPE_CHECKING:
    from longshore.model.run.report import RunReport

_SHOWN_STATES: Final = (
    JobState.RUNNING,
    JobState.PENDING,
    JobState.READY,
    JobState.HELD,
    JobState.FAILED,
    JobState.DELETED,
    JobState.PRUNED,
)


class RunProgress:
    """One line, rewritten in place on a terminal; a line per change elsewhere."""

    uses_summary = False

    def __init__(self) -> None:
        self._terminal = can_redraw(sys.stderr)
        self._shown = ""
        self._shown_news: tuple[int, bool] = (-1, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal and self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def show(self, report: RunReport) -> None:
        """Show the newest report."""
        line = progress_line(report)
        if line == self._shown:
            return
        # Not stripped of colours that the user forces on a pipe.
        styled = line_text((Span(line, _style(report)),), color=has_color(sys.stderr))
        if self._terminal:
            click.echo(f"\r\x1b[K{styled}", nl=False, err=True)
        elif self._has_news(report) or report.state is JobState.UNKNOWN:
            click.echo(styled, err=True, color=True)
        self._shown = line

    def _has_news(self, report: RunReport) -> bool:
        """Tell whether another tenth of the jobs succeeded, or the run was paused or unpaused."""
        tenths = 10 * report.counts.get(JobState.SUCCEEDED, 0) // max(report.expected, 1)
        before, self._shown_news = self._shown_news, (tenths, report.paused)
        return self._shown_news != before


def _style(report: RunReport) -> str:
    """Style of a line of progress, where colours are wanted."""
    if report.paused or report.state is JobState.UNKNOWN:
        return "warning"
    return "bad" if report.counts.get(JobState.FAILED) else "active"


def progress_line(report: RunReport) -> str:
    """Number of jobs in each state, in one line."""
    done = report.counts.get(JobState.SUCCEEDED, 0)
    parts = [f"{report.id}: {done}/{report.expected} succeeded"]
    counted = ((state, report.counts.get(state, 0)) for state in _SHOWN_STATES)
    parts += [f"{count} {state.lower()}" for state, count in counted if count]
    return ", ".join([*parts, *report.notes])
