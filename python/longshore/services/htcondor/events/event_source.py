"""Reads the events of a run from HTCondor's logs and from recorded interventions, with a cache that can be deleted.

A log is read once: the events are in ``cache/htcondor``, a file per submission as in a journal, beside the jobs'
phases and the read position. Without that folder all logs are read anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, TypeVar

import msgspec

from longshore.contract.executor import WaitReasons
from longshore.contract.service import Mark, RunPaths, StaleMarkError, Unreachable
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import PLAIN_FORMAT, BriefEvent, Deleted, Event, Finished, Life, Restarted, Steer
from longshore.model.json_lines import encode_line
from longshore.model.states import JobState
from longshore.model.submission import REUSED_BATCH
from longshore.model.tasks import collection_paused
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import first_event, life_path, read_since
from longshore.rundir.run_directory import is_own_run, write_waiting
from longshore.runstate.apply_events import apply_event
from longshore.runstate.replay import list_reuse_events, read_reused_jobs, replay
from longshore.runstate.run_state import OVER, RunState
from longshore.services.htcondor.events.dag_jobs import RunDags
from longshore.services.htcondor.events.dagman_end import DagmanEnd, explain_unsubmitted, read_dagman_end
from longshore.services.htcondor.events.job_phases import JobPhases, SavedJobPhases
from longshore.services.htcondor.events.log_records import AnyLog, LogPosition, ReplacedLogError, UserLog, open_log
from longshore.services.htcondor.events.to_events import BriefEventBuilder, EventBuilder, NoRetryReasons, OutputVerdicts
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    SubmissionRecord,
    dagman_log,
    dagman_out,
    node_logs,
)
from longshore.system.atomic import open_to_append, truncate_file, write_atomically
from longshore.system.folder import make_folders, remove_file
from longshore.system.reading import read_file
from longshore.system.sharing import take_lock

FORMAT: Final = 2
_STATE: Final = "state"
_WAIT_S: Final = 20.0
"""Seconds to wait for another reader's lock; after that, the logs are read without the cache."""


class ReadState(
    msgspec.Struct,
    kw_only=True,
    rename={
        "submissions": "lives",
        "interventions": "orders",
        "position": "place",
        "next_number": "number",
        "is_finished": "finished",
        "phases": "standing",
    },
):
    """The read state of a run: ``cache/htcondor/state``."""

    format: int = FORMAT
    submissions: int = 0
    """Number of submissions from which reading has started."""
    interventions: int = 0
    """Number of recorded interventions that became events."""
    position: LogPosition = LogPosition()
    """Read position in the log of the newest of those submissions."""
    group_positions: list[LogPosition] = []
    """The same in the logs of that submission's groups, where these have DAGs of their own."""
    sizes: list[int] = []
    """Valid bytes of each submission's file of events."""
    next_number: int = 0
    """Number of the next event of the newest submission."""
    is_finished: bool = False
    """Whether the events contain the end of that submission."""
    numbering: int = 0
    """The submission whose job numbers the events have; 0 for the first."""
    phases: SavedJobPhases | None = None
    """Phases of the jobs; ``None`` before the first."""


def read_state(folder: Path) -> ReadState:
    """Read the cached state.

    Raises `OSError` if it is absent or unreadable, one of `DECODE_ERRORS` if it is damaged.
    """
    return msgspec.msgpack.decode(read_file(folder / _STATE), type=ReadState)


def has_state(folder: Path) -> bool:
    """Whether there is a cached state."""
    return (folder / _STATE).exists()


def write_state(folder: Path, state: ReadState, *, below: Path | None = None) -> None:
    """Write the state atomically, through no link below the run directory `below`."""
    write_atomically(folder / _STATE, msgspec.msgpack.encode(state), below=below)


def clear_cache(folder: Path, *, below: Path | None = None) -> None:
    """Delete the cached state and events, so that all logs are read anew."""
    remove_file(folder / _STATE, below=below)
    for path in folder.glob("*.jsonl"):
        remove_file(path, below=below)


