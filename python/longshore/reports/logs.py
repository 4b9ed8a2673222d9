"""Which logs a run has of a job, a label or its failures, and how files of any size and content are read."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.capabilities import LogLocator, log_locator
from longshore.contract.service import file_name
from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError
from longshore.model.event import Ended
from longshore.model.report import Retries
from longshore.model.submission import REUSED_FROM
from longshore.model.values import RegexError, compile_regex
from longshore.model.wording import format_moment, quote_value
from longshore.reports.attempts import attempts_of
from longshore.reports.report import report_run
from longshore.rundir.archived_runs import open_archived_log
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import first_life_of_workflow
from longshore.rundir.run_directory import read_cleanings
from longshore.runstate.apply_events import apply_event
from longshore.runstate.events import EventFollower, event_blocks, events_of_jobs, jobs_failed_once, pause_after_poll
from longshore.runstate.open_run import (
    READ_ERRORS,
    OpenRun,
    find_job,
    find_jobs_of_labels,
    is_missing,
    map_index_errors,
    map_read_errors,
    open_run,
)
from longshore.runstate.replay import initial_state, read_reused_jobs, replay
from longshore.runstate.run_state import OVER, JobCode, RunState
from longshore.system.host import CpuLimitError
from longshore.system.reading import open_to_read
from longshore.system.regex_search import select_matching

_CHUNK_B: Final = 1 << 20
"""Read size in bytes: a log may have no line feed in five gigabytes."""
_MATCH_S: Final = 3.0
"""Processor time in which the lines of a chunk must be matched."""


def open_log(path: Path) -> int:
    """Open a log for reading.

    Raises `RunNotFoundError` if it is missing, `RunUnreadableError` if it cannot be read or is no file.
    """
    try:
        archived = open_archived_log(path)
        return open_to_read(path) if archived is None else archived
    except FileNotFoundError:
        raise RunNotFoundError(
            f"the log '{path}' is not there", hint="The attempt never began to write, or the log was removed."
        ) from None
    except OSError as error:
        raise RunUnreadableError(f"the log '{path}' cannot be read: {error.strerror}") from error


def read_log(path: Path, *, tail: int | None = None, pattern: re.Pattern[bytes] | None = None) -> Iterator[bytes]:
    """Yield the text of a log in chunks, or each line that matches a pattern, without its line feed.

    `tail` is the number of lines at the end to read, by default all. Raises as `open_log`.
    """
    file = open_log(path)
    try:
        begin = 0 if tail is None else tail_offset(file, tail)
        yield from read_chunks(file, begin) if pattern is None else matching_lines(file, pattern, begin)
    finally:
        os.close(file)


def read_chunks(file: int, begin: int = 0) -> Iterator[bytes]:
    """Yield the content of an open log from an offset, in pieces."""
    while piece := os.pread(file, _CHUNK_B, begin):
        begin += len(piece)
        yield piece


def tail_offset(file: int, lines: int) -> int:
    """Return the offset of the last lines of an open log, searched from its end.

    A last line without line feed counts as a line.
    """
    end = os.fstat(file).st_size
    if not lines:
        return end
    place = end
    wanted = lines
    # The line feed that ends the last line separates it from nothing.
    if end and os.pread(file, 1, end - 1) == b"\n":
        place = end - 1
    while place > 0:
        begin = max(0, place - _CHUNK_B)
        piece = os.pread(file, place - begin, begin)
        found = piece.count(b"\n")
        if found >= wanted:
            for _ in range(wanted):
                piece = piece[: piece.rfind(b"\n")]
            return begin + len(piece) + 1
        wanted -= found
        place = begin
    return 0


def compile_pattern(text: str) -> re.Pattern[bytes]:
    """Compile a user's regular expression for bytes; raises `UsageError` if invalid."""
    try:
        return compile_regex(text.encode("utf-8", "surrogateescape"))
    except RegexError as error:
        raise UsageError(
            f"{quote_value(text)} is no regular expression: {error}",
            hint="Signs such as ( [ * + ? . mean themselves behind a backslash.",
        ) from error


