"""State of a run and reports on its jobs by replay of its events, and what is stored of that for the next report.

A stored report is valid until there is news. The replay of a long journal is stored too, for the next report with
single jobs of a run that goes on. A run without an engine is UNKNOWN.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias, get_origin

import msgspec

from longshore import __version__
from longshore.contract.capabilities import BriefEvents
from longshore.contract.executor import ExecutorOwner
from longshore.contract.service import Mark, RunPaths, StaleMarkError, Unreachable
from longshore.engine.run.progress import find_held_jobs
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import (
    AttemptSucceeded,
    BriefEvent,
    Ended,
    Finished,
    Life,
    Lost,
    StagedFiles,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.report import DamagedError, RunReport, Snapshot
from longshore.model.states import Cause, JobState, state_of_run
from longshore.model.submission import RunIdentity
from longshore.model.tasks import collection_paused
from longshore.model.workflow import Request
from longshore.reports.attempts import AttemptCollector, NewestAttempts, SpentAttempts
from longshore.reports.job_reports import JobColumns, JobReports, ReplayedJobReports, ReplayedJobs, StoredJobReports
from longshore.reports.join_successes import SuccessJoiner
from longshore.reports.state import END_STATES, RunStatus
from longshore.rundir.job_table import Column, JobTable
from longshore.rundir.journal import checksum_at, late_path
from longshore.rundir.journal_damage import JournalSurvey
from longshore.rundir.run_directory import read_cached, read_waiting, write_cached
from longshore.rundir.submissions import workflow_path
from longshore.runstate.apply_events import apply_events
from longshore.runstate.events import chunk_events
from longshore.runstate.open_run import OpenRun
from longshore.runstate.replay import find_unknown_jobs, initial_state
from longshore.runstate.run_state import ACTIVE, JOB_STATES, JobCode, RunState, count_held, count_states, is_stuck
from longshore.system.reading import full_stamp

if TYPE_CHECKING:
    Numbers: TypeAlias = array[Any]
else:
    # Python 3.11 knows no type of an array's members.
    Numbers = array


class ReplayedEvents:
    """State and attempts of a run after some of its events.

    Attributes
    ----------
    state, attempts
        The state of every job, and what is counted of the attempts.
    last_position
        Life and number of the last event.
    """

    def __init__(self, state: RunState, attempts: AttemptCollector, last_position: tuple[int, int] = (0, 0)) -> None:
        self.state = state
        self.attempts = attempts
        self.last_position = last_position
        self._joiner = SuccessJoiner()

    @classmethod
    def before_the_first(cls, jobs: JobTable, *, newest: bool) -> ReplayedEvents:
        """Return what holds before the first event; `newest` collects the newest attempt of each job."""
        attempts = NewestAttempts(len(jobs)) if newest else None
        return cls(initial_state(jobs), AttemptCollector(jobs.label_of, len(jobs.labels), newest=attempts))

    def add(self, events: Sequence[BriefEvent]) -> None:
        """Process the next events, which are at least one."""
        self._apply(self._joiner.join(events))
        life, last = self.attempts.life, events[-1]
        if life is not None:
            self.last_position = life.life, 0 if isinstance(last, Life | AttemptSucceeded) else last.n

    def finish(self) -> None:
        """Process the events that were held back, because no more will come."""
        self._apply(list(self._joiner.release()))
        self.attempts.most_running = max(self.attempts.most_running, self._joiner.most_running)

    def _apply(self, events: Sequence[BriefEvent]) -> None:
        apply_events(self.state, events)
        self.attempts.add(events)

    @contextmanager
    def stored(self) -> Iterator[StoredReplay | None]:
        """Yield all of this to be stored: `continue_from` continues here; ``None`` if it cannot be stored.

        That is so without newest attempts, and with barriers. What is yielded is shared with this, so it is to be
        encoded at once, and before `finish`.
        """
        newest = self.attempts.newest
        if newest is None or self.state.barriers:
            yield None
            return
        held_back: list[Any] = list(self._joiner.release())
        try:
            yield StoredReplay(
                size=self.state.size,
                last_position=self.last_position,
                most_running=self._joiner.most_running,
                held_back=held_back,
                parents=_Rows.of(self.state.parents),
                children=_Rows.of(self.state.children),
                state=_StoredState.of(self.state),
                attempts=_StoredAttempts.of(self.attempts),
                newest=_StoredNewest.of(newest),
            )
        finally:
            self._joiner.join(held_back)

    @classmethod
    def continue_from(cls, stored: StoredReplay, jobs: JobTable) -> ReplayedEvents:
        """Return what was stored of a run with these jobs."""
        state = RunState((), jobs.label_of)
        stored.state.put_into(state)
        state.size = stored.size
        stored.parents.put_into(state.parents)
        stored.children.put_into(state.children)
        newest = NewestAttempts(0)
        stored.newest.put_into(newest)
        # Shared strings: hundreds of thousands of jobs run on a few hosts.
        newest.shared_hosts = shared = {host: host for host in newest.hosts if host is not None}
        newest.hosts = [host and shared[host] for host in newest.hosts]
        attempts = AttemptCollector(jobs.label_of, len(jobs.labels), newest=newest)
        stored.attempts.put_into(attempts)
        replayed = cls(state, attempts, stored.last_position)
        replayed._joiner.most_running = stored.most_running
        replayed._joiner.join(stored.held_back)
        return replayed


class _Stored(msgspec.Struct, kw_only=True):
    """Stored attributes of an object, under their own names."""

    derived: ClassVar[frozenset[str]] = frozenset()
    """Attributes that are not stored with it: other files or `StoredReplay` have them, or only an engine uses them."""

    @classmethod
    def of(cls, source: object) -> Self:
        """Return the attributes of an object; they are shared with it."""
        return cls(**{name: getattr(source, name) for name in cls.__struct_fields__})

    def put_into(self, target: object) -> None:
        """Set the attributes of an object; they are shared with it."""
        for name in self.__struct_fields__:
            setattr(target, name, getattr(self, name))


class _Rows(_Stored):
    """Attributes of an `Adjacency`."""

    neighbours: Numbers
    starts: Numbers


class _StoredState(_Stored):
    """Attributes of a `RunState` without barriers."""

    derived = frozenset({"size", "labels", "parents", "children", "barriers", "newly_ready", "newly_inactive"})

    code: bytearray
    attempts: Numbers
    tries: Numbers
    lost: Numbers
    waiting: Numbers
    counts: list[list[int]]
    final: int
    open_jobs: int
    is_cancelled: bool
    life: Life | None
    finish_event: Finished | None
    last_end: float | None
    cause_counts: dict[tuple[int, Cause], int]
    spent_counts: dict[tuple[int, Cause], int]
    batches: dict[str, Submitting]
    active: dict[int, str]
    cancelling: set[int]
    identities: dict[int, Mapping[str, tuple[str, ...]]]
    undecided_ends: dict[int, Ended | Lost]
    requests: dict[int, Request]
    not_before: dict[int, float]
    delays: dict[int, float]
    paused: str
    throttles: dict[int, int]
    held: set[int]
    set_values: dict[int, Mapping[str, str]]
    delayed_sets: dict[int, list[Steer]]
    set_retries: dict[int, int]
    orders: set[str]


class _StoredAttempts(_Stored):
    """Attributes of an `AttemptCollector`."""

    derived = frozenset({"label_of", "newest", "live_jump_s", "since_life_s"})

    life: Life | None
    finished: Finished | None
    first_start: float | None
    idle_s: float
    starts_in_life: bool
    running: dict[int, Started]
    most_running: int
    over: bytearray
    failed: dict[int, str]
    failed_ends: dict[int, Ended | Lost]
    overcome_ends: dict[int, Ended | Lost]
    doubtful_ends: dict[int, Ended]
    removed: dict[int, str]
    retry_times: dict[int, float]
    hold_codes: dict[int, int]
    run_s: list[Numbers]
    ended_at: Numbers
    busy_s: Numbers
    badput: dict[Cause, SpentAttempts]
    peak_memory_b: Numbers
    raised_memory_b: Numbers
    staged: dict[int, StagedFiles]
    unanswered: dict[str, tuple[tuple[int, int], ...]]


class _StoredNewest(_Stored):
    """Attributes of `NewestAttempts`."""

    derived = frozenset({"shared_hosts"})

    started: Numbers
    succeeded: Numbers
    start_times: Numbers
    end_times: Numbers
    run_s: Numbers
    cpu_s: Numbers
    rss_b: Numbers
    hosts: list[str | None]
    other_ends: dict[int, Ended | Lost]


class StoredReplay(msgspec.Struct, kw_only=True):
    """Everything of `ReplayedEvents` of `size` jobs; `held_back` are the events that its joiner holds back.

    Encoding and decoding it takes `encode_array` and `decode_array` as hooks.
    """

    size: int
    last_position: tuple[int, int]
    most_running: int
    held_back: list[Submitting | Submitted | Started]
    parents: _Rows
    children: _Rows
    state: _StoredState
    attempts: _StoredAttempts
    newest: _StoredNewest


def encode_array(value: object) -> object:
    """Return an array as msgspec encodes it; its hook for what it does not know."""
    if isinstance(value, array):
        return value.typecode, value.tobytes()
    raise NotImplementedError(type(value))


def decode_array(kind: type, value: Any) -> object:
    """Return an array, or a counter, from what msgspec decoded; its hook for what it does not know."""
    if get_origin(kind) is Counter:
        return Counter(value)
    if kind is array:
        typecode, text = value
        numbers: Numbers = array(typecode)
        numbers.frombytes(text)
        return numbers
    raise NotImplementedError(kind)


_FORMAT: Final = 10
_NAMES: Final = {False: "report.json", True: "details.json"}
"""Names of the cached report without single jobs, and with them."""
_REPLAY_FORMAT: Final = 4
_REPLAY: Final = "replay.msgpack"
_MANY_EVENTS: Final = 20_000
_JOBS_PER_EVENT: Final = 5
"""Fewer new events than `_MANY_EVENTS`, or than one per so many jobs, take less time to read than a replay to store."""


class CachedReport(msgspec.Struct, frozen=True, kw_only=True):
    """Cached report with its inputs: a change of any input invalidates it.

    `format` and `longshore` identify the writer. `mark` is the position in the events; `card`, `snapshot`, `life` (the
    newest engine) and `workflow`, a stamp of its file, are the other inputs. `logs` has modification time and size of
    example logs, ``None`` for a missing log. The jobs of `report` are in `jobs`, as columns, which are smaller and
    faster than a hundred thousand records.
    """

    format: int = _FORMAT
    longshore: str = __version__
    mark: Mark
    card: RunIdentity
    workflow: tuple[int, ...]
    snapshot: Snapshot | None
    logs: dict[str, tuple[int, int] | None]
    life: Life | None
    report: RunReport
    jobs: JobColumns | None


class CachedReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Cached replay with what it is valid for; `mark` is the position in the events up to which it goes.

    `checksum` is the running checksum of the journal there: a journal that was brought back from a copy has other
    events at the same position. `late` has the sizes of the late events of lives before the newest, which are read in
    front of it. `workflow` is a stamp of the file with the run's jobs.
    """

    format: int = _REPLAY_FORMAT
    longshore: str = __version__
    mark: Mark
    checksum: int
    late: tuple[int, ...]
    card: RunIdentity
    workflow: tuple[int, ...]
    replay: StoredReplay


