"""Settings of pilots: the size of an allocation, how many there are, and when they end."""

from __future__ import annotations

import signal
from typing import Final

import msgspec

_MIB: Final = 2**20


class PilotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a site or a label asks of its pilots.

    Attributes
    ----------
    cpus, memory_b
        Processors and bytes of memory of each node of an allocation, which its jobs share.
    walltime_s
        Seconds that an allocation may run.
    count
        Most allocations that are requested at once.
    nodes
        Nodes of an allocation; a pilot runs on each.
    idle_s
        Seconds without work after which a pilot ends.
    short_job_s
        With ``packing: auto``, jobs that are expected to run shorter go to pilots.
    lease_s
        Seconds without an answer of the engine after which a pilot starts nothing.
    signals, grace_s
        Signals to a job beyond its limits, and seconds before the next one and before the kill.
    hidden_variables
        Variables that are empty in a job that does not set them.
    margin_s
        Seconds beyond the lease before a silent pilot's waiting jobs are moved.
    settle_s
        Seconds after the end of an allocation before its records count as complete, for a slow file system.
    """

    cpus: int = 4
    memory_b: int = 4 * 2048 * _MIB
    walltime_s: float = 3600.0
    count: int = 4
    nodes: int = 1
    idle_s: float = 60.0
    short_job_s: float = 60.0
    lease_s: float = 120.0
    signals: tuple[int, ...] = (signal.SIGTERM,)
    grace_s: float = 10.0
    hidden_variables: tuple[str, ...] = ()
    margin_s: float = 60.0
    settle_s: float = 15.0