class LineMatcher:
    """Finds matching lines in text that arrives in pieces; a line longer than a piece counts as several."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._rest = b""

    def take(self, piece: bytes) -> Iterator[bytes]:
        """Yield the matching lines that a piece completes, without line feeds."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) >= _CHUNK_B:
            lines.append(self._rest)
            self._rest = b""
        return iter(self._matching(lines))

    def end(self) -> Iterator[bytes]:
        """Yield the last line if it matches and has no line feed."""
        last, self._rest = self._rest, b""
        yield from self._matching([last] if last else [])

    def _matching(self, lines: list[bytes]) -> list[bytes]:
        try:
            return select_matching(self._pattern, lines, seconds=_MATCH_S)
        except CpuLimitError:
            raise UsageError(
                f"{quote_value(self._pattern.pattern.decode(errors='replace'))} takes too long on a line of this log",
                hint="Repetitions within repetitions, such as (a+)+, try every division of a line.",
            ) from None


def matching_lines(file: int, pattern: re.Pattern[bytes], begin: int = 0) -> Iterator[bytes]:
    """Yield the matching lines of an open log from an offset."""
    matcher = LineMatcher(pattern)
    for piece in read_chunks(file, begin):
        yield from matcher.take(piece)
    yield from matcher.end()


_MAX_RUNS: Final = 20
"""Runs in a row that kept a result from the one before."""


def find_kept_log(run_id: str, job: str) -> str | None:
    """Return the path of the log of a job's newest attempt; that run may have kept the result from another.

    ``None`` if a run on the way is gone or cannot be read.
    """
    for _ in range(_MAX_RUNS):
        try:
            opened = open_run(run_id)
            table = JobTable(opened.run, "names")
            index = table.names.index(job)
            attempts = attempts_of(table, {index}, events_of_jobs(event_blocks(opened), {index})).of(index)
            newest = attempts[-1]
            if earlier := newest.extra.get(REUSED_FROM):
                run_id = earlier
                continue
            return str(opened.run.root / opened.log_of(index, job, table.label(index), newest.number))
        except (*READ_ERRORS, ValueError):
            return None
    return None


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """Log of one attempt.

    `index` is the job's index in ``workflow.jsonl``; `size_b` was taken when the log was found.
    """

    job: str
    index: int
    label: str
    attempt: int
    path: Path
    size_b: int


class LogList(msgspec.Struct, frozen=True, kw_only=True):
    """Requested logs, and notes on those that are missing."""

    logs: tuple[Log, ...]
    notes: tuple[str, ...] = ()
    has_several_jobs: bool = False
    """Whether more than one job was requested."""


def find_logs(
    opened: OpenRun,
    *,
    job: str | None = None,
    labels: Sequence[str] = (),
    failed: bool = False,
    attempt: int | None = None,
    most: int | None = None,
) -> LogList:
    """Find the logs of some jobs, in the order of the workflow.

    `job` is a name, its unique beginning, or an index; `labels` and `failed` select jobs; `attempt` defaults to the
    newest with a log; `most` limits the number of logs. Raises `RunNotFoundError` if job, label or attempt do not
    exist, or the one job has no log.
    """
    table = JobTable(opened.run, "names", *(("parents",) if failed else ()))
    folders = _LogFolders(table, opened.log_locator)
    if job is not None:
        index = find_job(opened, table, job)
        logs = folders.logs_of(index)
        if folders.problems:
            raise RunUnreadableError(folders.problems[0])
        return LogList(logs=(_select_log(opened, table, index, logs=logs, attempt=attempt),))
    chosen = find_jobs_of_labels(opened, table, labels) if labels else list(range(len(table)))
    among = set(chosen)
    if failed:
        chosen = _failed_jobs(opened, table, chosen)
    found: list[Log] = []
    without = 0
    beyond = 0
    for index in chosen:
        if most is not None and len(found) >= most:
            beyond += 1
            continue
        fitting = [log for log in folders.logs_of(index) if attempt in (None, log.attempt)]
        if fitting:
            found.append(fitting[-1])
        else:
            without += 1
    retried = _retried_note(opened, {table.names[index] for index in among}) if failed and not chosen else ""
    removal = _removal_of_logs(opened) if without else ""
    removed = f"; {removal}" if removal else ""
    none = retried or _none_text(failed=failed)
    notes = (
        *_notes(chosen, without, beyond, none=none, kept=_kept_note(opened, chosen), removed=removed),
        *folders.problems,
    )
    return LogList(logs=tuple(found), notes=notes, has_several_jobs=True)


def _none_text(*, failed: bool) -> str:
    return "no job has failed" if failed else "there is no such job"


