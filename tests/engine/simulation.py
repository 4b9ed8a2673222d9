"""Whole runs against a manager in memory, and what disturbs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longshore.contract.executor import Batch, FindResult, Limits, PollResult, SubmitResult
from longshore.contract.service import CancelOutcome, Mark, Unreachable
from longshore.engine.run.loop import Engine
from longshore.engine.run_settings import read_settings
from longshore.model.event import Ended, Event
from longshore.model.report import Snapshot
from longshore.rundir.interventions import InterventionRecord, write_intervention
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import read_events
from longshore.rundir.run_directory import read_snapshot
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode, RunState
from longshore.system.host import Clock
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager, SubmitReply
from longshore.testing.runs import write_run

CHAIN: Mapping[str, Sequence[str]] = {"a_0": (), "a_1": ("a_0",), "a_2": ("a_1",)}


class Simulation:
    """A run, its manager, and what the engines of the run said.

    Parameters
    ----------
    root
        Where the run directory is made.
    parents, written
        As for `write_run`.
    outcome, asked
        As for `FakeManager`.
    """

    def __init__(
        self,
        root: Path,
        parents: Mapping[str, Sequence[str]] = CHAIN,
        outcome: Callable[[int, int], AttemptOutcome] = lambda _job, _attempt: AttemptOutcome(),
        *,
        written: Mapping[str, Any] | None = None,
        **asked: Any,
    ) -> None:
        self.clock = FakeClock()
        self.manager = FakeManager(self.clock, outcome, **asked)
        self.run = write_run(root / "run", parents, **(written or {}))
        self.said: list[str] = []

    def engine(
        self,
        by: str = "submit",
        *,
        executor: FakeExecutor | None = None,
        clock: Clock | None = None,
        limits: Limits | None = None,
    ) -> Engine:
        return Engine(
            self.run,
            executor or FakeExecutor(self.manager, limits=limits),
            read_settings(self.run),
            clock=clock or self.clock,
            by=by,
            log_line=self.said.append,
        )

    def events(self) -> list[Event]:
        return list(read_events(self.run.journal))

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [event for event in self.events() if isinstance(event, kinds)]

    def asked(self, what: str) -> list[Any]:
        return [call.argument for call in self.manager.calls if call.method == what]

    def snapshot(self) -> Snapshot:
        snapshot = read_snapshot(self.run)
        assert snapshot
        return snapshot

    def state(self) -> RunState:
        """The state as anybody would fold it from the journal."""
        return replay(JobTable(self.run), self.events())

    def codes(self) -> list[str]:
        return [JobCode(code).name for code in self.state().code]

    def check(self) -> RunState:
        """Hold a run that is over to the promise, and return its state."""
        state = self.state()
        assert state.is_over
        assert state.finish_event
        totals = state.count_states()
        assert sum(totals.values()) == state.size
        succeeded = {job for job in range(state.size) if state.code[job] == JobCode.SUCCEEDED}
        assert self.manager.successes == Counter(dict.fromkeys(succeeded, 1)), "each success exactly once"
        assert not self.manager.running
        told = {(end.j, end.a) for end in self.of(Ended)} | self.lost()
        assert told == set(self.manager.ended), "no attempt is unaccounted"
        snapshot = self.snapshot()
        assert snapshot.finished
        assert (snapshot.state, snapshot.counts) == (state.finish_event.state, totals)
        return state

    def lost(self) -> set[tuple[int, int]]:
        return {attempt for attempt, end in self.manager.ended.items() if not isinstance(end, Ended)}


def fails(*jobs: int, until: int = 99) -> Callable[[int, int], AttemptOutcome]:
    return lambda job, attempt: AttemptOutcome(exit=1 if job in jobs and attempt < until else 0)


def answers(*takings: SubmitReply) -> Callable[[Batch], SubmitReply]:
    """These answers, then only good ones."""
    left = iter(takings)
    return lambda _batch: next(left, SubmitReply.ACCEPTED)


class Hooked(FakeExecutor):
    """Calls something after every call of one kind.

    Parameters
    ----------
    sim
        Whose manager it speaks to.
    hook
        Called with the number of the call, from 1.
    what
        The method.
    """

    def __init__(self, sim: Simulation, hook: Callable[[int], None], *, what: str = "wait") -> None:
        super().__init__(sim.manager)
        self._hook = hook
        self._what = what
        self._calls = 0

    def wait(self, timeout_s: float) -> None:
        super().wait(timeout_s)
        self._after("wait")

    def submit(self, batch: Batch) -> SubmitResult:
        answer = super().submit(batch)
        self._after("submit")
        return answer

    def poll(self, since: Mark) -> PollResult | Unreachable:
        answer = super().poll(since)
        self._after("poll")
        return answer

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        answer = super().find(tags)
        self._after("find")
        return answer

    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        answer = super().cancel(attempts, grace_s=grace_s)
        self._after("cancel")
        return answer

    def _after(self, what: str) -> None:
        if self._what in {what, "anything"}:
            self._calls += 1
            self._hook(self._calls)


def diamonds() -> dict[str, Sequence[str]]:
    return {"a_0": (), "b_0": (), "a_1": ("a_0",), "b_1": ("a_0", "b_0"), "c": ("a_1", "b_1")}


class Crash(Exception):  # noqa: N818 - no error, a death
    """The engine dies here."""


def leave_at(
    sim: Simulation, wait: int, *, jobs: tuple[str, ...] = (), labels: tuple[str, ...] = ()
) -> Callable[[int], None]:
    def hook(number: int) -> None:
        if number == wait:
            write_intervention(sim.run, InterventionRecord(who="me", act="cancel", jobs=jobs, labels=labels))

    return hook
