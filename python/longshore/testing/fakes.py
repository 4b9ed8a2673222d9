"""Fake clock, workload manager and executor, for tests of engines and plug-ins.

A whole run takes milliseconds, and a test can make the manager fail in each way that real ones do::

    clock = FakeClock()
    manager = FakeManager(clock, lambda job, attempt: AttemptOutcome(run_s=60.0, exit=1 if attempt == 1 else 0))
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)}, profiles={"a": {"number_of_retries": 1}})
    engine = Engine(run, FakeExecutor(manager), EngineSettings(), clock=clock, by="submit", say=print)
    assert engine.run() is JobState.SUCCEEDED
    assert manager.successes == {0: 1, 1: 1}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final, TypeAlias

import msgspec

from longshore.contract.executor import (
    Accepted,
    Batch,
    BatchMember,
    Executor,
    FindResult,
    Limits,
    MemberEvent,
    NewsWait,
    PollResult,
    ProcessCleanup,
    Rejected,
    ResourceProbe,
    SubmitResult,
    Throttled,
    Unsure,
)
from longshore.contract.service import CancelOutcome, Mark, PingReport, RunPaths, Unreachable
from longshore.model.event import Ended, Lost, Started
from longshore.model.states import Cause

AttemptId: TypeAlias = tuple[int, int]
"""Index of a job, and number of its attempt."""
HOST: Final = "fakehost"
"""Where every attempt runs."""
_TERM, _KILL = 15, 9


class ContractViolationError(AssertionError):
    """Call that breaks the contract of executors."""


class FakeClock:
    """Clock that stands still until a test moves it.

    Parameters
    ----------
    now
        Seconds since the epoch at the beginning.
    """

    def __init__(self, now: float = 1_763_630_000.0) -> None:
        self._now = now
        self._elapsed = 0.0

    def now(self) -> float:
        """Seconds since the epoch (UTC), with all jumps."""
        return self._now

    def elapsed(self) -> float:
        """Seconds since the clock was made; never jumps."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._elapsed += seconds

    def jump(self, seconds: float) -> None:
        """Set the time of day forward or back, as an administrator does; no time passes."""
        self._now += seconds


class AttemptOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Course of one attempt, and how the manager reports it.

    Attributes
    ----------
    queue_s, run_s
        Seconds until it starts, and from then until it ends.
    exit, signal
        How it ends.
    cause, rss_b
        Why, where that is more than its exit code or signal; and the most memory it had.
    lost
        Whether it vanishes instead, with an unknown outcome.
    term_delay_s
        Seconds from TERM to its end; it is killed when the grace is over.
    start_delay_s, end_delay_s
        Seconds until the manager reports its start, and its end.
    reports
        Number of times that the manager reports each.
    """

    queue_s: float = 0.0
    run_s: float = 1.0
    exit: int = 0
    signal: int | None = None
    cause: Cause | None = None
    rss_b: int | None = None
    lost: bool = False
    term_delay_s: float = 0.0
    start_delay_s: float = 0.0
    end_delay_s: float = 0.0
    reports: int = 1


class SubmitReply(StrEnum):
    """Answer of a manager to the submission of a batch."""

    ACCEPTED = "ACCEPTED"
    REFUSED = "REFUSED"
    THROTTLED = "THROTTLED"
    UNSURE_TAKEN = "UNSURE_TAKEN"
    """`Unsure`, and the batch was taken."""
    UNSURE_NOT_TAKEN = "UNSURE_NOT_TAKEN"
    DROPPED = "DROPPED"
    """`Accepted`, and no member ever starts."""


class ExecutorCall(msgspec.Struct, frozen=True):
    """Call of an executor by an engine: the method, the engine's life, and the argument."""

    method: str
    life: int
    argument: object = None


def _succeeds(_job: int, _attempt: int) -> AttemptOutcome:
    return AttemptOutcome()


def _accepts(_batch: Batch) -> SubmitReply:
    return SubmitReply.ACCEPTED