@contextmanager
def lock_cache(folder: Path, *, below: Path | None = None, wait_s: float = _WAIT_S) -> Iterator[bool]:
    """Lock the cache against other readers; yields false if the cache cannot be used.

    `wait_s` limits the wait for another process, which may be stopped.
    """
    try:
        make_folders(folder, below=below)
        lock = take_lock(folder / "lock", below=below, wait_s=wait_s, mode=0o664)
    except OSError:
        # Another reader holds it, nothing can be written here, or the file system has no locks.
        yield False
    else:
        with lock:
            yield True


class _Progress(msgspec.Struct):
    """The fields of the state that say whether more events can follow."""

    format: int
    lives: int
    finished: bool


def is_complete(folder: Path, submissions: int) -> bool:
    """Whether the cache has the end of the newest submission; read without the lock, so only a hint."""
    try:
        progress = msgspec.msgpack.decode(read_file(folder / _STATE), type=_Progress)
    except (OSError, *DECODE_ERRORS):
        return False
    return progress == _Progress(FORMAT, submissions, finished=True)


_FOLDER: Final = "htcondor"
_UNCACHED: Final = "unkept:"
_COMPLETE: Final = "whole:"
_LATE_S: Final = 120.0
"""Seconds after which a log written on another host should be visible here."""
_BATCH: Final = 5000
"""Number of events per write."""

_EventT = TypeVar("_EventT")
_LogConversion: TypeAlias = Callable[[EventBuilder, AnyLog, list[Steer]], Iterator[_EventT]]
"""Reads new records of a log, together with the interventions of that time."""


