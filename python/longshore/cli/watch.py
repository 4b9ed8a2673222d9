"""What a command shows of a run while it waits for its end: the live view on a terminal, elsewhere lines of news.

On a terminal, each frame is drawn over the one before, and the last one stays. Who reads a log of CI has nothing but
the lines: they tell what fails and why the run waits, a few a minute.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO, TypeAlias

import click

from longshore.cli.interrupts import INTERRUPTED
from longshore.cli.terminal import can_redraw, has_color, measure_terminal, print_notes
from longshore.model.report import Failure, RunReport, escape_controls, failure_text, outcome_line
from longshore.model.states import PAUSED_EXIT_STATUS, JobState
from longshore.model.wording import count_noun, format_timestamp
from longshore.reports.styled import Span, line_text, plain, width_of

if TYPE_CHECKING:
    from longshore.reports.report import ReportBuilder
    from longshore.runstate.open_run import OpenRun

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
"""Time to the next look or frame in multiples of that of one: a large run leaves the processor to its jobs."""
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


_FRAME_S: Final = 0.5
"""Shortest time between two frames."""


class RunView(Protocol):
    """What shows a run while a command waits for it; `uses_summary` says whether of the summary, too."""

    uses_summary: bool

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, report: RunReport) -> None:
        """Show the newest report."""


def view_run(opened: OpenRun) -> RunView:
    """Return the live view on a terminal, and lines of news elsewhere; both write to standard error."""
    from longshore.reports.report import ReportBuilder

    builder = ReportBuilder(opened)
    return LiveView(sys.stderr, builder) if can_redraw(sys.stderr) else RunProgress(builder)


class FrameWriter:
    """Draws frames on a terminal whose user may change its size between two of them."""

    def __init__(self, stream: TextIO) -> None:
        # Imported here: slow to import, and only live views need it.
        from rich.console import Console

        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, color_system=None, highlight=False, emoji=False)
        self._widths: list[int] = []
        """Width of each line of the newest frame."""

    def draw(self, report: RunReport, now: float, *, is_last: bool = False) -> None:
        """Draw a frame over the one before."""
        from rich.control import Control
        from rich.segment import ControlType

        from longshore.cli.report_screen import frame_lines

        terminal = measure_terminal(self._stream)
        lines = frame_lines(report, terminal, now=now, is_last=is_last)
        # A terminal that became narrower has wrapped the lines of the frame before.
        rows = sum(max(1, -(-width // terminal.width)) for width in self._widths)
        with self._console:
            for _ in range(min(rows, terminal.height - 1)):
                self._console.control(Control((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)))
            for line in lines:
                self._console.out(line_text(line, color=terminal.has_color), highlight=False)
        self._widths = [width_of(plain(line)) for line in lines]


class LiveView:
    """Live view of a run whose end the caller waits for."""

    uses_summary = True

    def __init__(self, stream: TextIO, builder: ReportBuilder) -> None:
        self._writer = FrameWriter(stream)
        self._builder = builder
        self._next_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            now = time.time()
            self._writer.draw(self._builder.build(now), now, is_last=True)

    def show(self, report: RunReport) -> None:
        """Draw a frame if it is time for one."""
        if time.monotonic() < self._next_at:
            return
        now = time.time()
        # A brief report has no summary; one from a workload manager's events has, and is slow to make.
        self._writer.draw(report if report.summary else self._builder.build(now), now)
        took = time.time() - now
        self._next_at = time.monotonic() + max(_FRAME_S, _LOOK_RATIO * took)


_INTERVAL_S: Final = 1.0
"""Seconds between two reports; one of a run with a hundred thousand jobs takes a hundredth of that."""


def watch(opened: OpenRun, *, codes: bool) -> int:
    """Watch a run until it is over, and leave its end on the screen; return the exit status of its state.

    With `codes`, the final report counts the exit codes of failed jobs. A pause ends the watching where no person
    watches.
    """
    from longshore.cli.report_text import exit_codes_table, report_text
    from longshore.reports.report import ReportBuilder
    from longshore.reports.state import is_over
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


def follow_to_end(root: Path, reference: str, *, as_json: bool) -> RunReport | None:
    """Follow the run to its end or to a pause, and print how it ended; ``None`` when the user interrupts."""
    try:
        # Inside `try`: a user who has seen the run's id may interrupt at any moment.
        from longshore.reports.status import wait_for_end
        from longshore.runstate.open_run import open_run

        opened = open_run(str(root))
        with view_run(opened) as view:
            report = wait_for_end(opened, view.show, summary=view.uses_summary, ends_at_pause=True)
        _print_outcome(opened, report, as_json=as_json)
        return report
    except KeyboardInterrupt:
        print_interrupted_wait(reference)
        return None


def print_interrupted_wait(reference: str) -> None:
    """Print that the command no longer waits, and how to look at the run."""
    click.echo(
        f"longshore: no longer watching; the run continues. To cancel it: longshore cancel {reference}\n"
        f"longshore: to look at it: longshore report {reference}",
        err=True,
    )


def _print_outcome(opened: OpenRun, report: RunReport, *, as_json: bool) -> None:
    """Print in a line how a run ended, and why: on a terminal, its last failures stand above."""
    from longshore.cli.report_text import failure_lines

    if not as_json:
        click.echo(outcome_line(report))
    print_notes(report.notes)
    if not can_redraw(sys.stderr):
        for line in failure_lines(_failures(opened, report)):
            click.echo(line, err=True)
    if report.counts.get(JobState.FAILED):
        click.echo(f"longshore: failures and their logs: longshore report {opened.reference}", err=True)
    if report.state is JobState.HELD:
        click.echo(f"longshore: to let the held jobs run: longshore release {opened.reference}", err=True)
    print_ways_on(opened, report)


def _failures(opened: OpenRun, report: RunReport) -> Sequence[Failure]:
    """Return the groups of failures: of a paused run, whose jobs may be tried again, those of all attempts."""
    from longshore.reports.report import ReportBuilder

    if not report.paused:
        return report.summary.failures if report.summary else ()

    builder = ReportBuilder(opened)
    builder.build(time.time())
    return builder.failed_attempts()


def print_ways_on(opened: OpenRun, report: RunReport) -> None:
    """Print why the command no longer waits for a run that is not over, and what can be done; nothing if it is."""
    from longshore.reports.rerun_commands import pause_commands

    if report.wait_status != PAUSED_EXIT_STATUS:
        return
    words = f"longshore: the run is PAUSED, and this command no longer waits for it (exit status {PAUSED_EXIT_STATUS})"
    click.echo(words, err=True)
    for each in pause_commands(opened):
        click.echo(f"longshore:   {each.purpose}: {each.command}", err=True)
