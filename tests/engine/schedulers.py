"""Schedulers with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.contract.executor import Limits
from longshore.engine.schedule.estimates import RuntimeEstimates
from longshore.engine.schedule.lanes import Lanes
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.runstate.run_state import RunState

ANY = (SchedulerProfile(),)


def make_scheduler(
    state: RunState,
    profiles: Sequence[SchedulerProfile] = ANY,
    profile_of: Sequence[int] | None = None,
    *,
    pool: Pool | None = None,
    bounds: Sequence[Pool] = (),
    limits: Limits | None = None,
    tag: str = "t",
    estimates: RuntimeEstimates | None = None,
    packed_limits: Limits | None = None,
) -> Scheduler:
    """A scheduler; all jobs are of the first profile unless told otherwise."""
    scheduler = Scheduler(
        state,
        profiles,
        [0] * state.size if profile_of is None else profile_of,
        lanes=Lanes(pool, bounds),
        limits=limits or Limits(),
        tag=tag,
        estimates=estimates,
    )
    if packed_limits is not None:
        scheduler.packed_limits = packed_limits
    return scheduler
