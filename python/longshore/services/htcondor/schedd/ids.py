"""Turns what people call a run of HTCondor's into what the schedd calls it: a cluster, a job, or a global id."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_LOCAL: Final = re.compile(r"(\d+)(?:\.(\d+))?")
_GLOBAL: Final = re.compile(r"([^#\s]+)#(\d+)\.(\d+)#(\d+)")


class CondorId(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a schedd's.

    Attributes
    ----------
    cluster
        Its cluster.
    schedd
        Name of the schedd; empty where it is not said.
    qdate
        When it was submitted, in seconds since the epoch; ``None`` where it is not said.
    """

    cluster: int
    schedd: str = ""
    qdate: int | None = None


def condor_id(text: str) -> CondorId | None:
    """What such a name means: ``12``, ``12.0`` or ``schedd#12.0#1763630000``; ``None`` where it is none."""
    if found := _LOCAL.fullmatch(text):
        return CondorId(cluster=int(found[1]))
    if found := _GLOBAL.fullmatch(text):
        return CondorId(cluster=int(found[2]), schedd=found[1], qdate=int(found[4]))
    return None


def shown(cluster: int) -> str:
    """How a run's id is shown: as BPS does."""
    return f"{cluster}.0"
