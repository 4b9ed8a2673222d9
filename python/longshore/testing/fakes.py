"""A clock, a manager of single jobs and a run directory that exist for tests alone, for whoever writes a plugin.

All in one file because no test does with one of them alone. A whole run takes milliseconds, and whatever a real manager
might do wrong can be asked for::

    clock = FakeClock()
    manager = FakeManager(clock, lambda job, attempt: Outcome(run_s=60.0, exit=1 if attempt == 1 else 0))
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)}, profiles={"a": {"number_of_retries": 1}})
    engine = Engine(run, FakeExecutor(manager), EngineSettings(), clock=clock, by="submit", say=print)
    assert engine.run() is JobState.SUCCEEDED
    assert manager.successes == {0: 1, 1: 1}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from longshore import __version__
from longshore.contract.batch import (
    Accepted,
    Batch,
    BatchMember,
    FindResult,
    Limits,
    MemberEvent,
    PollResult,
    Rejected,
    SubmitResult,
    Throttled,
    Unsure,
)
from longshore.contract.context import Context, Mark, PingReport, RunPaths, Site, Unreachable
from longshore.contract.executor import Executor, NewsWait, ProcessCleanup, ResourceProbe
from longshore.contract.intervention import CancelOutcome
from longshore.engine import settings as engine_settings
from longshore.model.lines.codec import workflow_lines
from longshore.model.run.event import Ended, Lost, Started
from longshore.model.run.state import Cause
from longshore.model.run.submission import RunIdentity
from longshore.model.tasks.dag import Dag
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.workflow import Workflow
from longshore.world.files.atomic import create_file
from longshore.world.runs.run_directory import RUN_FORMAT, create_run_directory, write_card, write_rendered

AttemptId: TypeAlias = tuple[int, int]
"""Index of a job, and number of its attempt."""
HOST: Final = "fakehost"
"""Where every attempt runs."""
_TERM, _KILL = 15, 9


class BrokenPromiseError(AssertionError):
    """An engine asked a manager for what no engine may ever ask."""


class FakeClock:
    """A clock that stands still until it is moved.

    Parameters
    ----------
    now
        Seconds since the epoch at the beginning.
    """

    def __init__(self, now: float = 1_763_630_000.0) -> None:
        self._now = now
        self._elapsed = 0.0

    def now(self) -> float:
        """Seconds since the epoch (UTC); jumps when told to."""
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


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one attempt, and how the manager tells of it.

    Attributes
    ----------
    queue_s, run_s
        Seconds until it starts, and from then until it ends.
    exit, signal
        How it ends.
    cause, rss_b
        Why, where that is more than its exit code or signal; and the most memory it had.
    lost
        Whether it vanishes instead, so that nobody knows how it ended.
    dies_s
        Seconds it lives on after it was asked to end; it is killed when the grace is over.
    start_told_s, end_told_s
        Seconds until the manager tells of its start, and of its end.
    told
        How many times the manager tells of each.
    """

    queue_s: float = 0.0
    run_s: float = 1.0
    exit: int = 0
    signal: int | None = None
    cause: Cause | None = None
    rss_b: int | None = None
    lost: bool = False
    dies_s: float = 0.0
    start_told_s: float = 0.0
    end_told_s: float = 0.0
    told: int = 1


class Taking(StrEnum):
    """How a manager answers when a batch is handed over."""

    ACCEPTED = "ACCEPTED"
    REFUSED = "REFUSED"
    THROTTLED = "THROTTLED"
    UNSURE_TAKEN = "UNSURE_TAKEN"
    """Nobody can say whether the batch was taken; it was."""
    UNSURE_NOT_TAKEN = "UNSURE_NOT_TAKEN"
    DROPPED = "DROPPED"
    """It is accepted, and gone before any of it started."""


class Asked(msgspec.Struct, frozen=True):
    """Something an engine asked: the method, the engine's life, and what it gave."""

    what: str
    life: int
    given: Any = None


def _succeeds(_job: int, _attempt: int) -> Outcome:
    return Outcome()


def _accepts(_batch: Batch) -> Taking:
    return Taking.ACCEPTED


