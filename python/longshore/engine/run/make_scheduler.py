"""What the scheduler of a life begins with: settings, resources, and run times of earlier runs; it adds its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from longshore.contract.executor import Executor, JobPacking, max_batch_for, probe_resources
from longshore.engine.policy.retry import limit_first_request, make_retry_rules
from longshore.engine.schedule.estimates import LabelWork, RuntimeEstimates, estimate_rest_s
from longshore.engine.schedule.lanes import Lanes
from longshore.engine.schedule.resource_pool import ConcurrencyLimits, Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.engine.settings import EngineSettings
from longshore.model.event import AttemptFacts, Ended, add_facts
from longshore.model.measurements import AttemptUsage, LabelHistory
from longshore.model.workflow import JobSettings, shared_parts_key
from longshore.rundir.histories import HistoryBusyError, add_to_history, history_folder, read_history
from longshore.rundir.job_table import JobTable
from longshore.runstate.run_state import JobCode, RunState
from longshore.system.host import Clock

# Run times of earlier runs, and of this one.


_INTERVAL_S: Final = 60.0
"""Time between two writes: an engine that dies loses at most this much history."""
_MAX_BUFFERED: Final = 5_000
"""Most successes that are buffered."""
_OPEN: Final = (JobCode.UNREADY, JobCode.READY, JobCode.PENDING, JobCode.RUNNING, JobCode.UNDECIDED, JobCode.HELD)


class RuntimeHistory:
    """History of a run's payload.

    An empty `identity` means that nothing is remembered; `log_line` takes a line for the engine's log.
    """

    def __init__(self, identity: str, jobs: JobTable, *, clock: Clock, log_line: Callable[[str], None]) -> None:
        self._identity = identity
        self._jobs = jobs
        self._clock = clock
        self._log_line = log_line
        self._new: dict[tuple[int, int], Ended] = {}
        self._added_at = clock.elapsed()
        self._has_reported_error = False
        found = read_history(identity, jobs.labels) if identity else {}
        self._label_of = jobs.label_of
        nothing = LabelHistory(label="")
        means = [(found.get(label, nothing).run_s, found.get(label, nothing).weight) for label in jobs.labels]
        self.estimates = RuntimeEstimates(self._label_of, means, self._last_s(found))
        self._cpus = self._cpus_per_label()

    def add_success(self, end: Ended) -> None:
        """Record a success."""
        if end.run_s is None:
            return
        self.estimates.learn(end.j, end.run_s)
        if self._identity:
            self._new[end.j, end.a] = end

    def add_facts(self, facts: AttemptFacts) -> None:
        """Add what became known of a success that is not written yet."""
        if end := self._new.get((facts.j, facts.a)):
            self._new[facts.j, facts.a] = add_facts(end, facts)

    def add(self, *, last: bool = False, awaited: Collection[tuple[int, int]] = ()) -> None:
        """Write new successes to the history, at most once per interval, and always when `last`.

        Those are kept of which facts are awaited.
        """
        if not self._new:
            return
        if not last and len(self._new) < _MAX_BUFFERED and self._clock.elapsed() - self._added_at < _INTERVAL_S:
            return
        self._added_at = self._clock.elapsed()
        kept = self._new.keys() & awaited if awaited else set()
        new = [end for attempt, end in self._new.items() if attempt not in kept]
        self._new = {attempt: self._new[attempt] for attempt in kept}
        successes = [
            AttemptUsage(
                label=self._jobs.settings(end.j).label,
                job=self._jobs[end.j].name,
                run_s=end.run_s or 0.0,
                cpu_s=end.cpu_s,
                peak_memory_b=end.rss_b,
                tasks=self._jobs[end.j].tasks,
            )
            for end in new
        ]
        try:
            add_to_history(self._identity, successes)
        except HistoryBusyError:
            # Another run of this payload is writing.
            self._new |= {(end.j, end.a): end for end in new[-_MAX_BUFFERED // 2 :]} if not last else {}
        except OSError as error:
            if not self._has_reported_error:
                self._has_reported_error = True
                with suppress(OSError):
                    self._log_line(
                        f"what jobs take is not remembered: '{history_folder(self._identity)}' cannot be written: "
                        f"{error.strerror or error}"
                    )

    def rest_s(self, state: RunState, cpus: float) -> float:
        """Return seconds until the expected end of the run, if only processors limit it."""
        work = []
        for label, row in enumerate(state.counts):
            run_s = self.estimates.label_s(label)
            running = row[JobCode.RUNNING] + row[JobCode.PENDING]
            work.append(
                LabelWork(
                    open=sum(row[code] for code in _OPEN),
                    running=running,
                    # Start times of single jobs are not kept; on average, half of a running job is done.
                    elapsed_s=running * run_s / 2,
                    cpus=self._cpus[label],
                    run_s=run_s,
                )
            )
        return estimate_rest_s(work, cpus)

    def _last_s(self, found: Mapping[str, LabelHistory]) -> dict[int, float]:
        """Return the seconds of each job's last success, reading lines only of labels with known successes."""
        known = {number for number, label in enumerate(self._jobs.labels) if label in found and found[label].jobs}
        if not known:
            return {}
        last_s = {}
        for job, label in enumerate(self._label_of):
            if label in known:
                seconds = found[self._jobs.labels[label]].jobs.get(self._jobs[job].name)
                if seconds is not None:
                    last_s[job] = seconds
        return last_s

    def _cpus_per_label(self) -> list[float]:
        cpus = [1.0] * len(self._jobs.labels)
        for settings in self._jobs.header.settings:
            label = self._jobs.labels.index(settings.label)
            cpus[label] = max(cpus[label], float(settings.request.cpus))
        return cpus


def make_scheduler(
    state: RunState,
    jobs: JobTable,
    limits: ConcurrencyLimits,
    settings: EngineSettings,
    *,
    executor: Executor,
    estimates: RuntimeEstimates,
    tag: str,
) -> Scheduler:
    """Make the scheduler; its batches have tags that begin with `tag`."""
    probe = probe_resources(executor)
    has_batches = executor.limits.max_batch > 1
    packing = executor if isinstance(executor, JobPacking) else None
    shared: dict[tuple[object, ...], SchedulerProfile] = {}
    profiles = []
    for profile, limit_amounts in zip(jobs.header.settings, limits.limit_amounts, strict=True):
        key = shared_parts_key(profile)
        usual = shared.get(key)
        if usual is None:
            rules = make_retry_rules(profile, retries_on_lost=settings.retries_on_lost, capacity=probe.capacity)
            usual = shared[key] = SchedulerProfile(
                rules=rules,
                priority=profile.priority,
                kind=_batch_kind(profile) if has_batches else None,
                limit_amounts=limit_amounts,
                max_batch=partial(max_batch_for, executor, profile.service_settings),
                is_packed=partial(packing.packs, profile.attributes, profile.service_settings) if packing else None,
            )
        request = limit_first_request(profile.request, usual.rules)
        profiles.append(msgspec.structs.replace(usual, request=request))
    pool = None if probe.capacity is None else Pool(probe.capacity, probe.identities)
    scheduler = Scheduler(
        state,
        profiles,
        jobs.profile_of,
        lanes=Lanes(pool, limits.pools),
        limits=executor.limits,
        tag=tag,
        estimates=estimates,
    )
    if packing:
        scheduler.packed_limits = packing.packed_limits
    return scheduler


def _batch_kind(profile: JobSettings) -> Hashable:
    """Return the values that the manager gets beside the request, which all jobs of a batch share."""
    attributes = sorted((name, str(value)) for name, value in profile.attributes.items())
    return tuple(attributes), repr(profile.service_settings)
