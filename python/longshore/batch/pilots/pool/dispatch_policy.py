"""Dispatch policy of pilots: their work ahead, its return, and the number of allocations (pure functions)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

import msgspec

from longshore.batch.pilots.allocation import PilotSettings
from longshore.batch.pilots.pool.pilot_state import PilotId
from longshore.batch.pilots.pool.work_queue import WorkKind

AHEAD_S: Final = 30.0
"""Seconds of work that a pilot has ahead, so that the delay of a file system never leaves a slot without work."""
LEAST_LOAD: Final = 2.0
"""Work of a pilot while run times are unknown, as a multiple of what runs at once."""
MOST_HANDED: Final = 20_000
"""Attempts that a pilot has at most."""
_WORTH_S: Final = 60.0
"""Seconds of work of a whole allocation that are worth another one."""
_WORTH_MOVING_S: Final = 2.0
"""Seconds of work that are worth the way to another pilot."""


class PilotView(msgspec.Struct, kw_only=True):
    """A pilot that takes work.

    Attributes
    ----------
    cpus, memory_b
        What its node has.
    left_s
        Seconds that are left of its allocation.
    load
        Shares of the node that its attempts take, those that wait there included; 1 is what runs at once.
    backlog_s
        Seconds that its attempts of known run time take the whole node.
    handed, waiting
        Number of its attempts, and of those that have not begun.
    is_asked_back
        Whether it was asked to give attempts back and has not answered.
    """

    id: PilotId
    cpus: int
    memory_b: int
    left_s: float = math.inf
    load: float = 0.0
    backlog_s: float = 0.0
    handed: int = 0
    waiting: int = 0
    is_asked_back: bool = False


class WaitingWork(msgspec.Struct, frozen=True):
    """Attempts of one kind that wait; `run_s` is their expected run time, if known."""

    number: int
    kind: WorkKind
    count: int
    run_s: float | None = None


class Handout(msgspec.Struct, frozen=True):
    """So many attempts of a kind for a pilot."""

    pilot: PilotId
    kind: int
    count: int


def share_of(kind: WorkKind, cpus: int, memory_b: int) -> float:
    """Return which share of a node an attempt takes; above 1 if it does not fit."""
    return max(kind.cpus / max(1, cpus), kind.memory_b / max(1, memory_b))


def room_for(pilot: PilotView, work: WaitingWork) -> int:
    """Return how many more attempts of a kind a pilot gets."""
    share = share_of(work.kind, pilot.cpus, pilot.memory_b)
    if share > 1.0 or (work.kind.need_s is not None and work.kind.need_s > pilot.left_s):
        return 0
    room = (LEAST_LOAD - pilot.load) / share
    if work.run_s is not None:
        run_s = max(work.run_s, 1e-3)
        room = max(room, (min(AHEAD_S, pilot.left_s) + run_s - pilot.backlog_s) / (share * run_s))
    return max(0, min(math.ceil(room - 1e-9), MOST_HANDED - pilot.handed))


def add_load(pilot: PilotView, work: WaitingWork, count: int) -> None:
    """Count attempts as handed to a pilot."""
    share = share_of(work.kind, pilot.cpus, pilot.memory_b)
    pilot.load += share * count
    pilot.backlog_s += share * count * (work.run_s or 0.0)
    pilot.handed += count
    pilot.waiting += count


def plan_handouts(works: Sequence[WaitingWork], pilots: Sequence[PilotView]) -> list[Handout]:
    """Share waiting work out: kinds in order, and each piece to the pilot with the least to do.

    The views are changed to what the pilots have afterwards.
    """
    handouts: dict[tuple[PilotId, int], int] = {}
    for work in works:
        left = work.count
        heap = [(pilot.backlog_s, pilot.load, pilot.id, pilot) for pilot in pilots if room_for(pilot, work)]
        heapq.heapify(heap)
        while left and heap:
            *_, pilot = heapq.heappop(heap)
            fair = math.ceil(left / (2 * len(heap) + 2))
            count = min(left, room_for(pilot, work), fair)
            if not count:
                continue
            add_load(pilot, work, count)
            handouts[pilot.id, work.number] = handouts.get((pilot.id, work.number), 0) + count
            left -= count
            heapq.heappush(heap, (pilot.backlog_s, pilot.load, pilot.id, pilot))
    return [Handout(pilot, kind, count) for (pilot, kind), count in handouts.items()]


def plan_returns(pilots: Sequence[PilotView]) -> list[tuple[PilotId, int]]:
    """Return how many waiting attempts busy pilots are asked to give back, while others have none and nothing waits."""
    idle = sum(pilot.load < 1.0 and not pilot.waiting for pilot in pilots)
    busy = [pilot for pilot in pilots if pilot.waiting >= 2 and pilot.load > 1.0 and not pilot.is_asked_back]
    if not idle:
        return []
    busy.sort(key=lambda pilot: (-pilot.backlog_s, -pilot.load, pilot.id))
    return [
        (pilot.id, pilot.waiting // 2)
        for pilot in busy[:idle]
        if not pilot.backlog_s or pilot.backlog_s * pilot.waiting / pilot.handed > _WORTH_MOVING_S
    ]


def wanted_allocations(settings: PilotSettings, load: float, work_s: float | None) -> int:
    """Return how many allocations are worth asking for.

    Parameters
    ----------
    settings
        The most there may be, and how many nodes each has.
    load
        Shares of a node that all unfinished work takes.
    work_s
        Seconds that it takes one node; ``None`` if run times are unknown.
    """
    if not load:
        return 0
    nodes = load if work_s is None else min(load, max(1.0, work_s / _WORTH_S))
    return min(settings.count, math.ceil(nodes / settings.nodes))


class RunTimes:
    """Expected run time per kind of work, from the attempts that ended."""

    def __init__(self) -> None:
        self._mean_s: dict[int, float] = {}

    def add(self, kind: int, run_s: float) -> None:
        """Count an attempt that ended."""
        mean_s = self._mean_s.get(kind)
        self._mean_s[kind] = run_s if mean_s is None else mean_s + _WEIGHT * (run_s - mean_s)

    def get(self, kind: int) -> float | None:
        """Return the expected run time of a kind."""
        return self._mean_s.get(kind)


_WEIGHT: Final = 0.1
"""Weight of the newest run time in the mean."""
