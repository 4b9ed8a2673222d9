"""Concurrency limits of a job: which runs of this host hold how much of each."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.contract.context import RunPaths
from longshore.engine.rundir.run_settings import read_settings
from longshore.engine.shares import LIMIT_PREFIX, read_entries
from longshore.errors import LongshoreError
from longshore.model.workflow.job import JobSettings


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
        entries = read_entries()
    except (OSError, LongshoreError):
        # Runs of other services have none; without any run so far the host has no file.
        return ()
    return tuple(
        LimitUsage(
            name=name,
            maximum=maxima[name],
            used_by_run={
                each.run: amount for each in entries if (amount := each.holds.get(f"{LIMIT_PREFIX}{name}", 0))
            },
        )
        for name in settings.concurrency
        if name in maxima
    )