class FakeManager:
    """Workload manager of single jobs, in memory. It outlives its engines; each engine has a `FakeExecutor`.

    It raises `ContractViolationError` if an engine submits an attempt twice, more members than there is room for, two
    attempts with the same member of a resource, or anything after a newer engine began.

    Parameters
    ----------
    clock
        The clock; it moves on when an engine waits.
    outcome
        What becomes of an attempt (job, attempt).
    submit_reply
        How a batch is answered.
    capacity
        Amount per resource, where the manager leaves the counting to the engine.
    identities
        Members of those resources that have any.
    retry_after_s
        What it says when it throttles.
    order
        Shuffles what is told in one answer; ``None`` leaves it in the order in which it came about.
    """

    def __init__(
        self,
        clock: FakeClock,
        outcome: Callable[[int, int], AttemptOutcome] = _succeeds,
        *,
        submit_reply: Callable[[Batch], SubmitReply] = _accepts,
        capacity: Mapping[str, int] | None = None,
        identities: Mapping[str, tuple[str, ...]] | None = None,
        retry_after_s: float = 5.0,
        order: Random | None = None,
    ) -> None:
        self.clock = clock
        self.capacity = capacity
        self.identities = identities or {}
        self.identities_of: dict[AttemptId, set[tuple[str, str]]] = {}
        """Pairs of resource and member, such as GPUs, per attempt."""
        self.calls: list[ExecutorCall] = []
        """Calls of all engines, in order."""
        self.batches: dict[str, Batch] = {}
        """The batches that were taken, by tag."""
        self.started: dict[AttemptId, float] = {}
        """When each attempt started, on the clock that never jumps."""
        self.ended: dict[AttemptId, Ended | Lost] = {}
        """How each attempt ended, whether or not it was told yet."""
        self.successes: Counter[int] = Counter()
        """How many attempts of a job succeeded."""
        self.most_running = 0
        """The largest number of attempts that ever ran at once."""
        self.newest_life = 0
        self._outcome = outcome
        self._submit_reply = submit_reply
        self._retry_after_s = retry_after_s
        self._order = order
        self._members: dict[AttemptId, Batch] = {}
        self._cancelled: set[AttemptId] = set()
        self._free = dict(capacity or {})
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._events: list[MemberEvent] = []
        self._never_started: list[AttemptId] = []
        self._silent_until = 0.0

    @property
    def running(self) -> set[AttemptId]:
        """The attempts that run right now."""
        return self.started.keys() - self.ended.keys()

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Schedule a call."""
        heappush(self._due, (self.clock.elapsed() + seconds, next(self._numbers), call))

    def stop_answering(self, seconds: float) -> None:
        """Answer no call for some time; jobs go on."""
        self._silent_until = self.clock.elapsed() + seconds

    def run_due_events(self) -> None:
        """Run the calls that are due."""
        while self._due and self._due[0][0] <= self.clock.elapsed():
            heappop(self._due)[2]()

    def wait(self, timeout_s: float) -> None:
        """Move the clock to the next scheduled call, or by `timeout_s`."""
        due = self._due[0][0] - self.clock.elapsed() if self._due else timeout_s
        self.clock.advance(max(0.0, min(timeout_s, due)))
        self.run_due_events()

    def submit(self, batch: Batch, life: int) -> SubmitResult:
        """Answer a submission, and take the batch if the answer says so."""
        if life < self.newest_life:
            raise ContractViolationError(f"life {life} hands over '{batch.tag}', and life {self.newest_life} has begun")
        submit_reply = self._submit_reply(batch)
        if submit_reply in {SubmitReply.ACCEPTED, SubmitReply.UNSURE_TAKEN}:
            self._take(batch)
        if submit_reply is SubmitReply.DROPPED:
            self._never_started += [(member.job, member.attempt) for member in batch.members]
        match submit_reply:
            case SubmitReply.ACCEPTED | SubmitReply.DROPPED:
                return Accepted(batch.tag)
            case SubmitReply.REFUSED:
                return Rejected("the manager refuses")
            case SubmitReply.THROTTLED:
                return Throttled("the manager is busy", self._retry_after_s)
            case _:
                return Unsure("the manager's answer was lost")

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Return which batches were taken."""
        if self._is_silent():
            return Unreachable(why="the manager is silent")
        return FindResult(
            {
                tag: frozenset((member.job, member.attempt) for member in self.batches[tag].members)
                for tag in tags
                if tag in self.batches
            }
        )

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return the events after a mark."""
        self.run_due_events()
        if self._is_silent():
            return Unreachable(why="the manager is silent")
        events = self._events[int(since or 0) :]
        if self._order:
            self._order.shuffle(events)
        never, self._never_started = self._never_started, []
        return PollResult(events=events, mark=str(len(self._events)), never_started=never)

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> int:
        """End attempts, and return how many were active."""
        there = [
            attempt
            for attempt in sorted(attempts)
            if attempt in self._members and attempt not in self.ended and attempt not in self._cancelled
        ]
        for attempt in there:
            self._cancelled.add(attempt)
            term_delay_s = self._outcome(*attempt).term_delay_s if attempt in self.started else 0.0
            number = _TERM if term_delay_s <= grace_s else _KILL
            self.at(min(term_delay_s, grace_s), partial(self._end, attempt, None, number))
        return len(there)

    def _is_silent(self) -> bool:
        return self.clock.elapsed() < self._silent_until

    def _take(self, batch: Batch) -> None:
        self.batches[batch.tag] = batch
        for member in batch.members:
            attempt = (member.job, member.attempt)
            if attempt in self._members:
                raise ContractViolationError(f"attempt {attempt[1]} of job {attempt[0]} is handed over a second time")
            self._members[attempt] = batch
            self._reserve(batch, member)
            self.at(self._outcome(*attempt).queue_s, partial(self._start, attempt))

    def _reserve(self, batch: Batch, member: BatchMember) -> None:
        for name, amount in self._amounts(batch):
            self._free[name] -= amount
            if self._free[name] < 0:
                raise ContractViolationError(f"'{member.name}' is handed over, and there is too little of '{name}'")
        own = self.identities_of[member.job, member.attempt] = _members_of(member, self.identities)
        for attempt, theirs in self.identities_of.items():
            if attempt not in self.ended and attempt != (member.job, member.attempt) and own & theirs:
                raise ContractViolationError(f"'{member.name}' is given {own & theirs}, and attempt {attempt} has that")

    def _amounts(self, batch: Batch) -> list[tuple[str, int]]:
        there = self.capacity or {}
        return [(name, min(asked, there[name])) for name, asked in batch.request.amounts().items() if name in there]

    def _start(self, attempt: AttemptId) -> None:
        if attempt in self.ended:
            return
        outcome = self._outcome(*attempt)
        self.started[attempt] = self.clock.elapsed()
        self.most_running = max(self.most_running, len(self.running))
        self._report(
            Started(j=attempt[0], a=attempt[1], host=HOST, at=self.clock.now()), outcome.start_delay_s, outcome
        )
        code = outcome.exit if outcome.signal is None else None
        self.at(outcome.run_s, partial(self._end, attempt, code, outcome.signal))

    def _end(self, attempt: AttemptId, code: int | None, signal: int | None) -> None:
        if attempt in self.ended:
            return
        for name, amount in self._amounts(self._members[attempt]):
            self._free[name] += amount
        outcome = self._outcome(*attempt)
        event = self._end_event(attempt, code, signal, lost=outcome.lost)
        if isinstance(event, Ended) and outcome.cause and attempt not in self._cancelled:
            event = msgspec.structs.replace(event, cause=outcome.cause, rss_b=outcome.rss_b)
        self.ended[attempt] = event
        if isinstance(event, Ended) and event.cause is None:
            self.successes[attempt[0]] += 1
        self._report(event, outcome.end_delay_s, outcome)

    def _end_event(self, attempt: AttemptId, code: int | None, signal: int | None, *, lost: bool) -> Ended | Lost:
        job, number = attempt
        if lost:
            return Lost(j=job, a=number, why="the manager forgot it")
        start = self.started.get(attempt)
        return Ended(
            j=job,
            a=number,
            exit=code,
            signal=signal,
            cause=Cause.SIGNAL if signal else Cause.EXIT if code else None,
            host=HOST,
            end=self.clock.now(),
            run_s=None if start is None else self.clock.elapsed() - start,
        )

    def _report(self, event: MemberEvent, delay_s: float, outcome: AttemptOutcome) -> None:
        for _ in range(outcome.reports):
            if delay_s:
                self.at(delay_s, partial(self._events.append, event))
            else:
                self._events.append(event)


def _members_of(member: BatchMember, identities: Mapping[str, tuple[str, ...]]) -> set[tuple[str, str]]:
    """Resource and member of all that an attempt finds in its environment."""
    words = {name: member.environment.get(f"LONGSHORE_JOB_RESOURCE_{name.upper()}_IDS", "") for name in identities}
    return {(name, each) for name, text in words.items() for each in text.split(",") if each}


class FakeExecutor(Executor, ResourceProbe, NewsWait, ProcessCleanup):
    """Executor of one engine, which drives a `FakeManager`.

    Parameters
    ----------
    manager
        The manager.
    limits
        What the engine is to keep to.
    """

    def __init__(self, manager: FakeManager, *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._manager = manager
        self._life = 0

    def open(self, run: RunPaths, life: int) -> None:
        """Begin a life; older lives may not submit from then on."""
        self._life = life
        self._manager.newest_life = max(life, self._manager.newest_life)
        self._record_call("open")

    def submit(self, batch: Batch) -> SubmitResult:
        """Submit a batch."""
        self._record_call("submit", batch)
        return self._manager.submit(batch, self._life)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look batches up."""
        tags = tuple(tags)
        self._record_call("find", tags)
        return self._manager.find(tags)

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return the events since the mark."""
        self._record_call("poll", since)
        return self._manager.poll(since)

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """Cancel attempts."""
        attempts = frozenset(attempts)
        self._record_call("cancel", attempts)
        return CancelOutcome(ended=self._manager.cancel(attempts, grace_s=grace_s))

    def end_leftovers(self) -> CancelOutcome:
        """Record the call."""
        self._record_call("end_leftovers")
        return CancelOutcome(ended=0)

    def probe(self) -> PingReport:
        """Return the manager's capacity."""
        return PingReport(
            service="fake",
            ok=True,
            message="a fake",
            capacity=self._manager.capacity,
            identities=self._manager.identities,
        )

    def wait(self, timeout_s: float) -> None:
        """Move the clock on."""
        self._record_call("wait", timeout_s)
        self._manager.wait(timeout_s)

    def close(self) -> None:
        """Record the call."""
        self._record_call("close")

    def _record_call(self, method: str, argument: object = None) -> None:
        self._manager.calls.append(ExecutorCall(method, self._life, argument))