class _Writer(msgspec.Struct):
    """Writer of a cache file."""

    format: int
    longshore: str


def caches_details(opened: OpenRun) -> bool:
    """Return whether reports with single jobs are cached: where the service has a shorter form of its slow events."""
    return isinstance(opened.service, BriefEvents)


def read_cached_report(opened: OpenRun, snapshot: Snapshot | None, *, details: bool = False) -> CachedReport | None:
    """Return the cached report if all its inputs are unchanged; `snapshot` is the engine's newest.

    With `details`, it is the report with single jobs.
    """
    text = read_cached(opened.run, _NAMES[details]) if opened.card_damage is None else b""
    try:
        with collection_paused():
            cached = msgspec.json.decode(text, type=CachedReport) if text else None
    except DECODE_ERRORS:
        return None
    if cached is None or (cached.format, cached.longshore) != (_FORMAT, __version__):
        return None
    if (cached.report.path, cached.card, cached.snapshot) != (str(opened.directory), opened.card, snapshot):
        return None
    if cached.workflow != _workflow_stamp(opened.run):
        return None
    if not _is_newest(opened, cached.mark) or cached.logs != _log_stamps(cached.report):
        return None
    jobs = StoredJobReports(cached.jobs) if cached.jobs is not None else None
    return msgspec.structs.replace(cached, report=msgspec.structs.replace(cached.report, jobs=jobs), jobs=None)


