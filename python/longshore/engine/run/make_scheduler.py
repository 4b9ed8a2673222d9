"""Makes the scheduler of an engine's life, from the run's settings and the executor's resources."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import msgspec

from longshore.contract.executor import Executor, JobPacking
from longshore.engine.policy.retry import limit_first_request, make_retry_rules
from longshore.engine.run.executor_capabilities import max_batch_for, probe_resources
from longshore.engine.schedule.concurrency_limits import ConcurrencyLimits
from longshore.engine.schedule.lanes import Lanes
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.runtime_estimates import RuntimeEstimates
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.engine.settings import EngineSettings
from longshore.engine.state.run_state import RunState
from longshore.model.workflow import JobSettings, shared_parts_key
from longshore.rundir.job_table import JobTable


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
