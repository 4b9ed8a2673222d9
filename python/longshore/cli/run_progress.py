"""Progress display of a run while a command waits for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Self

import click

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

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._tenths = -1

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
        if self._terminal:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
        elif self._has_new_tenth(report) or report.state is JobState.UNKNOWN:
            click.echo(line, err=True)
        self._shown = line

    def _has_new_tenth(self, report: RunReport) -> bool:
        before, self._tenths = self._tenths, 10 * report.counts.get(JobState.SUCCEEDED, 0) // max(report.expected, 1)
        return self._tenths != before


def progress_line(report: RunReport) -> str:
    """Number of jobs in each state, in one line."""
    done = report.counts.get(JobState.SUCCEEDED, 0)
    parts = [f"{report.id}: {done}/{report.expected} succeeded"]
    counted = ((state, report.counts.get(state, 0)) for state in _SHOWN_STATES)
    parts += [f"{count} {state.lower()}" for state, count in counted if count]
    return ", ".join([*parts, *report.notes])
