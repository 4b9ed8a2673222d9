"""Jobs handed over ahead of their slots: how many, what they take of the pool, and a whole run with late news."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.engine.schedulers import make_scheduler

from longshore.contract.executor import Limits
from longshore.engine.policy.retry import RetryRules
from longshore.engine.schedule.lanes import Lane, Lanes
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import SchedulerProfile
from longshore.keeper.program.attempts import AttemptRunner, Records
from longshore.keeper.program.processes import Processes
from longshore.keeper.program.watchdog import Watchdog
from longshore.keeper.protocol import MemberOrder
from longshore.model.event import Ended, Lost, Refused, Started, Submitted, Submitting
from longshore.model.workflow import Request
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import RunState


def test_room_ahead_follows_the_run_times() -> None:
    lane = Lane(0, {"cpus": 1}, is_ahead_allowed=True)
    lane.members = lane.slots = 4
    assert lane.room_ahead(0.05) == 0, "nothing is known yet"
    lane.learn(0.01)
    assert lane.room_ahead(0.05) == 20
    lane.members += 20
    assert lane.room_ahead(0.05) == 0
    lane.learn(60.0)
    assert lane.room_ahead(0.05) < 0, "one long one is enough to stop it"
    for _ in range(60):
        lane.learn(0.0001)
    lane.members = 4
    assert lane.room_ahead(0.05) == 64, "there is a limit, however short they are"


def test_what_did_not_run_to_its_end_stops_it() -> None:
    lane = Lane(0, {}, is_ahead_allowed=True)
    lane.members = lane.slots = 1
    lane.learn(0.001)
    assert lane.room_ahead(0.05) > 0
    lane.learn(None)
    assert lane.room_ahead(0.05) == 0


def test_named_resources_are_never_handed_over_ahead() -> None:
    lanes = Lanes(None)
    lane = lanes.learn(Request(resources={"gpus": 1}))
    lane.slots = 1
    lane.learn(0.001)
    assert lane.room_ahead(0.05) == 0


def test_a_slot_goes_to_who_waits_and_then_back_to_the_pool() -> None:
    pool = Pool({"cpus": 4})
    lanes = Lanes(pool)
    lane = lanes.learn(Request(cpus=3))
    lanes.start([0], lane)
    lanes.start_ahead(1, lane)
    assert pool.free == {"cpus": 1}
    lanes.end(0, 0.1)
    assert pool.free == {"cpus": 1}
    lanes.end(1, 0.1)
    assert pool.free == {"cpus": 4}
    assert len(lanes) == 0


class PaperRecords(Records):
    """Records that stay in memory."""

    def __init__(self) -> None:
        self.file = -1
        self.unwritten = bytearray()
        self.crc = 0
        self.has_news = False
        self.lines: list[bytes] = []

    def flush(self) -> bool:
        self.lines += bytes(self.unwritten).splitlines()
        self.unwritten.clear()
        return True


class PaperKeeper(AttemptRunner):
    """The keeper's own rules, with processes that exist on paper.

    Parameters
    ----------
    tmp
        Not used.
    """

    def __init__(self, tmp: str) -> None:
        self.paper = PaperRecords()
        super().__init__(self.paper, tmp, Watchdog(Processes()))
        os.close(self.null_file)
        self.started: Counter[tuple[int, int]] = Counter()

    def start(self, member: MemberOrder, lane: str | None) -> None:
        job, attempt = member["j"], member["a"]
        self.started[job, attempt] += 1
        self.running[job] = (job, attempt, 0.0, "", lane)
        self.records.add({"r": "start", "j": job, "a": attempt})

    def end(self, job: int) -> None:
        _, attempt, _, _, lane = self.running.pop(job)
        self.records.add({"r": "end", "j": job, "a": attempt})
        self.leave(lane, (job, attempt))
        self.start_chosen()


class Play:
    """An engine and a keeper whose messages arrive late, in an order that dice choose.

    Parameters
    ----------
    parents, requests, profile_of, capacity
        The run.
    """

    def __init__(
        self,
        parents: Sequence[Sequence[int]],
        requests: Sequence[Request],
        profile_of: Sequence[int],
        capacity: dict[str, int],
    ) -> None:
        self.state = RunState(parents, [0] * len(parents))
        self.requests, self.profile_of, self.capacity = requests, profile_of, capacity
        self.scheduler = make_scheduler(
            self.state,
            [SchedulerProfile(request=request, rules=RetryRules(retries=99)) for request in requests],
            profile_of,
            pool=Pool(capacity),
            limits=Limits(look_ahead_s=0.05),
            tag="p",
        )
        self.keeper = PaperKeeper("")
        self.orders: deque[bytes] = deque()
        self.read = 0
        self.most_ahead = 0

    def engine(self) -> None:
        """One round of the engine: read all records, decide, send orders."""
        lines, self.read = self.keeper.paper.lines[self.read :], len(self.keeper.paper.lines)
        for line in lines:
            self.take(msgspec.json.decode(line))
        for judgement in self.scheduler.decide_retries():
            apply_event(self.state, judgement)
        for batch in self.scheduler.next_batches(0.0):
            apply_event(self.state, batch)
            apply_event(self.state, Submitted(b=batch.b, id=batch.b))
            self.orders.append(self.order(batch))

    def order(self, batch: Submitting) -> bytes:
        assert batch.request
        lane, slots = self.scheduler.find_lane(batch.request, batch.jobs[0][0])
        more = {} if lane is None else {"l": lane, "n": slots}
        members = [{"j": job, "a": attempt} for job, attempt in batch.jobs]
        self.most_ahead = max(self.most_ahead, len(members))
        return msgspec.json.encode({"o": "run", "b": batch.b, "m": members, **more})

    def take(self, record: dict[str, Any]) -> None:
        if record["r"] == "start":
            apply_event(self.state, Started(j=record["j"], a=record["a"]))
        elif record["r"] == "end":
            apply_event(self.state, Ended(j=record["j"], a=record["a"], run_s=0.001))
        elif record["r"] == "never":
            for job, attempt in record["m"]:
                batch = self.state.active[job]
                apply_event(self.state, Refused(b=batch, why="late", jobs=((job, attempt),)))

    def deliver(self) -> None:
        if self.orders:
            self.keeper.carry_out(self.orders.popleft())
            self.keeper.start_chosen()

    def lose_patience(self) -> None:
        self.keeper.cancel_waiting(lambda _since, _member: True)
        self.keeper.start_chosen()

    def check(self) -> None:
        """Hold what really runs to what there is."""
        used: Counter[str] = Counter()
        for job in self.keeper.running:
            used.update(self.requests[self.profile_of[job]].amounts())
        assert all(used[name] <= amount for name, amount in self.capacity.items())


def play_of(dice: Random) -> Play:
    """A small run of any shape, with a few distinct requests."""
    size = dice.randint(1, 40)
    parents: list[tuple[int, ...]] = [()] * size
    if dice.random() < 0.5:
        parents = [
            tuple(sorted(set(dice.choices(range(job), k=dice.randint(0, 2))))) if job else () for job in range(size)
        ]
    requests = [
        Request(cpus=dice.randint(1, 3), memory_b=dice.choice([None, 0, 2, 4])) for _ in range(dice.randint(1, 3))
    ]
    profile_of = [dice.randrange(len(requests)) for _ in range(size)]
    return Play(parents, requests, profile_of, {"cpus": dice.randint(3, 6), "memory": dice.randint(4, 8)})


@settings(max_examples=examples(200))
@given(st.integers(0, 2**64))
def test_late_news_never_overshoot_the_pool_and_nothing_starts_twice(seed: int) -> None:
    dice = Random(seed)
    play = play_of(dice)
    steps = 0
    while not play.state.is_over:
        steps += 1
        assert steps < 5000, "it comes to a standstill"
        what = dice.random()
        if what < 0.3:
            play.engine()
        elif what < 0.55:
            play.deliver()
        elif what < 0.97 and play.keeper.running:
            play.keeper.end(dice.choice(list(play.keeper.running)))
        elif what >= 0.97:
            play.lose_patience()
        play.check()
    assert set(play.keeper.started.values()) <= {1}
    assert sorted(job for job, _ in play.keeper.started) == list(range(play.state.size))
    assert play.scheduler.pool
    play.engine()
    assert play.scheduler.pool.free == play.capacity


def test_short_jobs_are_handed_over_in_rows_and_start_in_order() -> None:
    play = Play([()] * 200, [Request()], [0] * 200, {"cpus": 2})
    order = []
    while not play.state.is_over:
        play.engine()
        while play.orders:
            play.deliver()
        for _ in range(10):
            if play.keeper.running:
                first = next(iter(play.keeper.running))
                order.append(first)
                play.keeper.end(first)
    assert order == list(range(200))
    assert play.most_ahead > 10


def test_short_jobs_leave_the_slots_that_have_become_somebody_elses() -> None:
    play = Play([()] * 400, [Request()], [0] * 400, {"cpus": 4})
    pool = play.scheduler.pool
    assert pool

    def turn() -> int:
        play.engine()
        while play.orders:
            play.deliver()
        running = list(play.keeper.running)
        for job in running:
            play.keeper.end(job)
        return len(running)

    assert [turn() for _ in range(5)] == [4] * 5
    pool.resize({"cpus": 1})
    ran = [turn() for _ in range(60)]
    assert ran[-1] == 1
    assert ran == sorted(ran, reverse=True)
    pool.resize({"cpus": 4})
    assert [turn() for _ in range(5)][-1] == 4


def test_a_life_that_begins_counts_what_it_finds_until_it_is_over() -> None:
    state = RunState([()] * 3, [0] * 3)
    apply_event(state, Submitting(b="x", tag="x", jobs=((0, 1), (1, 1)), request=Request(cpus=2)))
    pool = Pool({"cpus": 2})
    chooser = make_scheduler(
        state, [SchedulerProfile(request=Request(cpus=2))], pool=pool, limits=Limits(look_ahead_s=0.05), tag="y"
    )
    assert chooser.next_batches(0.0) == []
    apply_event(state, Refused(b="x", why="it never started", jobs=((1, 1),)))
    assert chooser.next_batches(0.0) == [], "the other one may still run"
    apply_event(state, Lost(j=0, a=1, why="gone"))
    assert [job for batch in chooser.next_batches(0.0) for job, _ in batch.jobs] == [1]
    assert pool.free == {"cpus": 0}


@pytest.mark.parametrize("size", [10_000, pytest.param(100_000, marks=pytest.mark.bulk)])
@pytest.mark.parametrize("shape", ["layer", "chain", "gather"])
def test_large_shapes(shape: str, size: int) -> None:
    parents: list[tuple[int, ...]] = [()] * size
    if shape == "chain":
        parents = [(job - 1,) if job else () for job in range(size)]
    elif shape == "gather":
        parents[-1] = tuple(range(size - 1))
    play = Play(parents, [Request()], bytes(size), {"cpus": 64})
    while not play.state.is_over:
        play.engine()
        while play.orders:
            play.deliver()
        for job in list(play.keeper.running):
            play.keeper.end(job)
    assert set(play.keeper.started.values()) == {1}
    assert len(play.keeper.started) == size
