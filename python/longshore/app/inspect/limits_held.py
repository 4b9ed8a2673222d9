"""Says who has how much of the limits on jobs that run at once, as the runs of this host claim it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from longshore.contract.context import RunPaths
from longshore.engine import settings as engine_settings
from longshore.errors import LongshoreError
from longshore.model.workflow.job import JobSettings
from longshore.world.clock import SystemClock
from longshore.world.runs.claims import limits_folder, other_claims


@dataclass(frozen=True, kw_only=True)
class LimitTaken:
    """A limit that a job names.

    Attributes
    ----------
    name
        Its name.
    most
        How much of it there is.
    taken
        What jobs have of it, by the id of their run.
    """

    name: str
    most: int
    taken: Mapping[str, int]

    @property
    def is_reached(self) -> bool:
        """Whether nothing is left of it."""
        return sum(self.taken.values()) >= self.most


def limits_taken(run: RunPaths, settings: JobSettings) -> tuple[LimitTaken, ...]:
    """The limits that a job names and that have a number, each with those who have some of it.

    Parameters
    ----------
    run
        The run directory.
    settings
        What the job shares with others.
    """
    if not settings.concurrency:
        return ()
    try:
        most = engine_settings.read(run).concurrency_limits
        claims = other_claims(limits_folder(), "", now=SystemClock().elapsed())
    except (OSError, LongshoreError):
        # A run of another service has none, and a host where no run ever named a limit has no folder of claims.
        return ()
    return tuple(
        LimitTaken(
            name=name,
            most=most[name],
            taken={claim.run.partition("-")[0]: amount for claim in claims if (amount := claim.holds.get(name, 0))},
        )
        for name in settings.concurrency
        if name in most
    )
