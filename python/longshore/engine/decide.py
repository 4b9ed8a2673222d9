"""What the engine does next, given where the run stands: pure, so that a million jobs run under a simulated clock."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heappop, heappush

from longshore.contract.executor import Limits
from longshore.engine.fold import Code, RunState
from longshore.engine.policy import RetryRules, judge
from longshore.engine.pool import Pool
from longshore.engine.queue import ReadyQueue, pressures
from longshore.model.event import Failed, Finished, Retry, Submitting
from longshore.model.request import Request
from longshore.model.state import run_state

_ONE_AT_A_TIME = 64
"""Starts decided in one round, so that ends are not kept waiting behind a long row of starts."""


class Scheduler:
    """Chooses what starts, within a pool and limits.

    Parameters
    ----------
    state
        The state of the run; changed by nobody but its owner, who applies what is decided here as events.
    requests
        Request per profile.
    rules
        Retry rules per profile.
    profile_of
        Index of the profile per job.
    pool
        What may be taken at once; ``None`` where the workload manager keeps count.
    limits
        How many may be handed over.
    tag
        Unique beginning of the tags of this life's batches.
    """

    def __init__(
        self,
        state: RunState,
        *,
        requests: Sequence[Request],
        rules: Sequence[RetryRules],
        profile_of: Sequence[int],
        pool: Pool | None,
        limits: Limits,
        tag: str,
    ) -> None:
        self.state = state
        self.pool = pool
        self._requests = requests
        self._rules = rules
        self._profile_of = profile_of
        self._limits = limits
        self._tag = tag
        self._batches = 0
        self._waiting = 0
        """Jobs handed over and not yet running, those of this round included."""
        self.more = False
        """Whether the newest round ended before all that fits was started."""
        self._queue = ReadyQueue(pressures(state.children, lambda _: 1.0))
        self._later: list[tuple[float, int]] = []
        self._held: dict[int, dict[str, int]] = {}
        """Amounts taken from the pool per active job."""
        self._amounts: dict[Hashable, dict[str, int]] = {}
        """What a request takes from the pool, per request key."""
        self._by_key: dict[Hashable, Request] = {}
        self._profile_key = [self._learn(request) for request in requests]
        for job in state.active:
            self._take(job)

    def request_of(self, job: int) -> Request:
        """The request of a job's next attempt."""
        return self.state.requests.get(job) or self._requests[self._profile_of[job]]

    def judgements(self) -> list[Retry | Failed]:
        """What becomes of the jobs that ended badly."""
        state = self.state
        return [
            judge(end, tries=state.tries[job], lost=state.lost[job], rules=self._rules[self._profile_of[job]])
            for job, end in state.undecided.items()
        ]

    def starts(self, now: float) -> list[Submitting]:
        """The batches to hand over now, best first; the caller makes them durable, applies them and hands them over."""
        self._settle()
        self._take_in(now)
        self._waiting = sum(row[Code.PENDING] for row in self.state.counts)
        batches: list[Submitting] = []
        started = 0
        while started < _ONE_AT_A_TIME and (batch := self._next_batch()):
            batches.append(batch)
            started += len(batch.jobs)
        self.more = started >= _ONE_AT_A_TIME
        return batches

    def finish(self) -> Finished | None:
        """The last event of the run, once nothing can move any more."""
        state = self.state
        if not state.over or state.finished:
            return None
        return Finished(state=run_state(state.totals(), expected=state.size, cancelled=state.cancelled))

    def next_wake(self) -> float | None:
        """When a retry that waits comes due, on the clock of `starts`."""
        return self._later[0][0] if self._later else None

    def _next_batch(self) -> Submitting | None:
        first = self._pop(None)
        if first is None:
            return None
        job, key = first
        members = [(job, self.state.attempts[job] + 1)]
        while len(members) < self._limits.max_batch and (more := self._pop(key)):
            members.append((more[0], self.state.attempts[more[0]] + 1))
        self._batches += 1
        batch = f"{self._tag}-{self._batches}"
        return Submitting(b=batch, tag=batch, jobs=tuple(members), request=self._by_key[key])

    def _pop(self, only: Hashable | None) -> tuple[int, Hashable] | None:
        while (found := self._queue.pop(self._fits, only=only)) is not None:
            job, key = found
            # It may have been cancelled since it was queued.
            if self.state.code[job] == Code.READY:
                self._take(job, key)
                self._waiting += 1
                return job, key
        return None

    def _fits(self, key: Hashable) -> bool:
        if self._limits.max_waiting is not None and self._waiting >= self._limits.max_waiting:
            return False
        if self._limits.max_active is not None and len(self._held) >= self._limits.max_active:
            return False
        return self.pool is None or self.pool.fits(self._amounts[key])

    def _take(self, job: int, key: Hashable | None = None) -> None:
        amounts = self._amounts[self._learn(self.request_of(job)) if key is None else key]
        self._held[job] = amounts
        if self.pool:
            self.pool.take(amounts)

    def _settle(self) -> None:
        """Return what jobs hold that are not active any more."""
        active = self.state.active
        for job in [job for job in self._held if job not in active]:
            amounts = self._held.pop(job)
            if self.pool:
                self.pool.give(amounts)

    def _take_in(self, now: float) -> None:
        state = self.state
        freed, state.freed = state.freed, []
        # A history read back names a job once for every time it became ready.
        for job in dict.fromkeys(freed):
            due = state.not_before.get(job)
            if due is not None and due > now:
                heappush(self._later, (due, job))
            elif state.code[job] == Code.READY:
                self._enqueue(job)
        while self._later and self._later[0][0] <= now:
            _, job = heappop(self._later)
            if state.code[job] == Code.READY:
                self._enqueue(job)

    def _enqueue(self, job: int) -> None:
        changed = self.state.requests.get(job)
        self._queue.push(job, self._learn(changed) if changed else self._profile_key[self._profile_of[job]])

    def _learn(self, request: Request) -> Hashable:
        key = request.key()
        if key not in self._by_key:
            self._by_key[key] = request
            amounts = request.amounts()
            self._amounts[key] = self.pool.clamp(amounts) if self.pool else amounts
        return key
