"""Time as the modules of a simulated process see it, in place of the module `time`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from tests.simulation.universe import Universe

from longshore.control import resume
from longshore.engine.run import engine_service, loop
from longshore.plan import submit_once
from longshore.rundir import interventions, liveness
from longshore.system import host, sharing

_MODULES: Final[tuple[ModuleType, ...]] = (
    resume,
    submit_once,
    liveness,
    interventions,
    engine_service,
    loop,
    sharing,
    host,
)
"""Modules that ask for the time, or sleep, by themselves."""


class SimulatedTime:
    """The functions of `time` that are used."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def time(self) -> float:
        return self._universe.now()

    def time_ns(self) -> int:
        return int(self._universe.now() * 1e9)

    def monotonic(self) -> float:
        return self._universe.elapsed()

    def thread_time(self) -> float:
        return 0.0

    def clock_gettime(self, clock_id: int) -> float:
        return self._universe.since_boot()

    def sleep(self, seconds: float) -> None:
        self._universe.call("wait")
        self._universe.block(seconds)


@contextmanager
def simulated_time(universe: Universe) -> Iterator[None]:
    """Let the modules that ask for the time get that of the universe."""
    namespaces: list[dict[str, Any]] = [vars(module) for module in _MODULES]
    simulated = SimulatedTime(universe)
    for namespace in namespaces:
        namespace["time"] = simulated
    try:
        yield
    finally:
        for namespace in namespaces:
            namespace["time"] = time
