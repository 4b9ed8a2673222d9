"""What one run of a user claims of the machine that it shares with others."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run claims.

    Attributes
    ----------
    run
        The run's mark.
    keeper
        Folder of what its keepers write.
    at
        When it was written, on the clock of the host that never jumps; so are the other times.
    capacity
        What it takes the machine to have, by resource.
    leased
        What its jobs may take, by resource.
    members
        Which members of resources that tell them apart.
    holds
        The most its jobs have taken since the claim was written.
    held
        Which members these have.
    wants
        What all its jobs that run or are ready would take.
    next
        What the next of them takes.
    end_at
        When it is expected to be over.
    idle_since
        Since when it has work and no job runs.
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