def cache_report(
    opened: OpenRun, snapshot: Snapshot | None, *, mark: Mark, life: Life | None, report: RunReport
) -> RunReport:
    """Store a report, if the run directory is writable, and return it: its jobs are made once.

    `mark` is the position in the events, `life` the newest engine.
    """
    if opened.card_damage is not None:
        return report
    columns: JobColumns | None = None
    if isinstance(report.jobs, JobReports):
        with collection_paused():
            jobs = StoredJobReports.of(report.jobs)
        report, columns = msgspec.structs.replace(report, jobs=jobs), jobs.stored
    cached = CachedReport(
        mark=mark,
        card=opened.card,
        workflow=_workflow_stamp(opened.run),
        snapshot=snapshot,
        logs=_log_stamps(report),
        life=life,
        report=msgspec.structs.replace(report, jobs=None),
        jobs=columns,
    )
    # A path that is no UTF-8 cannot be stored.
    with suppress(OSError, UnicodeEncodeError):
        write_cached(opened.run, _NAMES[columns is not None], msgspec.json.encode(cached))
    return report


def read_cached_replay(opened: OpenRun) -> CachedReplay | None:
    """Return the cached replay of the run's events if it is of this submission; later events are not in it."""
    text = read_cached(opened.run, _REPLAY)
    if not text:
        return None
    try:
        writer = msgspec.msgpack.decode(text, type=_Writer)
        if (writer.format, writer.longshore) != (_REPLAY_FORMAT, __version__):
            return None
        cached = msgspec.msgpack.decode(text, type=CachedReplay, dec_hook=decode_array)
        if (cached.card, cached.workflow) != (opened.card, _workflow_stamp(opened.run)):
            return None
        if cached.late != _late_sizes(opened.run, cached.mark) or cached.replay.size != opened.card.expected:
            return None
        return cached if cached.checksum == checksum_at(opened.run.journal, cached.mark) else None
    except (*DECODE_ERRORS, OSError, RunUnreadableError, DamagedError):
        return None


