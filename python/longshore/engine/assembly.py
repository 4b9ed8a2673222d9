"""Makes the scheduler of a life of the engine, from what its run asks for and what its executor has."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from longshore.contract.context import PingReport
from longshore.contract.executor import Executor
from longshore.engine.concurrency import Bounds
from longshore.engine.decide import Scheduler
from longshore.engine.estimates import Estimates
from longshore.engine.executor_capabilities import max_batch_for
from longshore.engine.job_table import JobTable
from longshore.engine.policy import first_request, rules_of
from longshore.engine.pool import Pool
from longshore.engine.run_state import RunState
from longshore.engine.settings import EngineSettings
from longshore.model.job import JobSettings


def scheduler_of(
    state: RunState,
    jobs: JobTable,
    bounds: Bounds,
    settings: EngineSettings,
    *,
    executor: Executor,
    probe: PingReport,
    estimates: Estimates,
    tag: str,
) -> Scheduler:
    """Make the scheduler.

    Parameters
    ----------
    state
        Where the run stands.
    jobs
        Its jobs.
    bounds
        The limits and categories of its jobs.
    settings
        What was fixed when it was prepared.
    executor
        The manager of single jobs.
    probe
        What the executor has.
    estimates
        How long jobs are expected to take.
    tag
        What the tags of this life's batches begin with.
    """
    profiles = jobs.header.settings
    rules = [
        rules_of(profile, retries_on_lost=settings.retries_on_lost, capacity=probe.capacity) for profile in profiles
    ]
    return Scheduler(
        state,
        requests=list(map(first_request, (profile.request for profile in profiles), rules)),
        rules=rules,
        profile_of=jobs.profile_of,
        pool=Pool(probe.capacity, probe.identities) if probe.capacity is not None else None,
        limits=executor.limits,
        tag=tag,
        estimates=estimates,
        priorities=[profile.priority for profile in profiles],
        most_in_batch=lambda profile: max_batch_for(executor, profiles[profile].own),
        takes=bounds.takes,
        bounds=bounds.pools,
        kinds=_kinds_of(profiles) if executor.limits.max_batch > 1 else (),
    )


def _kinds_of(settings: Sequence[JobSettings]) -> list[Hashable]:
    """What jobs of each profile must have alike to go in one batch, beside their request: what the manager is told."""
    return [
        (tuple(sorted((name, str(value)) for name, value in each.attributes.items())), repr(each.own))
        for each in settings
    ]
