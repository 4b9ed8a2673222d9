"""Scheduler: decides which jobs the engine starts, retries or fails next; pure, so that tests simulate the clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from heapq import heappop, heappush

import msgspec

from longshore.contract.executor import Limits
from longshore.engine.policy.retry import BadEnds, RetryRules, decide_retry
from longshore.engine.schedule.estimates import RuntimeEstimates
from longshore.engine.schedule.lanes import NO_AMOUNTS, Lane, Lanes, SubmitRoom
from longshore.engine.schedule.ready_queue import ReadyQueue, compute_pressures
from longshore.engine.schedule.resource_pool import NO_IDENTITIES, Pool
from longshore.model.event import Deleted, Failed, Finished, Retry, Submitting
from longshore.model.states import Cause
from longshore.model.workflow import Request, round_up
from longshore.runstate.change_request import change_request
from longshore.runstate.run_state import JobCode, RunState
from longshore.runstate.steering import Throttle

_READY = int(JobCode.READY)
_STARTS_PER_ROUND = 64
"""Starts decided in one round, so that ends do not wait behind many starts."""

_TRIAL_S = 1.0
"""Time between two trials with a job of a bucket that was put off, while the first one has no answer."""
_MAX_SKIPPED = 64
"""Jobs with other requests in the same bucket that filling an array skips at most."""


class _RegisteredRequest(msgspec.Struct, frozen=True, gc=False):
    """A request with its bucket and lane."""

    request: Request
    bucket: Hashable
    """Key that similar requests share."""
    lane: Lane
    """Lane of exactly this request."""


class _PutOff:
    """Why jobs of a bucket are not submitted until a moment; then one of them is the trial, whose batch this names."""

    def __init__(self, why: str, until: float) -> None:
        self.why = why
        self.until = until
        self.trial = ""


class SchedulerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """Scheduling settings of the jobs of one profile."""

    request: Request = Request()
    rules: RetryRules = RetryRules()
    priority: float = 0.0
    """Priority, which goes before pressure."""
    kind: Hashable = None
    """Key that all jobs of a batch share, beside the request."""
    limit_amounts: Mapping[str, int] = NO_AMOUNTS
    """Amounts that a job takes of limits and categories."""
    max_batch: Callable[[], int] | None = None
    """Most members of one batch; ``None`` means the executor's limit."""
    is_packed: Callable[[Request], bool] | None = None
    """Whether jobs with a request run in allocations of the executor; ``None`` if none does."""


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
        self._room = SubmitRoom(limits)
        self._tag = tag
        self._batches = 0
        self.has_more = False
        """Whether the newest round ended before all jobs that fit were started."""
        self.may_look_ahead = True
        """Whether jobs may be submitted ahead of their slots: no other run waits for these."""
        self.estimates = estimates or RuntimeEstimates(state.labels)
        self._queue = ReadyQueue(
            compute_pressures(state.children, self.estimates.all_expected_s(), state.barriers),
            (lambda job: self._profile(job).priority) if any(each.priority for each in profiles) else None,
        )
        self.pressure_of = self._queue.pressure_of
        """Expected seconds of the longest chain of jobs that begins with a job."""
        self._delayed: list[tuple[float, int]] = []
        self._is_replayed = True
        """Whether the newly ready jobs come from the replay of an earlier life."""
        self._throttle = Throttle(state, state.labels)
        self._lanes = lanes
        self.amounts_of = lanes.amounts_of
        """What a submitted job takes of each pool."""
        self._requests: dict[Hashable, _RegisteredRequest] = {}
        self._changed_requests: dict[tuple[object, ...], Request] = {}
        """Requests of profiles as users changed them."""
        self._buckets: dict[Hashable, Hashable] = {}
        """Equal buckets as one object: there may be as many requests as jobs, and few buckets."""
        self._put_off: dict[Hashable, _PutOff] = {}
        self._now = 0.0
        self._request_per_profile = [self._register(profile.request, profile) for profile in profiles]
        state.newly_inactive = []
        for job in state.active:
            self._lanes.inherit(job, self._registered_request(job).lane, state.identities.get(job, NO_IDENTITIES))

    @property
    def limits(self) -> Limits:
        """Limits that the workload manager sets; the owner replaces them when they change."""
        return self._room.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._room.limits = limits

    @property
    def packed_limits(self) -> Limits:
        """Limits on the jobs that run in allocations of the executor."""
        return self._room.packed_limits

    @packed_limits.setter
    def packed_limits(self, limits: Limits) -> None:
        self._room.packed_limits = limits

    def _profile(self, job: int) -> SchedulerProfile:
        return self._profiles[self._profile_of[job]]

    def request_of(self, job: int) -> Request:
        """Return the request of a job's next attempt."""
        return self.state.requests.get(job) or self.first_request_of(job)

    def first_request_of(self, job: int) -> Request:
        """Return the request of a job's first attempt: the one that was set, else that of its profile."""
        values = self.state.set_values.get(job)
        if not values:
            return self._profile(job).request
        key = (self._profile_of[job], *values.items())
        if key not in self._changed_requests:
            self._changed_requests[key] = change_request(self._profile(job).request, values)
        return self._changed_requests[key]

    def planned_request_of(self, job: int) -> Request:
        """Return the request that a new intervention changes: it includes earlier ones that take effect later."""
        later = self.state.delayed_sets.get(job)
        return (later[-1].request if later else None) or self.first_request_of(job)

    def decide_retries(self) -> list[Retry | Failed | Deleted]:
        """Decide about the jobs that ended badly."""
        state = self.state
        return [
            decide_retry(
                end,
                bad_ends=self._bad_ends(job),
                rules=self._rules_of(job),
                request=self.request_of(job),
                first_request=self.first_request_of(job),
            )
            for job, end in state.undecided_ends.items()
        ]

    def _rules_of(self, job: int) -> RetryRules:
        rules = self._profile(job).rules
        retries = self.state.set_retries.get(job)
        return rules if retries is None else rules.with_retries(retries)

    def _bad_ends(self, job: int) -> BadEnds:
        state, spent = self.state, self.state.spent_counts
        return BadEnds(
            tries=state.tries[job],
            lost=state.lost[job],
            preempted=spent.get((job, Cause.PREEMPTED), 0),
            transfers=spent.get((job, Cause.TRANSFER), 0) + spent.get((job, Cause.INPUT_MISSING), 0),
            ooms=state.cause_counts.get((job, Cause.OOM), 0),
            overtimes=state.cause_counts.get((job, Cause.WALLTIME), 0),
            spent_ooms=spent.get((job, Cause.OOM), 0),
            spent_overtimes=spent.get((job, Cause.WALLTIME), 0),
        )

    def next_batches(self, now: float, *, at_most: int | None = None) -> list[Submitting]:
        """Return the batches to submit now, best first; the caller makes them durable, applies them and submits them.

        Parameters
        ----------
        now
            This moment, in seconds since the epoch.
        at_most
            Most batches to return, beside those of packed jobs; ``None`` for any number.
        """
        self._now = now
        self._free_resources()
        self._enqueue_ready(now)
        for job in self._throttle.begin_round():
            if self.state.code[job] == _READY:
                self._enqueue(job)
        self._follow_estimates()
        if not self._queue:
            # Ten thousand may wait at the manager, and are not counted four times a second in vain.
            self.has_more = False
            return []
        self._count_jobs(at_most)
        batches: list[Submitting] = []
        starts = 0
        while starts < _STARTS_PER_ROUND and (batch := self._next_batch()):
            batches.append(batch)
            starts += len(batch.jobs)
        self.has_more = starts >= _STARTS_PER_ROUND
        if self.limits.look_ahead_s and self.may_look_ahead and not self.has_more and not self.state.throttles:
            batches += self._next_batches_ahead()
        return batches

    def put_off(self, batch: Submitting, why: str, *, until: float) -> None:
        """Submit no jobs alike until a moment, and then one of them at a time, until `take_up`.

        A workload manager may refuse them for days; a trial with all of them each minute would fill the journal.
        """
        self._put_off[self._bucket_of(batch)] = _PutOff(why, until)

    def take_up(self, batch: Submitting) -> None:
        """Submit jobs like those of a batch as usual."""
        if self._put_off:
            self._put_off.pop(self._bucket_of(batch), None)

    def find_put_off(self, batch: Submitting) -> str:
        """Return why a batch is put off that was decided before others like it were; empty if it is not."""
        put_off = self._put_off.get(self._bucket_of(batch)) if self._put_off else None
        return "" if put_off is None or put_off.trial == batch.b else put_off.why

    def put_off_reasons(self) -> list[str]:
        """Return why ready jobs are put off."""
        return [each.why for bucket, each in self._put_off.items() if bucket in self._queue]

    def _bucket_of(self, batch: Submitting) -> Hashable:
        assert batch.request is not None
        return self._register(batch.request, self._profile(batch.jobs[0][0])).bucket

    def find_lane(self, request: Request, job: int) -> tuple[str | None, int]:
        """Return the name and the slots of the lane of a job's request; no name where nothing is submitted ahead."""
        lane = self._register(request, self._profile(job)).lane
        return (lane.name, lane.slots) if self.limits.look_ahead_s and lane.is_ahead_allowed else (None, 0)

    def make_finish_event(self) -> Finished | None:
        """Return the last event of the run, once nothing can move any more."""
        state = self.state
        if not state.is_over or state.finish_event:
            return None
        return Finished(state=state.compute_state())

    def next_wake(self) -> float | None:
        """Return when the next waiting retry comes due, on the clock of `next_batches`; ``None`` without any."""
        return self._delayed[0][0] if self._delayed else None

    def has_ready(self, now: float) -> bool:
        """Return whether any job waits to be submitted."""
        self._free_resources()
        self._enqueue_ready(now)
        return bool(self._queue)

    def next_job_demand(self, now: float) -> dict[str, int]:
        """Return the amounts that the first ready job takes of the pool; empty when none is ready."""
        self._enqueue_ready(now)
        job = self._queue.peek()
        return {} if job is None else dict(self._registered_request(job).lane.amounts)

    def compute_limit_demand(self, pool: Pool, now: float) -> dict[str, int]:
        """Return the most that one ready job takes of each limit in a pool."""
        self._enqueue_ready(now)
        most = dict[str, int]()
        for job, _ in self._queue.bucket_heads():
            for each, amounts in self._registered_request(job).lane.limits:
                for name, amount in amounts.items() if each is pool else ():
                    most[name] = max(amount, most.get(name, 0))
        return most

    def blocked_amounts(self) -> list[Mapping[str, int]]:
        """Return the amounts of limits and categories that the first jobs of buckets wait for."""
        lanes = [self._registered_request(job).lane for job, _ in self._queue.bucket_heads()]
        return [takes for lane in lanes if not self._lanes.is_within_limits(lane) for _, takes in lane.limits]

    def _follow_estimates(self) -> None:
        if self.estimates.has_changed():
            self.estimates.apply()
            self._queue.reorder(
                compute_pressures(self.state.children, self.estimates.all_expected_s(), self.state.barriers)
            )

    def _count_jobs(self, at_most: int | None) -> None:
        waiting = sum(row[JobCode.PENDING] for row in self.state.counts)
        self._room.begin_round(waiting, len(self._lanes), at_most=at_most)
        if self._room.needs_buckets:
            code = self.state.code
            self._room.count_jobs(
                (self._registered_request(job).bucket, code[job] == JobCode.PENDING) for job in self.state.active
            )

    def _next_batch(self) -> Submitting | None:
        job = self._pop()
        if job is None:
            return None
        registered = self._registered_request(job)
        max_batch = self._profile(job).max_batch
        own = max_batch() if max_batch else self.limits.max_batch
        most = self._room.max_batch(registered.bucket, own) - 1
        put_off = self._put_off.get(registered.bucket)
        jobs = [job, *self._pop_similar(registered, most)] if most and put_off is None else [job]
        batch = self._batch_of(jobs, registered)
        if put_off is not None:
            put_off.trial, put_off.until = batch.b, self._now + _TRIAL_S
        return batch

    def _next_batches_ahead(self) -> list[Submitting]:
        """Return batches to submit ahead, in lanes with short members: they start as those before them end."""
        batches: list[Submitting] = []
        while (head := self._queue.peek_head()) is not None:
            if self._is_stale(*head):
                # Its request may have changed since, and then it is in another bucket as well.
                self._queue.pop_head(head[1])
                continue
            registered = self._registered_request(head[0])
            room = self._lanes.room_ahead(registered.lane, self.limits.look_ahead_s)
            jobs: list[int] = []
            while len(jobs) < room and self._is_allowed(registered.bucket) and self._is_first(registered):
                job = self._queue.pop_head(registered.bucket)
                if not self._is_stale(job, registered.bucket):
                    self._lanes.start_ahead(job, registered.lane)
                    self._room.add(registered.bucket)
                    jobs.append(job)
            if not jobs:
                break
            batches.append(self._batch_of(jobs, registered))
        return batches

    def _is_first(self, registered: _RegisteredRequest) -> bool:
        """Return whether the first job of all has exactly this request."""
        head = self._queue.peek_head()
        return head is not None and head[1] == registered.bucket and self._registered_request(head[0]) is registered

    def _batch_of(self, jobs: list[int], registered: _RegisteredRequest) -> Submitting:
        self._batches += 1
        self._room.add_batch(registered.bucket)
        batch = f"{self._tag}-{self._batches}"
        identities = self._lanes.identities
        return Submitting(
            b=batch,
            tag=batch,
            jobs=tuple([(job, self.state.attempts[job] + 1) for job in jobs]),
            request=registered.request,
            ids={job: identities[job] for job in jobs if job in identities} if identities else {},
        )

    def _pop(self) -> int | None:
        while not self._lanes.is_full() and (found := self._queue.pop(self._fits)) is not None:
            job, bucket = found
            if not self._is_stale(job, bucket) and self._throttle.admits(job):
                self._take([job], self._registered_request(job))
                return job
        return None

    def _is_stale(self, job: int, bucket: Hashable) -> bool:
        """Return whether a job was cancelled, held, or queued again with another request since it was queued."""
        return self.state.code[job] != _READY or job in self._lanes or self._registered_request(job).bucket != bucket

    def _pop_similar(self, registered: _RegisteredRequest, most: int) -> list[int]:
        """Remove and return jobs with exactly the same request, best first, skipping some with similar ones."""
        bucket = registered.bucket
        # Counted once, and not per job: it is the same for all of them.
        most = self._lanes.count_fitting(
            registered.lane, self._room.count_room(bucket, self._throttle.count_room(most))
        )
        jobs: dict[int, None] = {}
        skipped: list[int] = []
        while len(jobs) < most and len(skipped) < _MAX_SKIPPED and (job := self._queue.pop_from(bucket)) is not None:
            if job in jobs or self._is_stale(job, bucket):
                continue
            if self._registered_request(job) is not registered:
                skipped.append(job)
            elif self._throttle.admits(job):
                jobs[job] = None
        for job in skipped:
            self._queue.push(job, bucket)
        return self._take(list(jobs), registered)

    def _fits(self, job: int, bucket: Hashable) -> bool:
        if not self._is_allowed(bucket):
            return False
        # A cancelled job must not hide those behind it, however large it is.
        return self._lanes.fits(self._registered_request(job).lane) or self._is_stale(job, bucket)

    def _is_allowed(self, bucket: Hashable) -> bool:
        """Return whether the manager's limits allow one more job of a bucket, wherever it fits."""
        put_off = self._put_off.get(bucket)
        is_put_off = put_off is not None and put_off.until > self._now
        return not (is_put_off or self._throttle.is_full) and self._room.has_room(bucket)

    def _take(self, jobs: list[int], registered: _RegisteredRequest) -> list[int]:
        self._lanes.start(jobs, registered.lane)
        self._room.add(registered.bucket, len(jobs))
        return jobs

    def _free_resources(self) -> None:
        """Return the resources of jobs that are no longer active."""
        left, self.state.newly_inactive = self.state.newly_inactive, []
        for job, run_s in left or ():
            self._lanes.end(job, run_s)

    def _enqueue_ready(self, now: float) -> None:
        state = self.state
        ready_jobs, state.newly_ready = state.newly_ready, []
        # A replayed history names a job once for every time it became ready.
        for job in dict.fromkeys(ready_jobs):
            due = state.not_before.get(job) if state.not_before else None
            if due is not None:
                # No retry waits longer than intended, even if the time of day has jumped since.
                delay = state.delays.get(job, due - now)
                due = min(due, now + delay) if self._is_replayed else now + delay
            if due is not None and due > now:
                heappush(self._delayed, (due, job))
            elif state.code[job] == _READY:
                self._queue.push(job, self._registered_request(job).bucket)
        self._is_replayed = False
        while self._delayed and self._delayed[0][0] <= now:
            _, job = heappop(self._delayed)
            if state.code[job] == JobCode.READY:
                self._enqueue(job)

    def _enqueue(self, job: int) -> None:
        self._queue.push(job, self._registered_request(job).bucket)

    def _registered_request(self, job: int) -> _RegisteredRequest:
        state = self.state
        if job in state.requests or job in state.set_values:
            return self._register(self.request_of(job), self._profile(job))
        return self._request_per_profile[self._profile_of[job]]

    def _register(self, request: Request, profile: SchedulerProfile) -> _RegisteredRequest:
        lane = self._lanes.learn(request, profile.limit_amounts)
        is_packed = profile.is_packed is not None and profile.is_packed(request)
        key = (lane.name, profile.kind, is_packed)
        if (registered := self._requests.get(key)) is not None:
            return registered
        # Jobs that wait for a limit must not hide others behind them.
        limit_names = tuple(name for _, amounts in lane.limits for name in amounts)
        if self.pool:
            most = self.pool.capacity
            amounts = ((name, min(round_up(amount), most[name])) for name, amount in lane.amounts.items())
            bucket: Hashable = (*amounts, *limit_names)
        else:
            # A manager that counts resources takes arrays of jobs, which share one run time as well.
            rounded_amounts = ((name, round_up(amount)) for name, amount in lane.amounts.items())
            bucket = (profile.kind, is_packed, *rounded_amounts, request.walltime_s, *limit_names)
        bucket = self._buckets.setdefault(bucket, bucket)
        if is_packed:
            self._room.packed_buckets.add(bucket)
        self._requests[key] = registered = _RegisteredRequest(request, bucket, lane)
        return registered
