"""Makes the scheduler of an engine's life, from the run's settings and the executor's resources."""

from __future__ import annotations

from functools import partial

from longshore.contract.executor import Executor
from longshore.engine.policy.retry import limit_first_request, make_retry_rules
from longshore.engine.run.executor_capabilities import max_batch_for, probe_resources
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.schedule.concurrency_limits import ConcurrencyLimits
from longshore.engine.schedule.lanes import Lanes
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.runtime_estimates import RuntimeEstimates
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.engine.settings import EngineSettings
from longshore.engine.state.run_state import RunState


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
    profiles = []
    for profile, limit_amounts in zip(jobs.header.settings, limits.limit_amounts, strict=True):
        rules = make_retry_rules(profile, retries_on_lost=settings.retries_on_lost, capacity=probe.capacity)
        # All jobs of a batch share the values that the manager gets beside the request.
        attributes = (
            tuple(sorted((name, str(value)) for name, value in profile.attributes.items())),
            repr(profile.service_settings),
        )
        profiles.append(
            SchedulerProfile(
                request=limit_first_request(profile.request, rules),
                rules=rules,
                priority=profile.priority,
                kind=attributes if has_batches else None,
                limit_amounts=limit_amounts,
                max_batch=partial(max_batch_for, executor, profile.service_settings),
            )
        )
    pool = None if probe.capacity is None else Pool(probe.capacity, probe.identities)
    return Scheduler(
        state,
        profiles,
        jobs.profile_of,
        lanes=Lanes(pool, limits.pools),
        limits=executor.limits,
        tag=tag,
        estimates=estimates,
    )
