"""Replayed events: the state and the attempts of a run after some of its events, which can be stored and continued."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, get_origin

import msgspec

from longshore.app.report.attempts import AttemptCollector, SpentAttempts
from longshore.app.report.newest_attempts import NewestAttempts
from longshore.engine.journal.join_successes import SuccessJoiner
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import initial_state
from longshore.engine.state.apply_events import apply_events
from longshore.engine.state.run_state import RunState
from longshore.model.run.event import (
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
from longshore.model.run.states import Cause
from longshore.model.workflow.request import Request

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
