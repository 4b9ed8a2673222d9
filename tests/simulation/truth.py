"""What really happened in a history: starts and ends of attempts, seen from outside of all simulated processes."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from tests.simulation.universe import Universe

from longshore.contract.executor import AttemptId


class AttemptEnd(msgspec.Struct, frozen=True):
    """How an attempt really ended, and whether anybody could know."""

    at_s: float
    succeeded: bool
    is_knowable: bool


class Truth:
    """Starts and ends by attempt; times are those of the clock that never jumps."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self.starts: dict[AttemptId, list[float]] = defaultdict(list)
        self.ends: dict[AttemptId, AttemptEnd] = {}
        self.broken: list[str] = []
        """Promises that were seen to be broken at once."""
        self.accepted_s: float | None = None
        """When a user accepted the loss of damaged records."""

    def record_start(self, attempt: AttemptId) -> None:
        """Record that an attempt starts."""
        self._universe.note(f"START job {attempt[0]} attempt {attempt[1]}")
        self.starts[attempt].append(self._universe.elapsed_s)
        # After an accepted loss, numbers of lost attempts come again.
        self.ends.pop(attempt, None)
        running = [each for each in self.running() if each[0] == attempt[0] and each != attempt]
        if running:
            self.broken.append(f"job {attempt[0]}: attempt {attempt[1]} starts while {running} still runs")

    def record_end(self, attempt: AttemptId, *, succeeded: bool, is_knowable: bool = True) -> None:
        """Record that an attempt ends."""
        self._universe.note(f"END job {attempt[0]} attempt {attempt[1]}: {'success' if succeeded else 'failure'}")
        self.ends.setdefault(attempt, AttemptEnd(self._universe.elapsed_s, succeeded, is_knowable))

    def running(self) -> set[AttemptId]:
        """Return the attempts that run at this moment."""
        return self.starts.keys() - self.ends.keys()
