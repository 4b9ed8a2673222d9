"""Random orders of events between engines and pilots: no attempt starts twice, and each has one outcome."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.services.batch.pilots.pilot_model import ModelEngine, ModelPilot

from longshore.contract.executor import AttemptId
from longshore.services.batch.pilots.pilot_state import PilotId


class World:
    """All pilots, the engine of the present life, and what became of each attempt."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.starts: Counter[AttemptId] = Counter()
        self.pilots = {(number, 0): ModelPilot(self.starts) for number in range(1, 3)}
        self.engine = ModelEngine(self.pilots, 1)
        self.open: set[AttemptId] = set()
        self.over: Counter[AttemptId] = Counter()
        self.jobs = 0
        self.submit()

    def submit(self) -> None:
        """Submit new attempts."""
        attempts = [(self.jobs + number, 1) for number in range(self.random.randint(1, 12))]
        self.jobs += len(attempts)
        self.open.update(attempts)
        self.engine.submit(attempts)

    def step(self) -> None:
        """Let one thing happen."""
        pilot_id = self.random.choice(sorted(self.pilots))
        if self.random.random() < 0.7:
            self.step_pilot(pilot_id)
        else:
            self.step_engine(pilot_id)
        assert all(count == 1 for count in self.starts.values()), "an attempt was started twice"

    def step_pilot(self, pilot_id: PilotId) -> None:
        """Let a pilot do something."""
        model = self.pilots[pilot_id]
        match self.random.choice(("take", "take", "get", "start", "start", "end", "beat", "close")):
            case "take":
                model.take_order()
            case "get":
                model.get_next()
            case "start":
                model.start_next()
            case "end" if model.running:
                model.end(self.random.choice(model.running))
            case "beat":
                model.beat()
            case "close":
                model.close()

    def step_engine(self, pilot_id: PilotId) -> None:
        """Let the engine do something, or its surroundings."""
        random, engine = self.random, self.engine
        if random.random() < 0.3:
            self.step_rarely(pilot_id)
            return
        match random.choice(("look", "look", "dispatch", "acknowledge")):
            case "look":
                engine.look(pilot_id, random.randint(1, 4))
                self.collect()
            case "dispatch":
                engine.dispatch()
            case "acknowledge":
                engine.acknowledge(pilot_id)

    def step_rarely(self, pilot_id: PilotId) -> None:
        """Let something happen that is no part of every run."""
        random, engine, model = self.random, self.engine, self.pilots[pilot_id]
        match random.choice(("kill", "gone", "move", "life", "submit", "cancel", "pilot")):
            case "kill":
                model.is_dead = True
            case "gone" if model.is_dead:
                engine.settle(pilot_id)
                self.collect()
            case "move" if pilot_id not in engine.moved and not engine.pool.pilots[pilot_id].is_over:
                # The lease is over by the clock of the pilot before the engine counts as much silence.
                model.expire()
                engine.move(pilot_id)
                self.collect()
            case "life":
                self.begin_life()
            case "submit":
                self.submit()
            case "cancel" if self.open:
                self.cancel(random.sample(sorted(self.open), 1))
            case "pilot" if len(self.pilots) < 6:
                new = max(self.pilots)[0] + 1, 0
                self.pilots[new] = ModelPilot(self.starts)
                engine.meet(new)

    def cancel(self, attempts: list[AttemptId]) -> None:
        """Cancel attempts."""
        for holder, live in self.engine.pool.cancel(attempts).items():
            self.engine.order(holder, "kill", tuple(live))
        self.collect()

    def begin_life(self) -> None:
        """Kill the engine; the next one asks what the pilots took, and submits the rest again."""
        moved = self.engine.moved
        self.engine = ModelEngine(self.pilots, self.engine.life + 1)
        self.engine.moved |= moved
        for pilot_id, model in self.pilots.items():
            while not model.is_dead and not self.engine.pool.pilots[pilot_id].has_answered:
                model.take_order()
                self.engine.look(pilot_id)
            self.engine.look(pilot_id)
            if model.is_dead:
                self.engine.settle(pilot_id)
        self.collect(is_new_life=True)
        tags = [f"r-{life}-{number}" for life in range(self.engine.life + 1) for number in (0, 1)]
        taken = set().union(*self.engine.pool.find(tags).values())
        self.engine.submit(sorted(self.open - taken))

    def collect(self, *, is_new_life: bool = False) -> None:
        """Take the news of the engine, as its journal would."""
        engine = self.engine
        engine.collect()
        ended, engine.ended = engine.ended, Counter()
        for attempt, count in ended.items():
            assert count == 1 or is_new_life
            if attempt in self.open:
                self.open.discard(attempt)
                self.over[attempt] += 1
        never, engine.never_started = engine.never_started, []
        for attempt in set(never) & self.open:
            # As the engine does with an attempt that costs nothing: it submits it again.
            assert not self.starts[attempt], "an attempt that began is reported as never started"
            if not is_new_life:
                engine.submit([attempt])

    def finish(self) -> None:
        """Let everything end: all pilots are gone, and a last one does the rest."""
        for pilot_id, model in self.pilots.items():
            model.is_dead = True
            self.engine.settle(pilot_id)
        self.collect()
        last = max(self.pilots)[0] + 1, 0
        model = self.pilots[last] = ModelPilot(self.starts)
        self.engine.meet(last)
        for _ in range(20 * self.jobs + 50):
            self.engine.look(last)
            self.collect()
            self.engine.dispatch()
            model.take_order()
            model.get_next()
            model.start_next()
            for attempt in model.running[:]:
                model.end(attempt)
        self.engine.look(last)
        self.collect()


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**32), st.integers(20, 250))
def test_each_attempt_starts_at_most_once_and_has_one_outcome(seed: int, steps: int) -> None:
    world = World(Random(seed))
    for _ in range(steps):
        world.step()
    world.finish()
    assert not world.open, "attempts were forgotten"
    assert set(world.over.values()) <= {1}
    assert all(count == 1 for count in world.starts.values())
    assert len(world.over) == world.jobs
