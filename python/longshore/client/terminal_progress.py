"""Progress of long work as lines on standard error."""

from __future__ import annotations

import sys

from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState

_SHOWN = (JobState.RUNNING, JobState.PENDING, JobState.READY, JobState.HELD, JobState.FAILED, JobState.PRUNED)


class TerminalProgress:
    """Prints notes and stages of a submission."""

    def note(self, text: str) -> None:
        """Print a note for the user."""
        print(f"longshore: {text}", file=sys.stderr)  # noqa: T201 - what the caller asked for

    def stage(self, text: str) -> None:
        """Print the start of a stage."""
        print(f"longshore: {text}", file=sys.stderr)  # noqa: T201 - what the caller asked for


class StateLine:
    """Prints the number of jobs per state when it changes."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, report: RunReport) -> None:
        """Print the state of a run if it differs from the last one."""
        counts = [f"{report.counts[state]} {state.value.lower()}" for state in _SHOWN if report.counts.get(state)]
        done = report.counts.get(JobState.SUCCEEDED, 0)
        line = ", ".join([f"{report.id}: {done}/{report.expected} succeeded", *counts])
        if line != self._last:
            self._last = line
            print(line, file=sys.stderr)  # noqa: T201 - what the caller asked for
