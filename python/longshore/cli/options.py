"""Options that several commands share, and how a run is watched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from longshore.model.run.report import RunReport
from longshore.model.run.state import JobState

F = TypeVar("F", bound=Callable[..., Any])

RUN_ID = click.option(
    "--id", "reference", metavar="RUN", help="The run: its id, the beginning of its id, its directory, or @last."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
INTERRUPTED: Final = 130
"""Exit status of a command that was interrupted (128 and the number of SIGINT)."""

PASS_THRU = click.option(
    "--pass-thru", metavar="TEXT", default="", help="For the workload manager; the local one has no use for it."
)
GLOBAL = click.option(
    "--global/--no-global", "is_global", default=False, help="Search all queues of the workload manager, if it has any."
)
SERVICE = click.option("--wms-service-class", metavar="NAME", help="The workload manager's service.")


def chosen_run(reference: str | None, argument: str | None) -> str | None:
    """The run a command is about, named by ``--id`` as in BPS or simply as an argument.

    Raises
    ------
    click.UsageError
        Both are given, or nothing stands where a name should.
    """
    if reference and argument and reference != argument:
        raise click.UsageError(f"Two runs are named: '{argument}' and --id '{reference}'.")
    chosen = argument if reference is None else reference
    if chosen == "":
        # An empty variable of a shell script must not mean "all runs".
        raise click.UsageError("The name of the run is empty.")
    return chosen


def print_json(document: object) -> None:
    """Print a document."""
    from longshore.app.documents.document import to_json

    click.echo(to_json(document))


class Progress:
    """Shows how a run gets on: one line that is rewritten on a terminal, a line per change elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""
        self._tenth = -1

    def show(self, report: RunReport) -> None:
        """Show the newest report."""
        line = progress_line(report)
        if line == self._shown:
            return
        if self._terminal:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
        elif self._is_another_tenth(report) or report.state is JobState.UNKNOWN:
            click.echo(line, err=True)
        self._shown = line

    def close(self) -> None:
        """Leave the line."""
        if self._terminal and self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def _is_another_tenth(self, report: RunReport) -> bool:
        before, self._tenth = self._tenth, 10 * report.counts.get(JobState.SUCCEEDED, 0) // max(report.expected, 1)
        return self._tenth != before


def progress_line(report: RunReport) -> str:
    """How many jobs are in which state, in one line."""
    done = report.counts.get(JobState.SUCCEEDED, 0)
    parts = [f"{report.id}: {done}/{report.expected} succeeded"]
    counted = ((state, report.counts.get(state, 0)) for state in _WORTH_A_WORD)
    parts += [f"{count} {state.lower()}" for state, count in counted if count]
    return ", ".join([*parts, *report.notes])


_WORTH_A_WORD = (
    JobState.RUNNING,
    JobState.PENDING,
    JobState.READY,
    JobState.HELD,
    JobState.FAILED,
    JobState.DELETED,
    JobState.PRUNED,
)
