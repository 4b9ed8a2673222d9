"""Scheduler: decides which jobs the engine starts, retries or fails next; pure, so that tests simulate the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from heapq import heappop, heappush

import msgspec

from longshore.contract.batch import Limits
from longshore.engine.policy.retry import BadEnds, RetryRules, decide_retry
from longshore.engine.schedule.lanes import NO_AMOUNTS, Lane, Lanes
from longshore.engine.schedule.ready_queue import ReadyQueue, compute_pressures
from longshore.engine.schedule.runtime_estimates import RuntimeEstimates
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.resource_pool import NO_IDENTITIES, Pool
from longshore.engine.state.run_state import RunState
from longshore.engine.state.steering import Throttle
from longshore.model.run.event import Failed, Finished, Retry, Submitting
from longshore.model.run.state import Cause
from longshore.model.workflow.request import Request, round_up

_READY = int(JobCode.READY)
_ONE_AT_A_TIME = 64
"""Starts decided in one round, so that ends do not wait behind many starts."""

_LOOK_PAST = 64
"""Jobs with other requests in the same bucket that filling an array skips at most."""


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """A request with its bucket and lane."""

    request: Request
    bucket: Hashable
    """Key that similar requests share."""
    lane: Lane
    """Lane of exactly this request."""


class SchedulerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduling settings of the jobs of one profile."""

    request: Request = Request()
    rules: RetryRules = RetryRules()
    priority: float = 0.0
    """Priority, which goes before pressure."""
    kind: Hashable = None
    """Key that all jobs of a batch share, beside the request."""
    takes: Mapping[str, int] = NO_AMOUNTS
    """Amounts that a job takes of limits and categories."""
    max_batch: Callable[[], int] | None = None
    """Most members of one batch; ``None`` means the executor's limit."""


