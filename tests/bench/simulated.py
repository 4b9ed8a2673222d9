"""Times a million jobs under a simulated clock and manager, with failures and killed engines.

Usage: python -m tests.bench.simulated [--jobs N] [--lives N] [--failures SHARE] [--slots N]

What is timed is what an engine does beside talking to disk and manager: choosing, folding, and coding its journal,
which each new life reads back from the beginning.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from random import Random

import msgspec
from tests.bench.graphs import parents_of
from tests.bench.processes import peak_mb

from longshore.contract.batch import Limits
from longshore.engine.policy.retry import RetryRules
from longshore.engine.schedule.lanes import Lanes
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.engine.state.apply_event import apply_event
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState
from longshore.model.lines.event_codec import decode_event
from longshore.model.lines.json_line import encode_line
from longshore.model.run.event import Ended, Event, Started, Submitted
from longshore.model.run.states import Cause

_MEMBERS = 64


class Simulation:
    """A run with its journal in memory, and a manager that is a queue of ends.

    Parameters
    ----------
    parents
        Per job.
    slots
        Jobs that run at once.
    failures
        Share of attempts that fail.
    """

    def __init__(self, parents: Sequence[tuple[int, ...]], *, slots: int, failures: float) -> None:
        self.parents = parents
        self.slots = slots
        self.failures = failures
        self.dice = Random(0)
        self.journal: list[bytes] = []
        self.ends: list[tuple[float, int, int]] = []
        self.now = 0.0
        self.successes = bytearray(len(parents))
        self.begin()

    def begin(self) -> None:
        """Start an engine: replay the journal."""
        self.state = RunState(self.parents, bytes(len(self.parents)))
        for line in self.journal:
            apply_event(self.state, decode_event(line))
        self.scheduler = Scheduler(
            self.state,
            [SchedulerProfile(rules=RetryRules(retries=20))],
            bytes(len(self.parents)),
            lanes=Lanes(Pool({"cpus": self.slots})),
            limits=Limits(max_batch=_MEMBERS),
            tag=f"s{len(self.journal)}",
        )

    def note(self, event: Event) -> None:
        """Append an event to the journal and apply it."""
        event = msgspec.structs.replace(event, n=len(self.journal), t=self.now)
        self.journal.append(encode_line(event))
        apply_event(self.state, event)

    def round(self) -> None:
        """Advance the clock to the next ends, judge them, and start jobs that fit."""
        for _ in range(min(_MEMBERS, len(self.ends))):
            self.now, job, attempt = heappop(self.ends)
            failed = self.dice.random() < self.failures
            self.successes[job] += not failed
            self.note(Ended(j=job, a=attempt, exit=int(failed), cause=Cause.EXIT if failed else None, run_s=60.0))
        for judgement in self.scheduler.decide_retries():
            self.note(judgement)
        for batch in self.scheduler.next_batches(self.now):
            self.note(batch)
            self.note(Submitted(b=batch.b, id=batch.b))
            for job, attempt in batch.jobs:
                self.note(Started(j=job, a=attempt))
                heappush(self.ends, (self.now + 60.0 * self.dice.random(), job, attempt))

    def run(self, lives: int) -> None:
        """Run to the end, with engine restarts at equal distances."""
        deaths = [len(self.parents) * life // lives for life in range(1, lives)]
        done = 0
        while not self.state.is_over:
            self.round()
            done = self.state.counts[0][JobCode.SUCCEEDED]
            if deaths and done >= deaths[0]:
                deaths.pop(0)
                self.begin()


def simulate(size: int, *, slots: int, failures: float, lives: int) -> Iterator[str]:
    """Run the simulation, check that each job succeeded exactly once, and yield the figures."""
    began = time.perf_counter()
    gc.disable()
    parents = [tuple(parents_of(job)) for job in range(size)]
    gc.freeze()
    gc.enable()
    built = time.perf_counter()
    simulation = Simulation(parents, slots=slots, failures=failures)
    simulation.run(lives)
    took = time.perf_counter() - built
    if simulation.successes != b"\1" * size:
        raise SystemExit("a job did not succeed exactly once")
    yield (
        f"{size} jobs, {len(simulation.journal)} events, {failures:.0%} failures, {lives - 1} restarts:"
        f" {took:.1f} s (graph {built - began:.1f} s), {peak_mb():.0f} MB with the journal in memory"
    )


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--lives", type=int, default=4)
    parser.add_argument("--failures", type=float, default=0.05)
    parser.add_argument("--slots", type=int, default=1000)
    options = parser.parse_args()
    for line in simulate(options.jobs, slots=options.slots, failures=options.failures, lives=options.lives):
        print(line)


if __name__ == "__main__":
    main()
