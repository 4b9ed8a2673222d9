"""Pool of pilots: which attempts wait here, which pilot has which, and what becomes of those that come back; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from longshore.batch.pilots.allocation import PilotSettings
from longshore.batch.pilots.pool.dispatch_policy import PilotView, RunTimes, WaitingWork, share_of
from longshore.batch.pilots.pool.pilot_state import HandedAttempt, PilotId, PilotState
from longshore.batch.pilots.pool.work_queue import QueuedMember, WorkQueue
from longshore.contract.executor import AttemptId, MemberEvent
from longshore.model.event import Started

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