class FakeManager:
    """A manager of single jobs, in memory; it outlives the engines that use it, each through a `FakeExecutor`.

    An engine that hands an attempt over twice, or more at once than there is room for, or to two attempts what only one
    can have, or anything when a newer engine has begun, gets a `BrokenPromiseError`.

    Parameters
    ----------
    clock
        The clock; it moves on when an engine waits.
    outcome
        What becomes of an attempt (job, attempt).
    taking
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
        outcome: Callable[[int, int], Outcome] = _succeeds,
        *,
        taking: Callable[[Batch], Taking] = _accepts,
        capacity: Mapping[str, int] | None = None,
        identities: Mapping[str, tuple[str, ...]] | None = None,
        retry_after_s: float = 5.0,
        order: Random | None = None,
    ) -> None:
        self.clock = clock
        self.capacity = capacity
        self.identities = identities or {}
        self.given: dict[AttemptId, set[tuple[str, str]]] = {}
        """Resource and member of all that an attempt was given."""
        self.asked: list[Asked] = []
        """All that engines asked, in order."""
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
        self._taking = taking
        self._retry_after_s = retry_after_s
        self._order = order
        self._members: dict[AttemptId, Batch] = {}
        self._asked_to_end: set[AttemptId] = set()
        self._free = dict(capacity or {})
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._told: list[MemberEvent] = []
        self._never: list[AttemptId] = []
        self._silent_until = 0.0

    @property
    def running(self) -> set[AttemptId]:
        """The attempts that run right now."""
        return self.started.keys() - self.ended.keys()

    def at(self, seconds: float, happen: Callable[[], object]) -> None:
        """Let something happen after some time, whatever it is."""
        heappush(self._due, (self.clock.elapsed() + seconds, next(self._numbers), happen))

    def be_silent(self, seconds: float) -> None:
        """Answer no question for some time; jobs go on."""
        self._silent_until = self.clock.elapsed() + seconds

    def catch_up(self) -> None:
        """Let everything happen that is due by now."""
        while self._due and self._due[0][0] <= self.clock.elapsed():
            heappop(self._due)[2]()

    def wait(self, timeout_s: float) -> None:
        """Move the clock to the next thing to happen, or by `timeout_s`."""
        due = self._due[0][0] - self.clock.elapsed() if self._due else timeout_s
        self.clock.advance(max(0.0, min(timeout_s, due)))
        self.catch_up()

    def submit(self, batch: Batch, life: int) -> SubmitResult:
        """Take a batch, or not."""
        if life < self.newest_life:
            raise BrokenPromiseError(f"life {life} hands over '{batch.tag}', and life {self.newest_life} has begun")
        taking = self._taking(batch)
        if taking in {Taking.ACCEPTED, Taking.UNSURE_TAKEN}:
            self._take(batch)
        if taking is Taking.DROPPED:
            self._never += [(member.job, member.attempt) for member in batch.members]
        match taking:
            case Taking.ACCEPTED | Taking.DROPPED:
                return Accepted(batch.tag)
            case Taking.REFUSED:
                return Rejected("the manager refuses")
            case Taking.THROTTLED:
                return Throttled("the manager is busy", self._retry_after_s)
            case _:
                return Unsure("the manager's answer was lost")

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Say which batches were taken."""
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
        """Tell what was not told before that mark."""
        self.catch_up()
        if self._is_silent():
            return Unreachable(why="the manager is silent")
        events = self._told[int(since or 0) :]
        if self._order:
            self._order.shuffle(events)
        never, self._never = self._never, []
        return PollResult(events=events, mark=str(len(self._told)), never_started=never)

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> int:
        """Ask attempts to end; return how many were there."""
        there = [
            attempt
            for attempt in sorted(attempts)
            if attempt in self._members and attempt not in self.ended and attempt not in self._asked_to_end
        ]
        for attempt in there:
            self._asked_to_end.add(attempt)
            dies_s = self._outcome(*attempt).dies_s if attempt in self.started else 0.0
            number = _TERM if dies_s <= grace_s else _KILL
            self.at(min(dies_s, grace_s), partial(self._end, attempt, None, number))
        return len(there)

    def _is_silent(self) -> bool:
        return self.clock.elapsed() < self._silent_until

    def _take(self, batch: Batch) -> None:
        self.batches[batch.tag] = batch
        for member in batch.members:
            attempt = (member.job, member.attempt)
            if attempt in self._members:
                raise BrokenPromiseError(f"attempt {attempt[1]} of job {attempt[0]} is handed over a second time")
            self._members[attempt] = batch
            self._reserve(batch, member)
            self.at(self._outcome(*attempt).queue_s, partial(self._start, attempt))

    def _reserve(self, batch: Batch, member: BatchMember) -> None:
        for name, amount in self._amounts(batch):
            self._free[name] -= amount
            if self._free[name] < 0:
                raise BrokenPromiseError(f"'{member.name}' is handed over, and there is too little of '{name}'")
        own = self.given[member.job, member.attempt] = _members_of(member, self.identities)
        for attempt, theirs in self.given.items():
            if attempt not in self.ended and attempt != (member.job, member.attempt) and own & theirs:
                raise BrokenPromiseError(f"'{member.name}' is given {own & theirs}, and attempt {attempt} has that")

    def _amounts(self, batch: Batch) -> list[tuple[str, int]]:
        there = self.capacity or {}
        return [(name, min(asked, there[name])) for name, asked in batch.request.amounts().items() if name in there]

    def _start(self, attempt: AttemptId) -> None:
        if attempt in self.ended:
            return
        outcome = self._outcome(*attempt)
        self.started[attempt] = self.clock.elapsed()
        self.most_running = max(self.most_running, len(self.running))
        self._tell(Started(j=attempt[0], a=attempt[1], host=HOST, at=self.clock.now()), outcome.start_told_s, outcome)
        code = outcome.exit if outcome.signal is None else None
        self.at(outcome.run_s, partial(self._end, attempt, code, outcome.signal))

    def _end(self, attempt: AttemptId, code: int | None, signal: int | None) -> None:
        if attempt in self.ended:
            return
        for name, amount in self._amounts(self._members[attempt]):
            self._free[name] += amount
        outcome = self._outcome(*attempt)
        event = self._end_event(attempt, code, signal, lost=outcome.lost)
        if isinstance(event, Ended) and outcome.cause and attempt not in self._asked_to_end:
            event = msgspec.structs.replace(event, cause=outcome.cause, rss_b=outcome.rss_b)
        self.ended[attempt] = event
        if isinstance(event, Ended) and event.cause is None:
            self.successes[attempt[0]] += 1
        self._tell(event, outcome.end_told_s, outcome)

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

    def _tell(self, event: MemberEvent, delay_s: float, outcome: Outcome) -> None:
        for _ in range(outcome.told):
            if delay_s:
                self.at(delay_s, partial(self._told.append, event))
            else:
                self._told.append(event)


