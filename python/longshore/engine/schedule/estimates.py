"""Estimates of a run's course: run times of jobs, the rest of the run, and how urgent batches are by these; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from longshore.contract.executor import Urgency
from longshore.model.measurements import update_mean
from longshore.runstate.run_state import JobCode, RunState

# The rest of a run, for the engine's priorities; a report has a range (`longshore.reports.time_left`).


_MIN_PART: Final = 16
"""Smallest change of an estimate worth reporting, as a part of the time that is left."""


class LabelWork(msgspec.Struct, frozen=True, kw_only=True):
    """Remaining work of one label.

    Attributes
    ----------
    open
        Jobs that are not over, including running ones.
    running
        Running jobs.
    elapsed_s
        Seconds that the running jobs have run, summed.
    cpus
        Processors of a job.
    run_s
        Expected run time of a job.
    """

    open: int
    running: int = 0
    elapsed_s: float = 0.0
    cpus: float = 1.0
    run_s: float


def estimate_rest_s(work: Iterable[LabelWork], cpus: float) -> float:
    """Return the seconds until a run is over that only resources limit: dependencies between jobs are left out.

    Parameters
    ----------
    work
        Remaining work per label.
    cpus
        Processors its jobs can have at once, or had on average.
    """
    total = longest = 0.0
    for label in work:
        if label.open <= 0:
            continue
        waiting = label.open - label.running
        left = waiting * label.run_s + max(0.0, label.running * label.run_s - label.elapsed_s)
        total += left * max(1.0, label.cpus)
        # However many processors there are, no job takes less than its own time.
        longest = max(longest, label.run_s if waiting else left / max(1, label.running))
    return max(total / (cpus if cpus > 0.0 else 1.0), longest)


def is_relevant_change(reported: float | None, newest: float, *, at: float) -> bool:
    """Return whether a new estimate of the end differs from the reported one by enough to report it.

    Both are times on one clock, which now shows `at`; ``None`` means that none was reported.
    """
    return reported is None or abs(newest - reported) * _MIN_PART > abs(newest - at)


# Run times: from a job's last success, else its label's mean, else a guess.


GUESS_S: Final = 1.0
"""Expected run time of all jobs while none is known; then pressure is the number of jobs in a chain."""
_MIN_FACTOR: Final = 1.1
"""Factor by which a mean must have moved before the queue is reordered."""
_MIN_SUCCESSES: Final = 64
"""Fewest successes between two checks, in a run that is large enough for the checks to cost anything."""


class RuntimeEstimates:
    """Expected run time of every job of a run, updated from its successes.

    Parameters
    ----------
    label_of
        Index of the label per job.
    means
        Mean run time in seconds, and its weight, per label; the weight is 0 where no success is known.
    last_s
        Seconds that a job took when it last succeeded, per job with a known success.
    """

    def __init__(
        self,
        label_of: Sequence[int],
        means: Sequence[tuple[float, int]] = (),
        last_s: Mapping[int, float] | None = None,
    ) -> None:
        self._label_of = label_of
        count = max(label_of, default=-1) + 1
        self._mean = [mean for mean, _ in means] or [0.0] * count
        self._weight = [weight for _, weight in means] or [0] * count
        self._last_s = dict(last_s or {})
        self._successes = 0
        self._next_check = 1
        self._applied: list[float] = []
        self.apply()

    def label_s(self, label: int) -> float:
        """Return the expected run time of a label's jobs, in seconds."""
        if self._weight[label]:
            return self._mean[label]
        known = [mean for mean, weight in zip(self._mean, self._weight, strict=True) if weight]
        return sum(known) / len(known) if known else GUESS_S

    def expected_s(self, job: int) -> float:
        """Return the expected run time of a job as of the last `apply`, in seconds."""
        last = self._last_s.get(job)
        return self._applied[self._label_of[job]] if last is None else last

    def all_expected_s(self) -> Sequence[float]:
        """Return the expected run time of every job, as `expected_s` does."""
        applied = self._applied
        expected_s = [applied[label] for label in self._label_of]
        for job, last_s in self._last_s.items():
            expected_s[job] = last_s
        return expected_s

    def learn(self, job: int, run_s: float) -> None:
        """Learn the run time of a success; failures teach nothing."""
        label = self._label_of[job]
        self._mean[label], self._weight[label] = update_mean(self._mean[label], self._weight[label], run_s)
        self._successes += 1

    def has_changed(self) -> bool:
        """Return whether some label's mean has moved by so much that the queue should be reordered.

        Checks get rarer as a run goes on: their total cost stays a small part of the cost of the run.
        """
        if self._successes < self._next_check:
            return False
        step = max(_MIN_SUCCESSES, len(self._label_of) // 16)
        self._next_check = self._successes + min(step, 3 * self._successes)
        return any(
            max(newest, applied) > _MIN_FACTOR * min(newest, applied)
            for newest, applied in ((self.label_s(label), self._applied[label]) for label in range(len(self._applied)))
        )

    def apply(self) -> None:
        """Expect from here on the run times learnt up to now."""
        self._applied = [self.label_s(label) for label in range(len(self._mean))]


# Urgencies of batches, and which waiting ones to reprioritise at the workload manager.


_MIN_CHANGE: Final = 0.1
"""Smallest change worth sending, as a part of the pressure last sent."""
_INTERVAL_S: Final = 30.0
"""Least time between two reprioritisations: each costs the manager more than a query."""
_MAX_CHANGES: Final = 100
"""Most batches in one reprioritisation; those that moved most go first."""


class BatchUrgencies:
    """Urgency of each batch, as last sent to the manager.

    Parameters
    ----------
    state
        The state of the run.
    pressure_of
        Expected seconds of the longest chain that begins with a job.
    rest_s
        Expected seconds to the end of the run.
    """

    def __init__(self, state: RunState, pressure_of: Callable[[int], float], rest_s: Callable[[], float]) -> None:
        self._state = state
        self._pressure_of = pressure_of
        self._rest_s = rest_s
        self._sent: dict[str, float] = {}
        self._compared_at = -_INTERVAL_S

    def urgency_of(self, batch: str, jobs: Iterable[int], now: float) -> Urgency:
        """Return the urgency of a batch that is submitted at this moment (seconds since the epoch)."""
        pressure = max(map(self._pressure_of, jobs))
        self._sent[batch] = pressure
        return Urgency(pressure_s=pressure, end_at=now + max(pressure, self._estimate_rest_s()))

    def _estimate_rest_s(self) -> float:
        """Return the seconds until the run is over: at least the longest chain that begins with an active job."""
        return max(self._rest_s(), max(map(self._pressure_of, self._state.active), default=0.0))

    def find_changes(self, elapsed: float, now: float) -> Mapping[str, Urgency]:
        """Return the batches to reprioritise; empty until the least time between two changes is over.

        Parameters
        ----------
        elapsed
            Seconds on the monotonic clock.
        now
            This moment, in seconds since the epoch.
        """
        if elapsed - self._compared_at < _INTERVAL_S:
            return {}
        self._compared_at = elapsed
        pressures = self._pressures()
        # Pressures sent by an earlier life are unknown; they are taken to have been the same.
        self._sent = {batch: self._sent.get(batch, pressure) for batch, pressure in pressures.items()}
        changes = {
            batch: abs(pressure - self._sent[batch]) / max(self._sent[batch], 1e-9)
            for batch, pressure in pressures.items()
        }
        changed = sorted(
            (batch for batch, change in changes.items() if change > _MIN_CHANGE), key=lambda b: (-changes[b], b)
        )
        if not changed:
            return {}
        rest_s = self._estimate_rest_s()
        urgencies = {}
        for batch in changed[:_MAX_CHANGES]:
            self._sent[batch] = pressures[batch]
            urgencies[batch] = Urgency(pressure_s=pressures[batch], end_at=now + max(rest_s, pressures[batch]))
        return urgencies

    def _pressures(self) -> dict[str, float]:
        """Return the largest pressure among the waiting members of each batch."""
        pressures: dict[str, float] = {}
        code = self._state.code
        for job, batch in self._state.active.items():
            if code[job] == JobCode.PENDING:
                pressures[batch] = max(pressures.get(batch, 0.0), self._pressure_of(job))
        return pressures
