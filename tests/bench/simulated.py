"""Times up to a million jobs under a simulated clock and manager, with failures and killed engines, and how it grows.

Usage: python -m tests.bench.simulated [--lives N] [--failures SHARE] [--slots N] [JOBS ...]

Without numbers: 1,000, 10,000, 100,000 and 1,000,000 jobs. What is timed is what an engine does beside talking to a
manager: choosing, applying events, and coding its journal. The journal is a file, as that of an engine, without waits
for the disk; each new life reads it back from the beginning, in blocks. Each measurement has a process of its own.
Seconds are those of the processor, so that others may work meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random
from typing import Final, NamedTuple

import msgspec
from tests.bench.graphs import parents_of
from tests.bench.growth import SIZES, describe_growth, note_growth
from tests.bench.processes import peak_mb, run_apart

from longshore.contract.executor import Limits
from longshore.engine.policy.retry import RetryRules
from longshore.engine.schedule.lanes import Lanes
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.model.event import Ended, Event, Started, Submitted, decode_events
from longshore.model.json_lines import encode_line
from longshore.model.states import Cause
from longshore.model.tasks import Adjacency
from longshore.runstate.apply_events import apply_event, apply_events
from longshore.runstate.run_state import JobCode, RunState

_MEMBERS = 64
_BLOCK_B: Final = 1 << 16
"""Bytes of the journal that are read together, as an engine reads them."""


class Figures(NamedTuple):
    """Figures of one simulation."""

    jobs: int
    events: int
    graph_s: float
    run_s: float
    memory_mb: float


class Simulation:
    """A run with its journal, and a manager that is a queue of ends.

    Parameters
    ----------
    parents
        Per job.
    slots
        Jobs that run at once.
    failures
        Share of attempts that fail.
    """

    def __init__(self, parents: Adjacency, *, slots: int, failures: float) -> None:
        self.parents = parents
        self.slots = slots
        self.failures = failures
        self.dice = Random(0)
        self.journal = tempfile.TemporaryFile(buffering=_BLOCK_B)  # noqa: SIM115 - closed with the object
        self.events = 0
        self.ends: list[tuple[float, int, int]] = []
        self.now = 0.0
        self.successes = bytearray(len(parents))
        self.begin()

    def begin(self) -> None:
        """Start an engine: replay the journal."""
        self.state = RunState(self.parents, bytes(len(self.parents)))
        apply_events(self.state, self.read_journal())
        self.scheduler = Scheduler(
            self.state,
            [SchedulerProfile(rules=RetryRules(retries=20))],
            bytes(len(self.parents)),
            lanes=Lanes(Pool({"cpus": self.slots})),
            limits=Limits(max_batch=_MEMBERS),
            tag=f"s{self.events}",
        )

    def read_journal(self) -> Iterator[Event]:
        """Yield all events, and stay behind the last one."""
        self.journal.seek(0)
        rest = b""
        while piece := self.journal.read(_BLOCK_B):
            cut = piece.rfind(b"\n") + 1
            yield from decode_events(rest + piece[:cut], path="journal")
            rest = piece[cut:]

    def note(self, event: Event) -> None:
        """Append an event to the journal and apply it."""
        event = msgspec.structs.replace(event, n=self.events, t=self.now)
        self.journal.write(encode_line(event))
        self.events += 1
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
                # A dead engine's memory is free before the next one begins.
                del self.state, self.scheduler
                self.begin()


def simulate(size: int, slots: int, failures: float, lives: int) -> Figures:
    """Run the simulation, and check that each job succeeded exactly once."""
    began = time.process_time()
    gc.disable()
    parents = Adjacency([parents_of(job) for job in range(size)])
    gc.freeze()
    gc.enable()
    built = time.process_time()
    simulation = Simulation(parents, slots=slots, failures=failures)
    simulation.run(lives)
    took = time.process_time() - built
    if simulation.successes != b"\1" * size:
        raise SystemExit("a job did not succeed exactly once")
    return Figures(size, simulation.events, built - began, took, peak_mb() or 0.0)


def main() -> None:
    """Print one line per size, and how the figures grow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", type=int, default=SIZES)
    parser.add_argument("--lives", type=int, default=4)
    parser.add_argument("--failures", type=float, default=0.05)
    parser.add_argument("--slots", type=int, default=1000)
    options = parser.parse_args()
    print(f"{options.failures:.0%} failures, {options.lives - 1} restarts, {options.slots} slots")
    print("     jobs     events  graph s    run s  us/event  peak MB")
    rows: list[Figures] = []
    for jobs in options.jobs:
        row = run_apart(simulate, jobs, options.slots, options.failures, options.lives)
        rows.append(row)
        print(
            f"{row.jobs:>9,} {row.events:>10,} {row.graph_s:>8.2f} {row.run_s:>8.2f} "
            f"{row.run_s / row.events * 1e6:>9.1f} {row.memory_mb:>8.0f}",
            flush=True,
        )
    sizes = [row.jobs for row in rows]
    print(describe_growth("run s", sizes, [row.run_s for row in rows]))
    print(describe_growth("peak MB", sizes, [row.memory_mb for row in rows]))
    note_growth("simulated run, jobs", sizes, [row.run_s for row in rows], [row.memory_mb for row in rows])


if __name__ == "__main__":
    main()
