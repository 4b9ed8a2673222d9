"""Concurrency limits of a job: which runs of this host hold how much of each."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.contract.context import RunPaths
from longshore.engine.rundir.run_settings import read_settings
from longshore.errors import LongshoreError
from longshore.model.workflow.job import JobSettings
from longshore.world.clock import SystemClock
from longshore.world.runs.claims import limits_folder, read_other_claims


class LimitUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Concurrency limit: its maximum, and the amount held per run id."""

    name: str
    maximum: int
    used_by_run: Mapping[str, int]

    @property
    def is_reached(self) -> bool:
        """Whether nothing of the limit is left."""
        return sum(self.used_by_run.values()) >= self.maximum


def limit_usage(run: RunPaths, settings: JobSettings) -> tuple[LimitUsage, ...]:
    """Return the limits that a job names and that have a maximum, with the runs that hold some of them."""
    if not settings.concurrency:
        return ()
    try:
        maxima = read_settings(run).concurrency_limits
        claims = read_other_claims(limits_folder(), "", now=SystemClock().elapsed())
    except (OSError, LongshoreError):
        # Runs of other services have none; without any named limit the host has no folder of claims.
        return ()
    return tuple(
        LimitUsage(
            name=name,
            maximum=maxima[name],
            used_by_run={
                claim.run.partition("-")[0]: amount for claim in claims if (amount := claim.holds.get(name, 0))
            },
        )
        for name in settings.concurrency
        if name in maxima
    )
