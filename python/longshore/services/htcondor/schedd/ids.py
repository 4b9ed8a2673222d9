"""Parses ids of HTCondor jobs: a cluster, a job, or a global id."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_LOCAL: Final = re.compile(r"(\d+)(?:\.(\d+))?")
_GLOBAL: Final = re.compile(r"([^#\s]+)#(\d+)\.(\d+)#(\d+)")


class CondorId(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a job in a schedd."""

    cluster: int
    schedd: str = ""
    """Name of the schedd; empty if the id has none."""
    qdate: int | None = None
    """Time of the submission, in seconds since the epoch; ``None`` if the id has none."""


def parse_id(text: str) -> CondorId | None:
    """Parse an id: ``12``, ``12.0`` or ``schedd#12.0#1763630000``; ``None`` if it is none of these."""
    if found := _LOCAL.fullmatch(text):
        return CondorId(cluster=int(found[1]))
    if found := _GLOBAL.fullmatch(text):
        return CondorId(cluster=int(found[2]), schedd=found[1], qdate=int(found[4]))
    return None


def format_id(cluster: int) -> str:
    """A run's id as BPS prints it."""
    return f"{cluster}.0"