def encode_replay(opened: OpenRun, replayed: ReplayedEvents, *, mark: Mark, number: int) -> bytes:
    """Encode a replay for the cache; empty if only few events, `number`, are new to it.

    `mark` is the position in the events. To be called before the replay is finished.
    """
    has_journal = isinstance(opened.service, ExecutorOwner) and not caches_details(opened)
    if number < max(_MANY_EVENTS, replayed.state.size // _JOBS_PER_EVENT) or not has_journal:
        return b""
    checksum = checksum_at(opened.run.journal, mark)
    with replayed.stored() as replay:
        if replay is None or checksum is None:
            return b""
        cached = CachedReplay(
            mark=mark,
            checksum=checksum,
            late=_late_sizes(opened.run, mark),
            card=opened.card,
            workflow=_workflow_stamp(opened.run),
            replay=replay,
        )
        try:
            return msgspec.msgpack.encode(cached, enc_hook=encode_array)
        except OverflowError:
            # A number in an event has no room; the report has.
            return b""


def cache_replay(opened: OpenRun, replay: bytes) -> None:
    """Store an encoded replay, if the run directory is writable."""
    with suppress(OSError):
        write_cached(opened.run, _REPLAY, replay)


def _late_sizes(run: RunPaths, mark: Mark) -> tuple[int, ...]:
    """Return the sizes of the late events of lives before the one that a mark names."""
    earlier = range(1, int(mark.partition(":")[0]))
    stamps = (_file_stamp(late_path(run.journal, life)) for life in earlier)
    return tuple(stamp[1] if stamp else 0 for stamp in stamps)


def _workflow_stamp(run: RunPaths) -> tuple[int, ...]:
    """Return a stamp of the workflow, which was compared with its manifest when the cache was written."""
    return full_stamp(workflow_path(run))


def _is_newest(opened: OpenRun, mark: Mark) -> bool:
    """Tell whether there are no events after a mark."""
    try:
        answer = opened.brief_events(mark)
        # Damage before the mark is raised when what follows it is read.
        return not isinstance(answer, Unreachable) and answer[1] == mark and not any(answer[0])
    except (StaleMarkError, DamagedError):
        return False


def _log_stamps(report: RunReport) -> dict[str, tuple[int, int] | None]:
    failures = report.summary.failures if report.summary else ()
    return {failure.log: _file_stamp(Path(failure.log)) for failure in failures if failure.log}


def _file_stamp(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


class Replay:
    """State of a run after replaying its events.

    `alive` is whether an engine lives; `details` requests job reports.

    `unreachable` is why the workload manager did not answer, empty if it did. `has_no_events` means that no event is
    known: the manager did not answer, or the submitted run has no event and no engine to come. `has_no_engine` means
    not finished and without engine; `is_watched` means that neither holds. `last_position` is life and number of the
    last event, `mark` the position after it.
    `held` are jobs that the workload manager holds until a person releases them. `survey` tells the journal's damages;
    `unknown` are the jobs whose state is not known because of them.
    """

    def __init__(self, opened: OpenRun, *, alive: bool | Unreachable, details: bool) -> None:
        self._opened = opened
        self._is_damaged, self._to_cache = False, b""
        with collection_paused():
            cached = read_cached_replay(opened) if details else None
            # A dead engine is resumed by what the journal says, so all of it is checked then.
            if cached is not None and alive is False and opened.survey.damages:
                cached = None
            has_events = self._replay(cached, details=details)
        self.state, self.attempts = self._replayed.state, self._replayed.attempts
        self.last_position = self._replayed.last_position
        self.survey = JournalSurvey(())
        self.unknown: frozenset[int] = frozenset()
        # An engine that is itself a job may be queued for long before its first event.
        lost = bool(opened.card.submissions) and alive is not True
        self.has_no_events = not has_events and (bool(self.unreachable) or lost)
        self.has_no_engine = alive is not True and not self.state.finish_event
        if self._is_damaged or (alive is False and not self.unreachable and opened.find_lost_lives()):
            self.survey = opened.survey
            self.unknown = find_unknown_jobs(self.state, self.survey)
        elif self._to_cache:
            cache_replay(opened, self._to_cache)
        self._shown = [self._shown_for(code) for code in JobCode]
        self.is_watched = not self.has_no_engine and not self.has_no_events and not self.survey.damages
        self.held = find_held_jobs(read_waiting(opened.run), self.state.code) if self.is_watched else frozenset()

    def _replay(self, cached: CachedReplay | None, *, details: bool) -> bool:
        """Replay all events, or those after a cached replay; return whether there are any."""
        opened = self._opened
        try:
            answer = opened.brief_events(cached.mark if cached else "", with_attempts=details)
        except StaleMarkError:
            cached = None
            answer = opened.brief_events(with_attempts=details)
        self.unreachable = answer.why if isinstance(answer, Unreachable) else ""
        self.mark: Mark = "" if isinstance(answer, Unreachable) else answer[1]
        columns: list[Column] = ["names"] if details else []
        if cached is None:
            columns.append("parents")
        self.jobs = JobTable(opened.run, *columns)
        if cached is not None:
            self._replayed = ReplayedEvents.continue_from(cached.replay, self.jobs)
        else:
            self._replayed = ReplayedEvents.before_the_first(self.jobs, newest=details)
        number = 0 if isinstance(answer, Unreachable) else self._add(answer[0])
        if cached is not None and self._is_damaged:
            # Only a replay of all events knows what precedes the damage.
            self._is_damaged = False
            return self._replay(None, details=details)
        return bool(cached or number)

    def _add(self, events: Iterable[BriefEvent]) -> int:
        """Process events, those before a damage if there is one; return their number."""
        number = 0
        try:
            for piece in chunk_events(events):
                number += len(piece)
                self._replayed.add(piece)
        except DamagedError:
            self._is_damaged = True
        else:
            self._to_cache = encode_replay(self._opened, self._replayed, mark=self.mark, number=number)
        self._replayed.finish()
        return number

    def _shown_for(self, code: int) -> JobState:
        """Return the state to show for a code: unknown for jobs that no engine watches."""
        if self.has_no_events or (self.has_no_engine and code in ACTIVE):
            return JobState.UNKNOWN
        return JOB_STATES[code]

    def status(self, notes: Iterable[str] = ()) -> RunStatus:
        """Return the run's status with some notes."""
        rows = list(map(self._shown_row, self.state.counts))
        for job in self.unknown:
            row = rows[self.state.labels[job]]
            row[self._shown[self.state.code[job]]] -= 1
            row[JobState.UNKNOWN] += 1
        count_held(rows, self.state, self.held)
        # Only a damaged header has labels without jobs.
        labels = {label: count_states([]) for label in self.jobs.labels} | dict(
            zip(self.jobs.labels, rows, strict=False)
        )
        for label, reported in self._opened.reported_counts.items():
            if label in labels:
                labels[label] = dict.fromkeys(JobState, 0) | dict(reported)
        counts = {state: sum(row[state] for row in labels.values()) for state in JobState}
        return RunStatus(
            state=self._state_of_run(counts),
            counts=counts,
            labels=labels,
            notes=tuple(notes),
            is_live=self.is_watched and not self.state.finish_event,
            is_paused=bool(self.state.paused) and not self.state.finish_event,
        )

    def _shown_row(self, row: Iterable[int]) -> dict[JobState, int]:
        counts = count_states([])
        for code, number in enumerate(row):
            counts[self._shown[code]] += number
        return counts

    def _state_of_run(self, counts: dict[JobState, int]) -> JobState:
        state = self.state
        if not self.is_watched:
            return JobState.UNKNOWN
        overall = state_of_run(counts, expected=self._opened.card.expected, cancelled=state.is_cancelled)
        if self.held and is_stuck(state, self.held):
            return JobState.HELD
        if state.compute_state() is JobState.HELD and overall is not JobState.UNKNOWN:
            return JobState.HELD
        if overall in END_STATES and not state.finish_event:
            return JobState.RUNNING
        return overall

    @property
    def job_reports(self) -> JobReports | None:
        """Return the reports of all jobs if `details` was requested."""
        newest = self.attempts.newest
        if newest is None:
            return None
        return ReplayedJobReports(
            ReplayedJobs(
                state=self.state,
                attempts=newest,
                names=self.jobs.names,
                labels=self.jobs.labels,
                shown=self._shown,
                held=self.held,
                unknown=self.unknown,
                locator=self._opened.log_locator,
                hide=self._opened.hide_secrets,
                not_retried=self.attempts.failed,
            )
        )