def _retried_note(opened: OpenRun, among: Collection[str]) -> str:
    """Return a note on jobs that are retried after a failed attempt; empty if there is none."""
    summary = report_run(opened, details=False).summary
    retries = summary.retries if summary else Retries()
    newest = next((failure for failure in retries.newest if failure.name in among), None)
    if newest is None:
        return ""
    count = "a job is" if retries.jobs == 1 else f"{retries.jobs} jobs are"
    return (
        f"no job has failed for good; {count} retried after a failed attempt, such as '{newest.name}': "
        f"longshore logs {opened.reference} {shlex.quote(newest.name)} --attempt {newest.attempt}"
    )


def _kept_note(opened: OpenRun, chosen: Iterable[int]) -> str:
    """Return where the logs of results are that were kept from another run; empty if there are none."""
    reused = read_reused_jobs(opened.run)
    # With a changed workflow the jobs have other numbers.
    if reused is None or first_life_of_workflow(opened.run) or not set(reused.jobs).intersection(chosen):
        return ""
    return f"; logs of results that were kept are in run '{reused.run}'"


def _notes(chosen: Sequence[int], without: int, beyond: int, *, none: str, kept: str, removed: str) -> Iterator[str]:
    if not chosen:
        yield none
    if without:
        yield f"{without} of these jobs {'has' if without == 1 else 'have'} no such log{kept}{removed}"
    if beyond:
        yield f"and {beyond} more: --most 0 for all of them, --paths for where they are"


