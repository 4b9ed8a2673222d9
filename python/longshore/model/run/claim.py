"""A run's claim on the resources of a machine that runs of one user share."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ResourceClaim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources that a run uses and demands.

    Attributes
    ----------
    run
        The run token.
    keeper
        Folder of the files of its keepers.
    at
        Time of writing, on the host's monotonic clock; so are the other times.
    capacity
        Capacity of the machine as the run sees it, by resource.
    leased
        What its jobs may take, by resource.
    members
        Leased members of resources with named members.
    holds
        The most its jobs have taken since the claim was written.
    held
        Members that these jobs use.
    wants
        Total demand of its running and ready jobs.
    next
        Demand of the next job.
    end_at
        Expected end of the run.
    idle_since
        Time since which it has work but no running job.
    alive
        Whether its engine lives; never written.
    """

    run: str
    keeper: str = ""
    at: float = 0.0
    capacity: Mapping[str, int] = msgspec.field(default_factory=dict)
    leased: Mapping[str, int] = msgspec.field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    holds: Mapping[str, int] = msgspec.field(default_factory=dict)
    held: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    wants: Mapping[str, int] = msgspec.field(default_factory=dict)
    next: Mapping[str, int] = msgspec.field(default_factory=dict)
    end_at: float = 0.0
    idle_since: float | None = None
    alive: bool = True
