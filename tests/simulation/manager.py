"""Simulated workload manager with a queue of its own, and the executor by which an engine drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import msgspec
from tests.simulation.plan import AttemptPlan, Plan
from tests.simulation.universe import Universe

from longshore.contract.executor import AttemptId, Batch, FindResult, Limits, PollResult, SubmitResult
from longshore.contract.service import CancelOutcome, Mark, RunPaths, Unreachable
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.rundir.journal import life_path
from longshore.testing.fakes import (
    AttemptOutcome,
    ContractViolationError,
    FakeClock,
    FakeExecutor,
    FakeManager,
    SubmitReply,
)

if TYPE_CHECKING:
    from tests.simulation.truth import Truth

_HANG_S = 1e6
_CALLS_PER_CHECK = 15
"""Most calls of an engine between its look for a newer life and its act."""


def attempt_plan(plan: Plan, job: int, attempt: int) -> AttemptPlan:
    """Return the course of an attempt."""
    if job >= len(plan.jobs):
        return AttemptPlan()
    attempts = plan.jobs[job].attempts
    return attempts[min(attempt, len(attempts)) - 1]


def outcome_of(plan: Plan, job: int, attempt: int) -> AttemptOutcome:
    """Return the course of an attempt as the manager takes it."""
    each = attempt_plan(plan, job, attempt)
    return AttemptOutcome(
        queue_s=each.queue_s,
        run_s=each.run_s,
        exit=each.exit,
        signal=each.signal or None,
        cause=Cause.OOM if each.oom else None,
        lost=each.lost,
        term_delay_s=_HANG_S if each.hangs else 0.0,
        start_delay_s=each.start_delay_s,
        end_delay_s=max(each.start_delay_s, each.end_delay_s),
        reports=each.reports,
    )


class UniverseClock(FakeClock):
    """The clock of a universe, for the manager."""

    def __init__(self, universe: Universe) -> None:
        super().__init__()
        self._universe = universe

    def now(self) -> float:
        return self._universe.now()

    def elapsed(self) -> float:
        return self._universe.elapsed()


class SimulatedManager(FakeManager):
    """Manager whose jobs start and end by the clock of the universe."""

    def __init__(self, universe: Universe, truth: Truth) -> None:
        plan = universe.plan
        replies = iter([SubmitReply(each) for each in plan.replies])
        super().__init__(
            UniverseClock(universe),
            partial(outcome_of, plan),
            submit_reply=lambda _batch: next(replies, SubmitReply.ACCEPTED),
            capacity={"cpus": plan.cpus},
            order=Random(f"{plan.seed} order") if plan.shuffles else None,
        )
        self.universe = universe
        self.truth = truth
        self.news = 0
        universe.on_silence = self.stop_answering

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        self.universe.at(seconds, call)

    def run_due_events(self) -> None:
        """Do nothing: the universe runs them."""

    def _start(self, attempt: AttemptId) -> None:
        was_started = attempt in self.started
        super()._start(attempt)
        if attempt in self.started and not was_started:
            self.truth.record_start(attempt)

    def _end(self, attempt: AttemptId, code: int | None, signal: int | None) -> None:
        was_ended = attempt in self.ended
        super()._end(attempt, code, signal)
        if not was_ended:
            event = self.ended[attempt]
            succeeded = isinstance(event, Ended) and event.cause is None
            if attempt in self.started:
                self.truth.record_end(attempt, succeeded=succeeded, is_knowable=not isinstance(event, Lost))


class SimulatedExecutor(FakeExecutor):
    """Executor of one engine; each call is one at which a fault may strike."""

    def __init__(self, manager: SimulatedManager) -> None:
        super().__init__(manager, limits=Limits(max_batch=manager.universe.plan.max_batch))
        self._simulated = manager
        self._universe = manager.universe
        self._run: RunPaths | None = None

    def open(self, run: RunPaths, life: int) -> None:
        self._run = run
        super().open(run, life)

    def submit(self, batch: Batch) -> SubmitResult:
        assert self._run is not None
        fault = self._universe.call("act", f"submit {batch.tag}")
        current = self._universe.current
        if current is not None and life_path(self._run.journal, self._life + 1).exists():
            if current.calls - current.checked_at > _CALLS_PER_CHECK:
                raise ContractViolationError(f"life {self._life} acts without a look at whether a newer one has begun")
            # The engine was stopped between its check and this call, while another began: the one case that no check
            # of its own can see (doc/explanation/engine.md). It is as if it had been killed then.
            self._universe.note("was stopped between check and act")
            self._universe.kill(current)
        answer = super().submit(batch)
        self._universe.finish(fault)
        return answer

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        fault = self._universe.call("act", "find")
        answer = super().find(tags)
        self._universe.finish(fault)
        return answer

    def poll(self, since: Mark) -> PollResult | Unreachable:
        fault = self._universe.call("act", "poll")
        never = list(self._simulated._never_started)
        answer = super().poll(since)
        if self._life < self._simulated.newest_life and isinstance(answer, PollResult):
            # It is told once, and to the engine that submitted the batch.
            self._simulated._never_started = never
            answer = msgspec.structs.replace(answer, never_started=())
        self._universe.finish(fault)
        return answer

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        fault = self._universe.call("act", "cancel")
        answer = super().cancel(attempts, grace_s=grace_s)
        self._universe.finish(fault)
        return answer

    def wait(self, timeout_s: float) -> None:
        fault = self._universe.call("wait")
        self._universe.block(timeout_s)
        self._universe.finish(fault)