class Scheduler:
    """Chooses the jobs to start, within pools and limits.

    Parameters
    ----------
    state
        The state of the run; changed only by its owner, who applies the decisions as events.
    profiles
        The profiles of the jobs.
    profile_of
        Index of the profile per job.
    lanes
        The pools, and the jobs that take from them.
    limits
        Limits of the workload manager on submitted jobs.
    tag
        Unique prefix of the tags of this life's batches.
    estimates
        Expected run times of jobs; without it, all are equal.
    """

    def __init__(
        self,
        state: RunState,
        profiles: Sequence[SchedulerProfile],
        profile_of: Sequence[int],
        *,
        lanes: Lanes,
        limits: Limits,
        tag: str,
        estimates: RuntimeEstimates | None = None,
    ) -> None:
        self.state = state
        self.pool = lanes.pool
        self._profiles = profiles
        self._profile_of = profile_of
        self.limits = limits
        """Limits that the workload manager sets; the owner replaces them when they change."""
        self._tag = tag
        self._batches = 0
        self._waiting = 0
        """Jobs submitted and not yet running, including those of this round."""
        self.more = False
        """Whether the newest round ended before all jobs that fit were started."""
        self.estimates = estimates or RuntimeEstimates(state.labels)
        self._queue = ReadyQueue(
            compute_pressures(state.children, self.estimates.expected_s, state.barriers),
            (lambda job: self._profile(job).priority) if any(each.priority for each in profiles) else None,
        )
        self._later: list[tuple[float, int]] = []
        self._reads_history = True
        """Whether the newly ready jobs come from the replay of an earlier life."""
        self._valve = Throttle(state, state.labels)
        self._lanes = lanes
        self._asked: dict[Hashable, _Asked] = {}
        self._by_profile = [self._learn(profile.request, profile) for profile in profiles]
        self._waiting_alike: Counter[Hashable] = Counter()
        """As `_waiting`, per bucket; counted only where it is limited."""
        state.newly_inactive = []
        for job in state.active:
            self._lanes.inherit(job, self._asked_of(job).lane, state.identities.get(job, NO_IDENTITIES))

    def _profile(self, job: int) -> SchedulerProfile:
        return self._profiles[self._profile_of[job]]

    def request_of(self, job: int) -> Request:
        """Return the request of a job's next attempt."""
        return self.state.requests.get(job) or self.first_request_of(job)

    def first_request_of(self, job: int) -> Request:
        """Return the request of a job's first attempt: the one that was set, else that of its profile."""
        return self.state.set_requests.get(job) or self._profile(job).request

    def coming_request_of(self, job: int) -> Request:
        """Return the request that a new intervention changes: it includes earlier ones that take effect later."""
        later = self.state.later_sets.get(job)
        return (later[-1].request if later else None) or self.first_request_of(job)

    def judgements(self) -> list[Retry | Failed]:
        """Decide about the jobs that ended badly."""
        state = self.state
        return [
            decide_retry(
                end,
                past=self._past(job),
                rules=self._rules_of(job),
                asked=self.request_of(job),
                first=self.first_request_of(job),
            )
            for job, end in state.undecided.items()
        ]

    def _rules_of(self, job: int) -> RetryRules:
        rules = self._profile(job).rules
        retries = self.state.set_retries.get(job)
        return rules if retries is None else msgspec.structs.replace(rules, retries=retries)

    def _past(self, job: int) -> BadEnds:
        state = self.state
        return BadEnds(
            tries=state.tries[job],
            lost=state.lost[job],
            preempted=state.cause_counts.get((job, Cause.PREEMPTED), 0),
            ooms=state.cause_counts.get((job, Cause.OOM), 0),
            overtimes=state.cause_counts.get((job, Cause.WALLTIME), 0),
        )

    def starts(self, now: float, *, at_most: int | None = None) -> list[Submitting]:
        """Return the batches to submit now, best first; the caller makes them durable, applies them and submits them.

        Parameters
        ----------
        now
            This moment, in seconds since the epoch.
        at_most
            Most batches to return; ``None`` for any number.
        """
        self._settle()
        self._take_in(now)
        for job in self._valve.turn():
            if self.state.code[job] == _READY:
                self._enqueue(job)
        self._follow_estimates()
        if not self._queue:
            # Ten thousand may wait at the manager, and are not counted four times a second in vain.
            self.more = False
            return []
        self._count_waiting()
        batches: list[Submitting] = []
        started = 0
        while started < _ONE_AT_A_TIME and len(batches) != at_most and (batch := self._next_batch()):
            batches.append(batch)
            started += len(batch.jobs)
        self.more = started >= _ONE_AT_A_TIME
        if self.limits.look_ahead_s and not self.more and not self.state.throttles:
            batches += self._starts_ahead()
        return batches

    def lane(self, request: Request, job: int) -> tuple[str | None, int]:
        """Return the name and the slots of the lane of a job's request; no name where nothing is submitted ahead."""
        lane = self._learn(request, self._profile(job)).lane
        return (lane.name, lane.slots) if self.limits.look_ahead_s and lane.ahead else (None, 0)

    def pressure_of(self, job: int) -> float:
        """Return the expected seconds of the longest chain of jobs that begins with this one."""
        return self._queue.pressure_of(job)

    def finish(self) -> Finished | None:
        """Return the last event of the run, once nothing can move any more."""
        state = self.state
        if not state.over or state.finished:
            return None
        return Finished(state=state.overall())

    def next_wake(self) -> float | None:
        """Return when the next waiting retry comes due, on the clock of `starts`; ``None`` without any."""
        return self._later[0][0] if self._later else None

    def wanted(self, now: float) -> dict[str, int]:
        """Return the amounts that all running and ready jobs would take of the pool at once."""
        if self.pool is None:
            return {}
        self._settle()
        self._take_in(now)
        wanted = self.pool.taken
        for job, number in self._queue.buckets():
            for name, amount in self._asked_of(job).lane.amounts.items():
                wanted[name] += amount * number
        return {name: min(amount, self.pool.capacity[name]) for name, amount in wanted.items()}

    def next_wanted(self, now: float) -> dict[str, int]:
        """Return the amounts that the first ready job takes of the pool; empty when none is ready."""
        self._take_in(now)
        job = self._queue.best()
        return {} if job is None else dict(self._asked_of(job).lane.amounts)

    def wanted_of(self, pool: Pool, now: float) -> tuple[dict[str, int], dict[str, int]]:
        """Return the demand on another pool: of all running and ready jobs, and the most of one ready job."""
        self._settle()
        self._take_in(now)
        wanted, one = pool.taken, dict[str, int]()
        for job, number in self._queue.buckets():
            for each, amounts in self._asked_of(job).lane.bounds:
                for name, amount in amounts.items() if each is pool else ():
                    wanted[name] += amount * number
                    one[name] = max(amount, one.get(name, 0))
        return {name: min(amount, pool.capacity[name]) for name, amount in wanted.items()}, one

    def kept_back(self) -> list[Mapping[str, int]]:
        """Return the amounts of limits and categories that the first jobs of buckets wait for."""
        lanes = [self._asked_of(job).lane for job, _ in self._queue.buckets()]
        return [takes for lane in lanes if not self._lanes.within_bounds(lane) for _, takes in lane.bounds]

    def _follow_estimates(self) -> None:
        if self.estimates.moved():
            self.estimates.settle()
            self._queue.reorder(compute_pressures(self.state.children, self.estimates.expected_s, self.state.barriers))

    def _count_waiting(self) -> None:
        self._waiting = sum(row[JobCode.PENDING] for row in self.state.counts)
        if self.limits.max_waiting_alike is not None:
            code = self.state.code
            self._waiting_alike = Counter(
                self._asked_of(job).bucket for job in self.state.active if code[job] == JobCode.PENDING
            )

    def _next_batch(self) -> Submitting | None:
        job = self._pop()
        if job is None:
            return None
        asked = self._asked_of(job)
        max_batch = self._profile(job).max_batch
        most = (max_batch() if max_batch else self.limits.max_batch) - 1
        jobs = [job, *self._pop_alike(asked, most)] if most else [job]
        return self._batch_of(jobs, asked)

    def _starts_ahead(self) -> list[Submitting]:
        """Return batches to submit ahead, in lanes with short members: they start as those before them end."""
        batches: list[Submitting] = []
        while (first := self._queue.best()) is not None:
            asked = self._asked_of(first)
            room = self._lanes.room_ahead(asked.lane, self.limits.look_ahead_s)
            jobs: list[int] = []
            while len(jobs) < room and self._allowed(asked.bucket) and self._is_next(asked):
                job = self._queue.pop_head(asked.bucket)
                if not self._is_stale(job, asked.bucket):
                    self._lanes.start_ahead(job, asked.lane)
                    self._count(asked)
                    jobs.append(job)
            if not jobs:
                break
            batches.append(self._batch_of(jobs, asked))
        return batches

    def _is_next(self, asked: _Asked) -> bool:
        """Return whether the first job of all has exactly this request."""
        job = self._queue.best()
        return job is not None and self._asked_of(job) is asked

    def _batch_of(self, jobs: list[int], asked: _Asked) -> Submitting:
        self._batches += 1
        batch = f"{self._tag}-{self._batches}"
        identities = self._lanes.identities
        return Submitting(
            b=batch,
            tag=batch,
            jobs=tuple([(job, self.state.attempts[job] + 1) for job in jobs]),
            request=asked.request,
            ids={job: identities[job] for job in jobs if job in identities} if identities else {},
        )

    def _pop(self) -> int | None:
        while not self._lanes.full() and (found := self._queue.pop(self._fits)) is not None:
            job, bucket = found
            if not self._is_stale(job, bucket) and self._valve.lets(job):
                return self._take(job)
        return None

    def _is_stale(self, job: int, bucket: Hashable) -> bool:
        """Return whether a job was cancelled, held, or queued again with another request since it was queued."""
        return self.state.code[job] != _READY or job in self._lanes or self._asked_of(job).bucket != bucket

    def _pop_alike(self, asked: _Asked, most: int) -> list[int]:
        """Remove and return jobs with exactly the same request, best first, skipping some with similar ones."""
        jobs: list[int] = []
        passed: list[int] = []
        while len(jobs) < most and len(passed) < _LOOK_PAST and (job := self._queue.head(asked.bucket)) is not None:
            stale = self._is_stale(job, asked.bucket)
            alike = self._asked_of(job) is asked
            if not stale and alike and not self._fits(job, asked.bucket):
                break
            self._queue.pop_head(asked.bucket)
            if stale:
                continue
            if not alike:
                passed.append(job)
            elif self._valve.lets(job):
                jobs.append(self._take(job))
        for job in passed:
            self._queue.push(job, asked.bucket)
        return jobs

    def _fits(self, job: int, bucket: Hashable) -> bool:
        if not self._allowed(bucket):
            return False
        # A cancelled job must not hide those behind it, however large it is.
        return self._lanes.fits(self._asked_of(job).lane) or self._is_stale(job, bucket)

    def _allowed(self, bucket: Hashable) -> bool:
        """Return whether the manager's limits allow one more job of a bucket, wherever it fits."""
        if self._valve.closed:
            return False
        limits = self.limits
        if limits.max_waiting is not None and self._waiting >= limits.max_waiting:
            return False
        if limits.max_waiting_alike is not None and self._waiting_alike[bucket] >= limits.max_waiting_alike:
            return False
        return limits.max_active is None or len(self._lanes) < limits.max_active

    def _take(self, job: int) -> int:
        asked = self._asked_of(job)
        self._lanes.start(job, asked.lane)
        self._count(asked)
        return job

    def _count(self, asked: _Asked) -> None:
        self._waiting += 1
        if self.limits.max_waiting_alike is not None:
            self._waiting_alike[asked.bucket] += 1

    def _settle(self) -> None:
        """Return the resources of jobs that are no longer active."""
        left, self.state.newly_inactive = self.state.newly_inactive, []
        for job, run_s in left or ():
            self._lanes.end(job, run_s)

    def _take_in(self, now: float) -> None:
        state = self.state
        freed, state.newly_ready = state.newly_ready, []
        # A replayed history names a job once for every time it became ready.
        for job in dict.fromkeys(freed):
            due = state.not_before.get(job) if state.not_before else None
            if due is not None:
                # No retry waits longer than intended, even if the time of day has jumped since.
                delay = state.delays.get(job, due - now)
                due = min(due, now + delay) if self._reads_history else now + delay
            if due is not None and due > now:
                heappush(self._later, (due, job))
            elif state.code[job] == _READY:
                self._enqueue(job)
        self._reads_history = False
        while self._later and self._later[0][0] <= now:
            _, job = heappop(self._later)
            if state.code[job] == JobCode.READY:
                self._enqueue(job)

    def _enqueue(self, job: int) -> None:
        self._queue.push(job, self._asked_of(job).bucket)

    def _asked_of(self, job: int) -> _Asked:
        state = self.state
        changed = state.requests.get(job) or state.set_requests.get(job)
        return self._learn(changed, self._profile(job)) if changed else self._by_profile[self._profile_of[job]]

    def _learn(self, request: Request, profile: SchedulerProfile) -> _Asked:
        lane = self._lanes.learn(request, profile.takes)
        key = (request.key(), profile.kind, lane.name)
        if (known := self._asked.get(key)) is not None:
            return known
        # Jobs that wait for a limit must not hide others behind them.
        bounds = tuple(name for _, amounts in lane.bounds for name in amounts)
        if self.pool:
            most = self.pool.capacity
            amounts = ((name, min(round_up(amount), most[name])) for name, amount in lane.amounts.items())
            bucket: Hashable = (*amounts, *bounds)
        else:
            # A manager that counts resources takes arrays of jobs, which share one run time as well.
            rough = ((name, round_up(amount)) for name, amount in lane.amounts.items())
            bucket = (profile.kind, *rough, request.walltime_s, *bounds)
        self._asked[key] = asked = _Asked(request, bucket, lane)
        return asked