class LogEventSource:
    """Reader of the events of one run.

    Parameters
    ----------
    run
        The run directory.
    record
        Its submissions and interventions.
    is_gone
        Whether DAGMan and all jobs of the newest submission have left the queue; called only if the log does not say.
    find_end_in_history
        DAGMan's end by the schedd's history; called only if it is gone without a record in its log.
    """

    def __init__(
        self,
        run: RunPaths,
        record: SubmissionRecord,
        is_gone: Callable[[], bool],
        find_end_in_history: Callable[[], DagmanEnd | Unreachable | None] = lambda: None,
    ) -> None:
        self._run = run
        self._record = record
        self._is_gone = is_gone
        self._find_end_in_history = find_end_in_history
        self._folder = run.cache / _FOLDER
        self._read_state = ReadState()
        self._phases: JobPhases | None = None
        self._dags = RunDags(run)
        self._ends: dict[int, DagmanEnd | None] = {}
        """Ends of submissions, by number, where already determined."""
        self._leftovers: Event | None = None
        """The event that deletes the jobs left when DAGMan ended."""

    def events(self, mark: Mark = "") -> tuple[Iterator[Event], Mark]:
        """Events since a mark, and the new mark.

        Raises `StaleMarkError` if the mark is invalid, so that the caller must read from the start.
        """
        prefix, own_mark = self._dags.split_mark(mark)
        if not self._update_cache():
            found, reached = self._read_uncached(own_mark)
        elif own_mark.startswith(_UNCACHED):
            raise StaleMarkError
        else:
            found, reached = read_since(self._folder, own_mark)
        return found, f"{prefix}{reached}"

    def brief_events(self, mark: Mark = "", *, with_attempts: bool = False) -> tuple[Iterator[BriefEvent], Mark]:
        """Like `events`, but an attempt that succeeded may be one event, `with_attempts` with its host.

        A run that is over and has no cache is read once, and nothing is cached. Raises `StaleMarkError` if the mark is
        invalid.
        """
        complete = self.complete_mark()
        if mark == complete:
            return iter(()), mark
        if self._dags.split_mark(mark)[1].startswith(_COMPLETE):
            raise StaleMarkError
        newest = len(self._record.submissions)
        if mark or not newest or has_state(self._folder):
            return self.events(mark)
        self._ends[newest] = self._find_end(newest)
        if self._ends[newest] is None:
            return self.events(mark)
        self._reset()
        return self._new_events(partial(self._convert_briefly, with_attempts=with_attempts)), complete

    def complete_mark(self) -> Mark:
        """Mark of a complete uncached read: it changes when anything is added to the run."""
        number = len(self._record.submissions)
        mark = f"{self._dags.split_mark('')[0]}{_COMPLETE}{number}:{len(self._record.accepted)}"
        for path in node_logs(self._run, self._record, number):
            with suppress(OSError):
                status = path.stat()
                mark += f":{status.st_ino}:{status.st_size}"
        return mark

    def brief_phases(self) -> JobPhases | None:
        """Phases after `brief_events`, without granted memory; ``None`` if that did not read to the end."""
        return self._phases if self._read_state.is_finished else None

    def job_phases(self) -> JobPhases:
        """Phases of the jobs, after reading all logs."""
        if not self._update_cache():
            self._read_uncached("")
        return self._phases_so_far()

    # ------------------------------------------------------------------------------------------------------------ cache

    def _update_cache(self) -> bool:
        """Read new records into the cache; false if the cache cannot be used."""
        newest, self._ends = len(self._record.submissions), {}
        if newest and not is_complete(self._folder, newest):
            # Before the lock: a schedd may take long to answer, and other readers must not wait for it.
            self._ends[newest] = self._find_end(newest)
        if not is_own_run(self._run.root):
            return False
        with lock_cache(self._folder, below=self._run.root) as may_write:
            if not may_write:
                return False
            try:
                self._append_new_events()
            except OSError:
                # A full disk does not prevent an uncached read, which raises any other error.
                return False
        return True

    def _read_uncached(self, mark: Mark) -> tuple[Iterator[Event], Mark]:
        """All events, read without a cache: another user's run, or a full disk."""
        found: list[Event] = []
        with collection_paused():
            self._reset()
            for event in self._complete_events(self._numbered_events(), lambda: found):
                found.append(event)  # noqa: PERF402 - the list is read meanwhile
        before = int(mark.removeprefix(_UNCACHED) or 0) if mark.startswith(_UNCACHED) or not mark else -1
        if not 0 <= before <= len(found):
            raise StaleMarkError
        return iter(found[before:]), f"{_UNCACHED}{len(found)}"

    def _load_cache(self) -> None:
        try:
            state = read_state(self._folder)
            is_valid = (state.format, state.numbering) == (FORMAT, self._dags.numbering)
            is_valid = is_valid and state.submissions <= len(self._record.submissions)
            is_valid = is_valid and state.interventions <= len(self._record.accepted)
            for number, size in enumerate(state.sizes, 1):
                path = life_path(self._folder, number)
                actual_size = path.stat().st_size
                is_valid = is_valid and actual_size >= size
                # A file of another run begins with another life.
                is_valid = is_valid and (not size or first_event(path) == self._life_event(number))
                if actual_size > size:
                    # A reader died between writing events and writing the state.
                    truncate_file(path, size, below=self._run.root)
        except (OSError, IndexError, RunUnreadableError, *DECODE_ERRORS):
            is_valid = False
        if is_valid:
            self._read_state, self._phases = state, None
        else:
            self._clear_cache()

    def _life_event(self, number: int) -> Life:
        """Event with which the events of a submission begin."""
        return msgspec.structs.replace(self._record.submissions[number - 1].life, v=PLAIN_FORMAT, life=number)

    def _clear_cache(self) -> None:
        clear_cache(self._folder, below=self._run.root)
        self._reset()

    def _reset(self) -> None:
        """Begin to read anew."""
        self._read_state, self._phases = ReadState(numbering=self._dags.numbering), None

    def _append_new_events(self) -> None:
        """Read new records, and append their events to the cache."""
        self._load_cache()
        state = self._read_state
        if state.is_finished and state.submissions == len(self._record.submissions):
            return
        with collection_paused():
            try:
                changed = self._write_events(self._numbered_events())
            except ReplacedLogError:
                self._clear_cache()
                changed = self._write_events(self._numbered_events())
        if changed:
            if self._phases is not None:
                self._read_state.phases = self._phases.save()
            write_state(self._folder, self._read_state, below=self._run.root)
            self._write_wait_reasons()

    def _write_events(self, events: Iterable[Event]) -> bool:
        """Append events to the files of their submissions; return whether there were any."""
        file: BinaryIO | None = None
        life = 0
        lines: list[bytes] = []

        def written() -> Iterator[Event]:
            self._flush(file, life, lines)
            return read_since(self._folder)[0]

        try:
            for event in self._complete_events(events, written):
                if isinstance(event, Life):
                    # The last events of the submission before.
                    self._flush(file, life, lines)
                    if file is not None:
                        file.close()
                    file = None
                if file is None:
                    life = self._read_state.submissions
                    file = open_to_append(life_path(self._folder, life), below=self._run.root)
                lines.append(encode_line(event))
                if len(lines) >= _BATCH:
                    self._flush(file, life, lines)
            self._flush(file, life, lines)
        finally:
            if file is not None:
                file.close()
        return file is not None

    def _flush(self, file: BinaryIO | None, life: int, lines: list[bytes]) -> None:
        if file is not None and lines:
            text = b"".join(lines)
            file.write(text)
            file.flush()
            self._read_state.sizes[life - 1] += len(text)
            lines.clear()

    def _complete_events(self, events: Iterable[Event], before: Callable[[], Iterable[Event]]) -> Iterator[Event]:
        """The events, completed by those that depend on all before: the final state, and the jobs left at the end.

        Most of the jobs left never ran, and were pruned, not cancelled.
        """
        state: RunState | None = None
        for event in events:
            if isinstance(event, Deleted) and event is self._leftovers:
                state = self._replayed_state(before())
                leftovers = msgspec.structs.replace(
                    event, jobs=tuple(j for j in event.jobs if state.code[j] not in OVER)
                )
                if not leftovers.jobs:
                    self._read_state.next_number -= 1
                    continue
                apply_event(state, leftovers)
                yield leftovers
            elif isinstance(event, Finished):
                state = state or self._replayed_state(before())
                yield msgspec.structs.replace(event, state=self._dags.final_state(state))
                state = None
            else:
                yield event

    def _replayed_state(self, events: Iterable[Event]) -> RunState:
        return replay(JobTable(self._run, "parents"), events)

    def _write_wait_reasons(self) -> None:
        """Write for reports why jobs are held."""
        reasons: dict[str, tuple[int, ...]] = {}
        for job, hold in sorted(self._phases_so_far().holds.items()):
            name = f"held by HTCondor: {hold.reason}"
            reasons[name] = (*reasons.get(name, ()), job)
        with suppress(OSError):
            write_waiting(self._run, WaitReasons(reasons=reasons))

    # ---------------------------------------------------------------------------------------------------------- reading

    def _phases_so_far(self) -> JobPhases:
        if self._phases is None:
            self._phases = JobPhases(self._dags.header.jobs)
            if self._read_state.phases is not None:
                self._phases.restore(self._read_state.phases)
        return self._phases

    def _numbered_events(self) -> Iterator[Event]:
        """New events, numbered."""
        state = self._read_state
        for event in self._new_events(self._convert_fully):
            if not isinstance(event, Life):
                msgspec.structs.force_setattr(event, "n", state.next_number)
                state.next_number += 1
            yield event

    def _new_events(self, convert: _LogConversion[_EventT]) -> Iterator[Event | _EventT]:
        state, submissions = self._read_state, self._record.submissions
        for number in range(max(1, state.submissions), len(submissions) + 1):
            if number == state.submissions and state.is_finished:
                continue
            jobs = self._dags.begin(submissions[number - 1])
            builder = EventBuilder(
                self._phases_so_far(),
                nodes=jobs.nodes,
                retries=jobs.node_retries(submissions[number - 1]),
                requests=self._dags.requests_in(submissions[:number]),
                unconfirmed_cancel=self._unconfirmed_cancel(number),
                no_retry=NoRetryReasons(jobs).of,
                verdicts=OutputVerdicts(jobs),
            )
            if number > state.submissions:
                yield from self._begin_submission(builder, submissions[number - 1])
            yield from self._submission_events(builder, number, convert)

    def _begin_submission(self, builder: EventBuilder, submission: DagSubmission) -> Iterator[Event]:
        state = self._read_state
        state.submissions += 1
        state.sizes.append(0)
        state.position, state.group_positions = LogPosition(), []
        state.next_number, state.is_finished = 1, False
        # Interventions accepted too late for the submission before are no events of this one.
        state.interventions = sum(recorded.life < state.submissions for recorded in self._record.accepted)
        yield self._life_event(state.submissions)
        if submission.restarted is not None:
            for event in self._dags.jobs.translate((submission.restarted, *submission.steers)):
                if isinstance(event, Restarted):
                    builder.reset_for_restart(event.jobs)
                yield event
        elif (reused := read_reused_jobs(self._run)) is not None:
            size = self._dags.jobs.size
            stamps = self._dags.jobs.renumber({job: reused.stamps.get(job, ()) for job in reused.jobs if job < size})
            builder.take_over(stamps)
            kept = sorted(stamps)
            yield from list_reuse_events(reused.run, kept, stamps=stamps, tag=REUSED_BATCH, t=submission.life.t)

    def _submission_events(
        self, builder: EventBuilder, number: int, convert: _LogConversion[_EventT]
    ) -> Iterator[Event | _EventT]:
        """Events of one submission, from its log, its interventions and its end."""
        state = self._read_state
        # Determined before the log is read, so that the log is complete if DAGMan has ended.
        end = self._ends[number] if number in self._ends else self._find_end(number)
        log = open_log(node_logs(self._run, self._record, number), [state.position, *state.group_positions])
        interventions = [
            recorded.steer for recorded in self._record.accepted[state.interventions :] if recorded.life == number
        ]
        yield from convert(builder, log, interventions)
        state.position, *state.group_positions = log.positions
        while interventions:
            yield from self._intervention_events(builder, interventions.pop(0))
        if end is not None:
            messages = dagman_out(self._run, self._record, number)
            jobs, any_log = self._dags.jobs, state.position.offset > 0
            failures = explain_unsubmitted(jobs, messages, end, self._phases_so_far(), any_log=any_log)
            end_events = builder.end_run(end.at, is_removed=end.is_removed, submit_failures=failures)
            self._leftovers = end_events[-1] if end_events else None
            yield from end_events
            state.is_finished = True
            self._dags.has_failed = bool(end.exit)
            yield Finished(state=JobState.UNKNOWN, t=end.at)

    def _convert_fully(self, builder: EventBuilder, log: AnyLog, interventions: list[Steer]) -> Iterator[Event]:
        for record in log.read_records():
            if log.is_replaced:
                raise ReplacedLogError
            while interventions and record.at >= int(interventions[0].t):
                yield from self._intervention_events(builder, interventions.pop(0))
            yield from builder.convert(record)

    def _convert_briefly(
        self, builder: EventBuilder, log: AnyLog, interventions: list[Steer], *, with_attempts: bool
    ) -> Iterator[BriefEvent]:
        # Interventions must be ordered among starts of attempts, which brief events omit; so must records of groups.
        if interventions or not isinstance(log, UserLog):
            return self._convert_fully(builder, log, interventions)
        return BriefEventBuilder(builder, log, with_attempts=with_attempts).events()

    def _intervention_events(self, builder: EventBuilder, steer: Steer) -> Iterable[Event]:
        self._read_state.interventions += 1
        return builder.cancel_run(steer) if steer.act == "cancel" and not steer.select else (steer,)

    def _unconfirmed_cancel(self, life: int) -> Steer | None:
        """Latest cancel command that HTCondor has not confirmed."""
        found = [each.steer for each in self._record.interventions if each.life == life and not each.is_accepted]
        return found[-1] if found else None

    def _find_end(self, number: int) -> DagmanEnd | None:
        newest = len(self._record.submissions)
        submission = self._record.submissions[number - 1]
        path = dagman_log(self._run, self._record, number)
        if (end := read_dagman_end(path, submission.cluster)) is not None and (number < newest or not end.is_removed):
            return end
        # After DAGMan was removed and is gone, some of its jobs may still be running.
        if number == newest and not self._is_gone():
            return None
        # The log may have been written in between.
        if (end := read_dagman_end(path, submission.cluster)) is not None:
            return end
        history_end = self._find_end_in_history() if number == newest else None
        if isinstance(history_end, Unreachable):
            return None
        if history_end is not None:
            # A log from another host may appear late; a lost one is not waited for.
            return history_end if time.time() - history_end.at > _LATE_S else None
        at = submission.life.t
        with suppress(OSError):
            at = max(at, path.stat().st_mtime)
        return DagmanEnd(at=at, is_removed=True)
