"""A model of the pilot program and of its files, and an engine that uses the pure parts against it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from longshore.contract.executor import AttemptId
from longshore.keeper.protocol import ExitRecord, StartRecord
from longshore.model.event import Lost, Started
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.pilot_state import (
    AttemptsGivenBack,
    AttemptsGot,
    Beat,
    GenerationTaken,
    OlderHandOver,
    PilotBegun,
    PilotClosed,
    PilotId,
    PilotNews,
    PilotState,
)
from longshore.services.batch.pilots.pool import PilotPool, plan_handouts, plan_returns
from longshore.services.batch.pilots.work_queue import QueuedMember, WorkKind

SETTINGS: Final = PilotSettings(cpus=2, memory_b=1000, count=3)


class ModelPilot:
    """The program: it takes orders in sequence, and starts what it took while its lease lasts."""

    def __init__(self, starts: Counter[AttemptId]) -> None:
        self.starts = starts
        self.orders: dict[int, list[tuple[str, tuple[AttemptId, ...]]]] = {}
        """Orders per generation."""
        self.records: list[PilotNews] = [PilotBegun(node=0, host="n", cpus=2, memory=1000)]
        self.queue: list[AttemptId] = []
        self.got: list[AttemptId] = []
        self.running: list[AttemptId] = []
        self.generation, self.taken = 1, 0
        self.is_dead = self.is_ending = False
        self.has_lease = True
        self.expired_at = 0
        """Signs of life up to this one were written too long ago to renew the lease."""

    def expire(self) -> None:
        """Let the time of the lease pass."""
        self.has_lease, self.expired_at = False, len(self.records)

    def take_order(self) -> None:
        """Take the next order, or switch to the next generation."""
        if self.is_dead:
            return
        orders = self.orders.get(self.generation, [])
        if self.taken == len(orders):
            if self.generation + 1 in self.orders:
                self.records.append(GenerationTaken(self.generation + 1, self.generation, self.taken))
                self.generation, self.taken = self.generation + 1, 0
            return
        word, attempts = orders[self.taken]
        self.taken += 1
        self.obey(word, attempts)
        if self.is_ending:
            self.give_back(self.queue[:])

    def obey(self, word: str, attempts: tuple[AttemptId, ...]) -> None:
        """Carry out an order."""
        match word:
            case "run":
                self.queue += attempts
            case "ack" if attempts[0][0] > self.expired_at:
                self.has_lease = True
            case "end":
                self.is_ending = True
            case "back":
                self.give_back(self.queue[len(self.queue) // 2 :])
            case "kill":
                self.give_back([attempt for attempt in self.queue if attempt in attempts])
                for attempt in {*self.running} & {*attempts}:
                    self.end(attempt, status=15)

    def give_back(self, attempts: list[AttemptId]) -> None:
        """Give attempts back."""
        if attempts:
            self.queue = [attempt for attempt in self.queue if attempt not in attempts]
            self.records.append(AttemptsGivenBack(tuple(attempts)))

    def get_next(self) -> None:
        """Record that the next attempt may begin."""
        if not self.is_dead and self.has_lease and self.queue:
            self.got.append(self.queue.pop(0))
            self.records.append(AttemptsGot((self.got[-1],)))

    def start_next(self) -> None:
        """Start what may begin."""
        if not self.is_dead and self.got:
            job, attempt = self.got.pop(0)
            self.starts[job, attempt] += 1
            self.running.append((job, attempt))
            self.records.append(StartRecord(j=job, a=attempt, pid=2, t=1.0, up=1.0))

    def end(self, attempt: AttemptId, status: int = 0) -> None:
        """Let an attempt end."""
        if not self.is_dead:
            self.running.remove(attempt)
            self.records.append(ExitRecord(j=attempt[0], a=attempt[1], t=2.0, s=status, run=1.0))

    def beat(self) -> None:
        """Give a sign of life."""
        if not self.is_dead:
            self.records.append(Beat(k=len(self.records), at=self.taken, run=len(self.running), wait=len(self.queue)))

    def close(self) -> None:
        """End, if nothing runs."""
        if not self.is_dead and not (self.running or self.got or self.queue):
            self.is_dead = True
            self.records.append(PilotClosed("idle"))


class ModelEngine:
    """One life of an engine over the pure parts; the next life is another object with the same pilots."""

    def __init__(self, pilots: dict[PilotId, ModelPilot], life: int) -> None:
        self.models = pilots
        self.life = life
        self.pool = PilotPool(SETTINGS, counts=lambda *_: True)
        self.kind = self.pool.queue.number(WorkKind(1, 0, None, 1))
        self.read: Counter[PilotId] = Counter()
        self.ended: Counter[AttemptId] = Counter()
        self.never_started: list[AttemptId] = []
        self.moved: set[PilotId] = set()
        for pilot_id in pilots:
            self.meet(pilot_id)

    def meet(self, pilot_id: PilotId) -> None:
        """Make a new file of orders for a pilot."""
        model = self.models[pilot_id]
        generation = max(model.orders, default=0) + 1
        state = PilotState(generation)
        for number, orders in sorted(model.orders.items()):
            handed = [
                OlderHandOver(attempt, f"r-{self.life}-0", end)
                for end, (word, attempts) in enumerate(orders, 1)
                for attempt in attempts
                if word == "run"
            ]
            state.extend_older(number, handed, has_end=any(word == "end" for word, _ in orders))
        model.orders[generation] = []
        self.pool.pilots[pilot_id] = state

    def submit(self, attempts: list[AttemptId]) -> None:
        """Take attempts into the queue."""
        self.pool.queue.add(QueuedMember(each, f"r-{self.life}-1", self.kind, b"{}", b"{}") for each in attempts)

    def order(self, pilot_id: PilotId, word: str, attempts: tuple[AttemptId, ...] = ()) -> int:
        """Append an order; return the position behind it."""
        orders = self.models[pilot_id].orders[self.pool.pilots[pilot_id].generation]
        orders.append((word, attempts))
        return len(orders)

    def dispatch(self) -> None:
        """Hand out what waits, or ask for some of it back."""
        views = [
            self.pool.view(pilot_id, left_s=1000.0, is_asked_back=False)
            for pilot_id, state in self.pool.pilots.items()
            if state.begun and state.has_answered and not state.is_ending
        ]
        for handout in plan_handouts(self.pool.waiting_work(), views):
            members = self.pool.queue.take(handout.kind, handout.count)
            attempts = tuple(member.attempt for member in members)
            for pilot_id, model in self.models.items():
                may_start = not model.is_dead and (pilot_id not in self.moved)
                assert not (may_start and {*model.queue, *model.got, *model.running} & {*attempts}), "handed twice"
            self.pool.hand(handout.pilot, members)
            end = self.order(handout.pilot, "run", attempts)
            self.pool.pilots[handout.pilot].hand(attempts, tag=members[0].tag, kind=handout.kind, end=end)
        if not len(self.pool.queue):
            for pilot_id, _ in plan_returns(views):
                self.order(pilot_id, "back")

    def look(self, pilot_id: PilotId, most: int | None = None) -> None:
        """Read so many records of a pilot, or all."""
        model, state = self.models[pilot_id], self.pool.pilots[pilot_id]
        end = len(model.records) if most is None else min(len(model.records), self.read[pilot_id] + most)
        for record in model.records[self.read[pilot_id] : end]:
            if not state.is_over:
                state.apply(record)
        self.read[pilot_id] = end

    def collect(self) -> None:
        """Count what the records told."""
        news = self.pool.collect()
        self.never_started += news.never_started
        for event in news.events:
            if not isinstance(event, Started):
                self.ended[event.j, event.a] += 1
                assert isinstance(event, Lost) or event.exit is not None or event.signal is not None

    def acknowledge(self, pilot_id: PilotId) -> None:
        """Acknowledge the newest sign of life."""
        if beat := self.pool.pilots[pilot_id].beat:
            self.order(pilot_id, "ack", ((beat.k, 0),))

    def move(self, pilot_id: PilotId) -> None:
        """Move what waits in a pilot whose lease is over."""
        self.look(pilot_id)
        self.order(pilot_id, "end")
        self.moved.add(pilot_id)
        self.pool.pilots[pilot_id].take_waiting()

    def settle(self, pilot_id: PilotId) -> None:
        """Settle a pilot whose allocation is gone."""
        assert self.models[pilot_id].is_dead
        self.look(pilot_id)
        if not self.pool.pilots[pilot_id].is_over:
            self.pool.pilots[pilot_id].finish("gone")
