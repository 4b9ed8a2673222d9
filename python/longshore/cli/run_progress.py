"""Progress of a run while a command waits for it: one line on a terminal, and elsewhere a line for what is worth one.

Who reads a log of CI has nothing else: it tells what fails and why the run waits, in a few lines a minute.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Self, TextIO, TypeAlias

import click

from longshore.cli.terminal import can_redraw, has_color
from longshore.model.report import escape_controls, failure_text
from longshore.model.states import JobState
from longshore.model.wording import count_noun, format_timestamp
from longshore.reports.styled import Span, line_text

if TYPE_CHECKING:
    from longshore.model.report import Failure, RunReport
    from longshore.reports.report import ReportBuilder

_SHOWN_STATES: Final = (
    JobState.RUNNING,
    JobState.PENDING,
    JobState.READY,
    JobState.HELD,
    JobState.FAILED,
    JobState.DELETED,
    JobState.PRUNED,
    JobState.UNKNOWN,
)
_FIRST_LOOK_S: Final = 0.5
"""Time until attempts are first looked at: many runs of a few jobs are over before. And between two failed jobs."""
_LOOK_S: Final = 2.0
"""Shortest time between two looks at the attempts while no job failed for good."""
_LOOK_RATIO: Final = 9.0
"""Time to the next look in multiples of the time that one took: a large run leaves the processor to its jobs."""
_BURST: Final = 6
"""Lines that are printed at once."""
_LINE_S: Final = 20.0
"""Seconds after which there is room for another line: three a minute."""
_QUIET_S: Final = 600.0
"""Time without a line after which there is one that tells only how far the run is: CI ends what says nothing."""
_REPEAT_S: Final = 300.0
"""Time after which an absent note has passed, so that it is told again when it comes back."""


_Group: TypeAlias = tuple[object, ...]
"""What failures of a group have in common."""


class RunProgress:
    """Shows a run that a command waits for; with a `builder` of its reports, lines also tell of attempts that failed.

    They go to standard error, or with `is_output` to standard output, where each begins with the time.
    """

    uses_summary = False

    def __init__(self, builder: ReportBuilder | None = None, *, is_output: bool = False) -> None:
        self._is_output = is_output
        self._stream: TextIO | None = sys.stdout if is_output else sys.stderr
        self._terminal = can_redraw(self._stream)
        self._shown = ""
        self._news = RunNews(builder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._terminal and self._shown:
            click.echo("\r\x1b[K", nl=False, err=not self._is_output)
        elif kind is None:
            self._print(self._news.end())

    def show(self, report: RunReport) -> None:
        """Show the newest report."""
        if not self._terminal:
            self._print(self._news.take(report))
            return
        line = ", ".join([_progress_line(report), *report.notes])
        if line != self._shown:
            styled = line_text((Span(line, _style(report)),), color=has_color(self._stream))
            click.echo(f"\r\x1b[K{styled}", nl=False, err=not self._is_output)
        self._shown = line

    def _print(self, lines: list[Span]) -> None:
        stamp = f"{format_timestamp(time.time())} " if self._is_output else ""
        for line in lines:
            # Not stripped of colours that the user forces on a pipe.
            text = line_text((line,), color=has_color(self._stream))
            click.echo(stamp + text, err=not self._is_output, color=True)


class RunNews:
    """Decides what is worth a line of a run that goes on, and when there is room for it.

    That is the first failed attempt and the first of each new group of failures, each note, and another tenth of the
    jobs. What there is no room for waits, and is told as it is when its turn comes.

    Parameters
    ----------
    builder
        Makes reports of the run; ``None`` if failed attempts are not told.
    clock
        Returns seconds.
    """

    def __init__(self, builder: ReportBuilder | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._builder = builder
        self._clock = clock
        self._report: RunReport | None = None
        self._look_again_at = 0.0
        self._look_at = clock() + _FIRST_LOOK_S
        self._told: set[_Group] = set()
        """Groups of failures that were told."""
        self._failures: dict[_Group, Failure] = {}
        """Groups that wait to be told, as they were at the last look."""
        self._failed = 0
        """Jobs that had failed at the last look."""
        self._retried = 0
        """Jobs that failed and are tried again, at the last look."""
        self._held_at: dict[str, float] = {}
        """When each kind of note was last in a report."""
        self._notes: dict[str, str] = {}
        """Notes that wait to be told, the newest of each kind."""
        self._progress: tuple[object, ...] = ()
        """How far the run was at the last line about that, roughly."""
        self._is_due = False
        self._was_paused = False
        self._last_line = ""
        self._room = float(_BURST)
        self._counted_at = self._told_at = clock()

    def take(self, report: RunReport) -> list[Span]:
        """Return the lines to print now, given the newest report."""
        now = self._clock()
        self._report = report
        self._find_notes(report, now)
        failed = report.counts.get(JobState.FAILED, 0)
        # Attempts that are retried show in no count, so that they are looked for now and then.
        if self._builder and now >= (self._look_again_at if failed > self._failed else self._look_at):
            self._failed = failed
            self._find_failures(self._builder, report)
        progress = _rough_progress(report, self._retried)
        if self._was_paused and not report.paused:
            # That it goes on is told even if nothing else has changed.
            self._last_line = ""
        self._is_due |= progress != self._progress or not self._last_line
        self._is_due |= now - self._told_at >= _QUIET_S
        self._progress, self._was_paused = progress, report.paused
        self._room = min(_BURST, self._room + (now - self._counted_at) / _LINE_S)
        self._counted_at = now
        return list(self._due(report, now))

    def end(self) -> list[Span]:
        """Return the last line, which tells how far the run got; notes and groups of failures follow in its report."""
        if self._report is None or (line := _progress_line(self._report)) == self._last_line:
            return []
        return [Span(line, _style(self._report))]

    def _find_notes(self, report: RunReport, now: float) -> None:
        self._held_at = {kind: at for kind, at in self._held_at.items() if now - at < _REPEAT_S}
        kinds = {re.sub(r"\d+", "0", note): note for note in report.notes}
        for kind, note in kinds.items():
            if kind not in self._held_at or kind in self._notes:
                self._notes[kind] = note
        self._held_at |= dict.fromkeys(kinds, now)
        # What has passed before there was room is no news any more.
        self._notes = {kind: note for kind, note in self._notes.items() if kind in kinds}

    def _find_failures(self, builder: ReportBuilder, report: RunReport) -> None:
        began = self._clock()
        full = report if report.summary else builder.build(time.time())
        self._retried = full.summary.retries.jobs if full.summary else 0
        for failure in builder.failed_attempts():
            # The message of a group of one has its numbers, those of others have placeholders.
            message = re.sub(r"\d[\d.]*|<n>", "0", failure.message)
            group = (failure.label, failure.cause, failure.exit_code, failure.signal, message)
            if group not in self._told:
                self._failures[group] = failure
        now = self._clock()
        self._look_again_at = now + max(_FIRST_LOOK_S, _LOOK_RATIO * (now - began))
        self._look_at = max(self._look_again_at, now + _LOOK_S)

    def _due(self, report: RunReport, now: float) -> Iterator[Span]:
        """Yield lines while there is room: notes, failures, then how far the run is, which leaves room for those."""
        while self._notes and self._room >= 1:
            self._spend(now)
            kind = next(iter(self._notes))
            yield Span(f"{report.id}: {escape_controls(self._notes.pop(kind))}", "warning")
        # The first one is told in any case.
        while self._failures and (self._room >= 1 or not self._told):
            self._spend(now)
            group, failure = next(iter(self._failures.items()))
            words, more = _failure_words(failure), len(self._failures)
            if more > 1 and self._room < 1 and self._told:
                words = f"{more} more groups of failures, such as this: {words}"
                self._told |= self._failures.keys()
                self._failures = {}
            self._told.add(group)
            self._failures.pop(group, None)
            yield Span(f"{report.id}: {words}", "bad")
        if self._is_due and (self._room > _BURST / 2 or not self._last_line):
            self._is_due = False
            again = f"; {count_noun(self._retried, 'failed job')} to be tried again" if self._retried else ""
            line = _progress_line(report) + again
            if line != self._last_line or now - self._told_at >= _QUIET_S:
                self._spend(now)
                self._last_line = line
                yield Span(line, _style(report))

    def _spend(self, now: float) -> None:
        self._room -= 1
        self._told_at = now


def _rough_progress(report: RunReport, retried: int) -> tuple[object, ...]:
    """Return what changes with another tenth of the jobs, with twice as many retries, or when jobs are held."""
    counts, expected = report.counts, max(report.expected, 1)
    tenths = [10 * counts.get(state, 0) // expected for state in (JobState.SUCCEEDED, JobState.FAILED)]
    return (*tenths, bool(counts.get(JobState.HELD)), retried.bit_length(), report.state is JobState.UNKNOWN)


def _failure_words(failure: Failure) -> str:
    """Describe a group of failures in a line: an example, why it failed, and where its log is."""
    why = failure_text(failure.cause, failure.exit_code, failure.signal)
    words = f"attempt {failure.attempt} of {failure.job} failed ({why})"
    if failure.count > 1:
        number = f"{'at least ' if failure.unread else ''}{failure.count} jobs of {failure.label}"
        words = f"{number} failed, such as attempt {failure.attempt} of {failure.job} ({why})"
    # The reason of an exit code only repeats it, and that of others says more than the log, which may repeat it.
    reason = failure.reason if failure.reason != why else ""
    told = [reason, failure.error if not reason or reason not in failure.error else ""]
    words += "".join(f": {text}" for text in filter(None, told))
    if failure.not_retried:
        words += f"; not tried again: {failure.not_retried.removesuffix(f': {failure.reason}')}"
    if failure.log:
        words += f"; log: {failure.log}"
    return escape_controls(" ".join(words.split()))


def _style(report: RunReport) -> str:
    """Style of a line of progress, where colours are wanted."""
    if report.paused or report.state is JobState.UNKNOWN:
        return "warning"
    return "bad" if report.counts.get(JobState.FAILED) else "active"


def _progress_line(report: RunReport) -> str:
    """Number of jobs in each state, in one line."""
    done = report.counts.get(JobState.SUCCEEDED, 0)
    parts = [f"{report.id}: {done}/{report.expected} succeeded"]
    counted = ((state, report.counts.get(state, 0)) for state in _SHOWN_STATES)
    parts += [f"{count} {state.lower()}" for state, count in counted if count]
    return ", ".join(parts)