def _members_of(member: BatchMember, identities: Mapping[str, tuple[str, ...]]) -> set[tuple[str, str]]:
    """Resource and member of all that an attempt finds in its environment."""
    words = {name: member.environment.get(f"LONGSHORE_JOB_RESOURCE_{name.upper()}_IDS", "") for name in identities}
    return {(name, each) for name, text in words.items() for each in text.split(",") if each}


class FakeExecutor(Executor, ResourceProbe, NewsWait, ProcessCleanup):
    """The way of one engine to a `FakeManager`; every engine gets its own.

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
        """Begin a life; older ones may not hand anything over from here on."""
        self._life = life
        self._manager.newest_life = max(life, self._manager.newest_life)
        self._note("open")

    def submit(self, batch: Batch) -> SubmitResult:
        """Hand a batch over."""
        self._note("submit", batch)
        return self._manager.submit(batch, self._life)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Look batches up."""
        tags = tuple(tags)
        self._note("find", tags)
        return self._manager.find(tags)

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return what is new."""
        self._note("poll", since)
        return self._manager.poll(since)

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """Ask attempts to end."""
        attempts = frozenset(attempts)
        self._note("cancel", attempts)
        return CancelOutcome(ended=self._manager.cancel(attempts, grace_s=grace_s))

    def end_leftovers(self) -> CancelOutcome:
        """Note that it was asked."""
        self._note("end_leftovers")
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
        self._note("wait", timeout_s)
        self._manager.wait(timeout_s)

    def close(self) -> None:
        """Note that it was asked."""
        self._note("close")

    def _note(self, what: str, given: Any = None) -> None:
        self._manager.asked.append(Asked(what, self._life, given))


def write_run(
    root: Path,
    parents: Mapping[str, Sequence[str]],
    *,
    final: str | None = None,
    profiles: Mapping[str, Mapping[str, Any]] | None = None,
    engine: Mapping[str, Any] | None = None,
) -> RunPaths:
    """Write a run directory, as preparing a run does.

    Parameters
    ----------
    root
        Path of the directory to make.
    parents
        Names of the parents per job. A job's label is its name up to the first ``_``.
    final
        Name of the final job, if there is to be one.
    profiles
        Fields of `JobSettings` per label.
    engine
        Fields of `EngineSettings`.
    """
    shared: dict[str, JobSettings] = {}

    def job(name: str) -> Job:
        label = name.partition("_")[0]
        if label not in shared:
            shared[label] = JobSettings(label=label, **(profiles or {}).get(label, {}))
        return Job(name=name, label=label, command=("true",), settings=shared[label])

    workflow = Workflow(
        root.name,
        Dag.by_name(map(job, parents), [(parent, child) for child, these in parents.items() for parent in these]),
        final=job(final) if final else None,
    )
    ctx = Context(settings=engine or {}, site=Site(name="fake"), paths=RunPaths(root), templates={})
    card = RunIdentity(
        format=RUN_FORMAT,
        id="fake1",
        name=root.name,
        service="fake",
        longshore=__version__,
        created_at=0.0,
        expected=len(workflow),
        labels=workflow.counts(),
    )
    with create_run_directory(root) as draft:
        create_file(draft.workflow, workflow_lines(workflow), durable=True)
        draft.journal.mkdir()
        write_rendered(draft, [engine_settings.render_settings(ctx)])
        write_card(draft, card)
    return RunPaths(root)
