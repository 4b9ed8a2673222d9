"""Runtime estimates: expected run time of a job from its last success, else its label's mean, else a guess; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from longshore.model.measurements import update_mean

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
