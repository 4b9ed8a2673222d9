"""Which pilot gets which attempts, what comes back, and how many allocations there are; nothing touches a file."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId, MemberEvent
from longshore.model.event import Started
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.pilot_state import HandedAttempt, PilotId, PilotState
from longshore.services.batch.pilots.work_queue import QueuedMember, WorkKind, WorkQueue

# Policy.


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


class RunTimes(dict[int, float]):
    """Expected run time in seconds per kind of work, from the attempts that ended."""

    def add(self, kind: int, run_s: float) -> None:
        """Count an attempt that ended."""
        mean_s = self.get(kind)
        self[kind] = run_s if mean_s is None else mean_s + _WEIGHT * (run_s - mean_s)


_WEIGHT: Final = 0.1
"""Weight of the newest run time in the mean."""


# Attempts and pilots.


_MOST_OVER: Final = 10_000
"""Ended attempts that are remembered for `PilotPool.find`."""


class PoolNews(msgspec.Struct):
    """Events, and attempts that never started, since the last call; `failed` has pilots that cannot start, and why."""

    events: list[MemberEvent] = msgspec.field(default_factory=list)
    never_started: list[AttemptId] = msgspec.field(default_factory=list)
    failed: dict[PilotId, str] = msgspec.field(default_factory=dict)


class PilotPool:
    """The pilots of a run, and the attempts that wait for them.

    `counts` tells by the tag of a batch and an attempt of it whether records of it are still about that attempt: its
    number may mean another job since.
    """

    def __init__(self, settings: PilotSettings, *, counts: Callable[[str, AttemptId], bool]) -> None:
        self._settings = settings
        self._counts = counts
        self.queue = WorkQueue()
        self.pilots: dict[PilotId, PilotState] = {}
        self.run_times = RunTimes()
        self.cancelled: set[AttemptId] = set()
        """Attempts that are being cancelled: those that come back are not handed out again."""
        self._members: dict[AttemptId, QueuedMember] = {}
        """Attempts of this life that a pilot has."""
        self._over: dict[str, set[AttemptId]] = {}
        """Attempts that ended lately, by the tag of their batch."""
        self._over_count = 0
        self._never_started: list[AttemptId] = []

    # ----------------------------------------------------------------------------------------------------- attempts

    def hand(self, pilot: PilotId, members: Iterable[QueuedMember]) -> None:
        """Remember members that were taken from the queue and handed to a pilot, which `PilotState.hand` has."""
        for member in members:
            self._members[member.attempt] = member

    def collect(self) -> PoolNews:
        """Return what the records of all pilots told, and put what came back into the queue again."""
        news = PoolNews(never_started=self._never_started)
        self._never_started = []
        for pilot_id, state in self.pilots.items():
            self._collect_events(state, news)
            returned, state.returned = state.returned, []
            failed, state.failed = state.failed, []
            for attempt, handed, why in failed:
                news.failed[pilot_id] = why
                returned.append((attempt, handed))
            self._put_back(returned, news)
        return news

    def _collect_events(self, state: PilotState, news: PoolNews) -> None:
        events, state.events = state.events, []
        for tag, event in events:
            attempt = event.j, event.a
            if not self._counts(tag, attempt):
                continue
            news.events.append(event)
            if not isinstance(event, Started):
                self._members.pop(attempt, None)
                self.cancelled.discard(attempt)
                self._remember(tag, attempt)
        for kind, run_s in state.run_times:
            self.run_times.add(kind, run_s)
        state.run_times.clear()

    def _put_back(self, returned: list[tuple[AttemptId, HandedAttempt]], news: PoolNews) -> None:
        again: list[QueuedMember] = []
        for attempt, handed in returned:
            if not self._counts(handed.tag, attempt) or self.holders(attempt) or attempt in self.queue:
                # A pilot had it by an order of an earlier life, and it was submitted again since.
                continue
            member = self._members.pop(attempt, None)
            if member is None or attempt in self.cancelled:
                self.cancelled.discard(attempt)
                news.never_started.append(attempt)
            else:
                again.append(member)
        if again:
            self.queue.add(again, first=True)

    def holders(self, attempt: AttemptId) -> list[PilotId]:
        """Return the pilots that have an attempt: one, or none."""
        return [pilot_id for pilot_id, state in self.pilots.items() if attempt in state.attempts]

    def _remember(self, tag: str, attempt: AttemptId) -> None:
        self._over.setdefault(tag, set()).add(attempt)
        self._over_count += 1
        while self._over_count > _MOST_OVER and len(self._over) > 1:
            self._over_count -= len(self._over.pop(next(iter(self._over))))

    def find(self, tags: Collection[str]) -> dict[str, frozenset[AttemptId]]:
        """Return the attempts of batches that wait here, that a pilot has, or that are over, collected or not."""
        found: dict[str, set[AttemptId]] = {tag: set(self._over.get(tag, ())) for tag in tags}
        for member in self.queue.members():
            if member.tag in found:
                found[member.tag].add(member.attempt)
        for state in self.pilots.values():
            for attempt, handed in state.attempts.items():
                if handed.tag in found and self._counts(handed.tag, attempt):
                    found[handed.tag].add(attempt)
            for tag, event in state.events:
                if tag in found and self._counts(tag, (event.j, event.a)):
                    found[tag].add((event.j, event.a))
            for attempt, handed in state.returned:
                # It will wait here again.
                if handed.tag in found and attempt in self._members:
                    found[handed.tag].add(attempt)
        return {tag: frozenset(attempts) for tag, attempts in found.items() if attempts}

    def cancel(self, attempts: Iterable[AttemptId]) -> dict[PilotId, list[AttemptId]]:
        """Remove attempts from the queue; return those that pilots have, by pilot."""
        wanted = set(attempts)
        self._never_started += [member.attempt for member in self.queue.remove(wanted)]
        held: dict[PilotId, list[AttemptId]] = {}
        for pilot_id, state in self.pilots.items():
            live = wanted & state.attempts.keys()
            if live:
                held[pilot_id] = sorted(live)
                self.cancelled |= live
        return held

    def has_work(self) -> bool:
        """Return whether attempts wait here, or pilots have any."""
        return bool(len(self.queue) or any(state.attempts for state in self.pilots.values()))

    def give_up_queue(self) -> None:
        """Report all that waits here as never started."""
        members = self.queue.members()
        self._never_started += [member.attempt for member in self.queue.remove({each.attempt for each in members})]

    # --------------------------------------------------------------------------------------------------------- views

    def view(self, pilot_id: PilotId, *, left_s: float, is_asked_back: bool) -> PilotView:
        """Return a pilot that has begun as the policy sees it."""
        state = self.pilots[pilot_id]
        assert state.begun is not None
        view = PilotView(
            id=pilot_id,
            cpus=state.begun.cpus,
            memory_b=state.begun.memory,
            left_s=left_s,
            handed=len(state.attempts),
            waiting=state.waiting_count,
            is_asked_back=is_asked_back,
        )
        for number, count in state.kinds.items():
            # The request of an attempt of an earlier life is not known.
            share = share_of(self.queue.kind(number), view.cpus, view.memory_b) if number else 1 / max(1, view.cpus)
            view.load += share * count
            view.backlog_s += share * count * (self.run_times.get(number) or 0.0)
        return view

    def waiting_work(self) -> list[WaitingWork]:
        """Return what waits here, by kind."""
        return [
            WaitingWork(number, self.queue.kind(number), count, self.run_times.get(number))
            for number, count in self.queue.counts()
        ]

    def unfinished_work(self, views: Sequence[PilotView]) -> tuple[float, float | None]:
        """Return the shares of a node that all unfinished work takes, and its seconds on one node, if known."""
        load, work_s, is_known = 0.0, 0.0, True
        for work in self.waiting_work():
            share = min(1.0, share_of(work.kind, self._settings.cpus, self._settings.memory_b))
            load += share * work.count
            work_s += share * work.count * (work.run_s or 0.0)
            is_known = is_known and work.run_s is not None
        for view in views:
            load += view.load
            work_s += view.backlog_s
            is_known = is_known and (not view.load or view.backlog_s > 0.0)
        return load, work_s if is_known else None