class _LogFolders:
    """Log folders, each listed once: listing a folder is faster than reading the events.

    `places` locates logs that are not under the standard names. `problems` are messages about folders that cannot be
    read, whose logs are unknown.
    """

    def __init__(self, table: JobTable, places: LogLocator | None) -> None:
        self._table = table
        self._places = places
        self._known: dict[Path, dict[str, list[int]]] = {}
        self.problems: list[str] = []

    def logs_of(self, index: int) -> list[Log]:
        """Return the logs of a job, oldest attempt first."""
        table = self._table
        name, label = table.names[index], table.label(index)
        if places := self._places:
            paths = (places.path(index, name, label, number) for number in range(1, places.attempts(index) + 1))
            # An attempt that waits to start has none yet.
            return [
                _log_record(name, index, label, number, table.run.root / path)
                for number, path in enumerate(paths, start=1)
                if not is_missing(table.run.root / path)
            ]
        folder = table.run.root / table.run.log_of(index, name, label, 1).parent
        if folder not in self._known:
            self._known[folder] = self._list_folder(folder)
        logs = []
        for number in sorted(self._known[folder].get(file_name(name), ())):
            path = table.run.root / table.run.log_of(index, name, label, number)
            logs.append(_log_record(name, index, label, number, path))
        return logs

    def _list_folder(self, folder: Path) -> dict[str, list[int]]:
        try:
            return _attempts_of(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            self.problems.append(f"'{folder}' cannot be read: {error.strerror}")
            return {}


def _attempts_of(entries: Iterable[str]) -> dict[str, list[int]]:
    """Parse names of logs into attempt numbers per job name."""
    found: dict[str, list[int]] = {}
    for entry in entries:
        stem, _, suffix = entry.rpartition(".")
        name, _, number = stem.rpartition(".")
        if suffix == "log" and number.isascii() and number.isdigit():
            found.setdefault(name, []).append(int(number))
    return found


def _select_log(opened: OpenRun, table: JobTable, index: int, *, logs: Sequence[Log], attempt: int | None) -> Log:
    name = table.names[index]
    if not logs:
        if earlier := _kept_from(opened, index):
            raise RunNotFoundError(
                f"job '{name}' has no log in this run: its result was kept from run '{earlier}'",
                hint=f"Its log: longshore logs {earlier} {shlex.quote(name)}",
            )
        places = opened.log_locator
        why = "no attempt of it has begun"
        if removed := _removal_of_logs(opened):
            raise RunNotFoundError(
                f"job '{name}' has no log any more: {removed}",
                hint=f"What is known of it: longshore explain {opened.reference} {name}",
            )
        if places and (newest := places.attempts(index)):
            why += f", or '{places.path(index, name, table.label(index), newest)}' is gone"
        raise RunNotFoundError(
            f"job '{name}' has no log: {why}",
            hint=f"Why that is: longshore explain {opened.reference} {name}",
        )
    if attempt is None:
        return logs[-1]
    for log in logs:
        if log.attempt == attempt:
            return log
    there = ", ".join(str(log.attempt) for log in logs)
    raise RunNotFoundError(f"job '{name}' has no log of an attempt {attempt}", hint=f"It has logs of: {there}.")


def _removal_of_logs(opened: OpenRun) -> str:
    """Return that logs of the run were removed, with the time; empty if they were not."""
    cleanings = [each for each in read_cleanings(opened.run) if each.files.get("logs")]
    if not cleanings:
        return ""
    return f"'longshore clean' removed logs of jobs that succeeded, at {format_moment(cleanings[-1].at)}"


def _kept_from(opened: OpenRun, index: int) -> str:
    """Return the id of the run from which the result of a job was kept; empty if there is none."""
    ends = (event for event in events_of_jobs(event_blocks(opened), {index}) if isinstance(event, Ended))
    return next((run for event in ends if (run := event.extra.get(REUSED_FROM))), "")


def _failed_jobs(opened: OpenRun, table: JobTable, among: Sequence[int]) -> list[int]:
    """Return those of some jobs that failed for good."""
    blocks = event_blocks(opened)
    # A job that failed once may have succeeded after a restart: a replay of these few decides.
    once = jobs_failed_once(blocks)
    with map_index_errors(opened.run):
        jobs = table.ancestors(*once)
        state = replay(table, events_of_jobs(blocks, set(jobs)), jobs)
    failed = {job for job in once if state.code[job] == JobCode.FAILED}
    return [job for job in among if job in failed]


class LogUpdate(msgspec.Struct, frozen=True):
    """News of a followed log: a new attempt or more text."""

    attempt: int
    text: bytes | None
    """``None`` where a new attempt begins."""


class LogFollower:
    """Follows one job's logs, attempt after attempt, until the job is over.

    `job` is a name, its unique beginning, or an index. `tail` is the number of lines to begin with; ``None`` is all.
    Raises `RunNotFoundError` if the job does not exist.
    """

    def __init__(self, opened: OpenRun, job: str, *, tail: int | None = None) -> None:
        self._follower = EventFollower(opened)
        if not self._follower.may_have_events:
            raise UsageError(f"run '{opened.card.id}' was never submitted: there is nothing to follow")
        self._opened = opened
        self._table = JobTable(opened.run, "names", "parents")
        self._index = find_job(opened, self._table, job)
        self._state = self._initial_state()
        self._tail = tail
        self.is_engine_gone = False
        """Whether following ended because the run has no engine."""

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._table.names[self._index]

    def updates(self) -> Iterator[LogUpdate]:
        """Yield new text and new attempts as they appear; ends with the job."""
        with map_read_errors(self._opened.run):
            yield from self._updates()

    def _updates(self) -> Iterator[LogUpdate]:
        attempt, offset = 0, 0
        while True:
            began = time.monotonic()
            # Queried before the read, so that this round reads the last events of an engine that ended.
            is_engine_gone = self._opened.is_alive() is False
            self._read_events()
            is_over = self._state.finish_event is not None or self._state.code[self._index] in OVER
            logs = _LogFolders(self._table, log_locator(self._opened.service, self._opened.run)).logs_of(self._index)
            duration_s = time.monotonic() - began
            for log in logs if attempt else logs[-1:]:
                if log.attempt < attempt:
                    continue
                if log.attempt > attempt:
                    attempt, offset = log.attempt, 0
                    yield LogUpdate(attempt, None)
                for begin, piece in self._read_new(log, offset):
                    offset = begin + len(piece)
                    yield LogUpdate(attempt, piece)
            if is_over or is_engine_gone:
                self.is_engine_gone = not is_over
                return
            pause_after_poll(duration_s)

    def _read_new(self, log: Log, offset: int) -> Iterator[tuple[int, bytes]]:
        file = open_log(log.path)
        try:
            size = os.fstat(file).st_size
            if size < offset:
                # The log was truncated: its present content was not shown.
                offset = 0
            if self._tail is not None:
                offset, self._tail = tail_offset(file, self._tail), None
            for piece in read_chunks(file, offset):
                yield offset, piece
                offset += len(piece)
        finally:
            os.close(file)

    def _initial_state(self) -> RunState:
        """Return the state of the job and its ancestors before any event."""
        return initial_state(self._table, self._table.ancestors(self._index))

    def _read_events(self) -> None:
        events = self._follower.read()
        if self._follower.has_restarted:
            self._state = self._initial_state()
        for event in events:
            apply_event(self._state, event)


def _log_record(name: str, index: int, label: str, number: int, path: Path) -> Log:
    try:
        size = path.stat().st_size
    except OSError:
        # The log is gone, or the folder can be listed but not entered: opening it decides.
        size = 0
    return Log(job=name, index=index, label=label, attempt=number, path=path, size_b=size)
