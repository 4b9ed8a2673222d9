"""Expected run times of a label's jobs, from ended and running jobs and earlier runs (pure)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from statistics import NormalDist
from typing import Final

_UNKNOWN_SPREAD: Final = 1.0
"""Standard deviation of the logarithm of a label's run times where only other labels are known, beside `UNSEEN`."""
UNSEEN: Final = (-1.5, 1.8)
"""Mean and standard deviation of the logarithm of a factor that all labels without a run time share: often the long
jobs come first, and what follows gathers their results."""
_SMALL_SPREAD: Final = 0.35
"""The same of a label's mean where one run time is known; it falls with the square root of their number."""
_LEAST_SPREAD: Final = 0.03
_BEYOND: Final = 0.4
"""Spread of what jobs still need that run longer than any that ended."""
_MEAN_BEYOND: Final = 2 * math.exp(_BEYOND**2 / 2) * NormalDist().cdf(_BEYOND)
"""Mean of `_draw_beyond`: that of exp(abs(x)), where x is normal with this spread."""
_RECENT: Final = 500
"""Ended jobs of a label that count: the newest say most."""
_TRIES: Final = 8


class LabelRunTimes:
    """Distribution of the run times of a label's jobs.

    Jobs that still run are censored values: without them, the first jobs to end would make all look short
    (estimator of Kaplan and Meier).

    Parameters
    ----------
    ended
        Run times in this run, in order of their ends.
    running
        Run times so far of running jobs.
    earlier
        Number of jobs per run time in milliseconds in earlier runs.
    fallback_s
        Typical run time of other labels, where nothing is known of this one.
    """

    def __init__(
        self,
        ended: Sequence[float],
        running: Sequence[float] = (),
        earlier: Mapping[int, float] | None = None,
        *,
        fallback_s: float = 1.0,
    ) -> None:
        recent = sorted(ended[-_RECENT:])
        self.known = len(recent)
        self._longest_running = max(running, default=0.0)
        values, weights = _survival_weights(recent, sorted(running))
        self._beyond = max(0.0, 1.0 - sum(weights)) if recent else 0.0
        counted = sum((earlier or {}).values())
        self.is_seen = bool(recent or counted)
        self._spread = _SMALL_SPREAD
        if not recent:
            self._spread = _SMALL_SPREAD / 2 if counted else _UNKNOWN_SPREAD
        if counted and self.known < _RECENT:
            # As if ten jobs of earlier runs had run in this one, at most.
            share = min(counted, 10.0) / (min(counted, 10.0) + self.known)
            weights = [weight * (1 - share) for weight in weights]
            self._beyond *= 1 - share
            for run_ms, number in (earlier or {}).items():
                values.append(run_ms / 1000)
                weights.append(share * number / counted)
        self._values = values or [max(fallback_s, self._longest_running)]
        self._sums = list(accumulate(weights)) or [1.0]
        self._effective = max(1.0, self.known + min(counted, 10.0))
        self.mean_s = self._mean(weights)

    def _mean(self, weights: Sequence[float]) -> float:
        total = sum(value * weight for value, weight in zip(self._values, weights or [1.0], strict=True))
        return total + self._beyond * self._longest_running * _MEAN_BEYOND

    def draw_scale(self, dice: Random, unseen: float) -> float:
        """Return a factor for all jobs of the label in one simulated course: how well their mean is known.

        `unseen` is the factor of this course for labels without a run time.
        """
        factor = math.exp(dice.gauss(0.0, max(_LEAST_SPREAD, self._spread / math.sqrt(self._effective))))
        return factor if self.is_seen else factor * unseen

    def draw(self, dice: Random, scale: float, *, elapsed_s: float = 0.0) -> float:
        """Return the run time of one job that has run for `elapsed_s`."""
        for _ in range(_TRIES):
            drawn = self._draw_any(dice) * scale
            # One that has not begun may take no time at all.
            if drawn > elapsed_s or not elapsed_s:
                return drawn
        # It runs longer than is known of any.
        return elapsed_s * _draw_beyond(dice)

    def _draw_any(self, dice: Random) -> float:
        share = dice.random()
        place = bisect_right(self._sums, share)
        if place < len(self._values):
            return self._values[place]
        if self._beyond:
            return self._longest_running * _draw_beyond(dice)
        return self._values[-1]


def label_run_times(
    run_s: Sequence[Sequence[float]],
    running_s: Sequence[Sequence[float]],
    earlier_ms: Sequence[Mapping[int, float]] = (),
) -> list[LabelRunTimes]:
    """Return the distribution of each label's run times, from those of ended, running and earlier jobs per label."""
    typical = typical_run_time(run_s)
    return [
        LabelRunTimes(ended, running, earlier, fallback_s=typical)
        for ended, running, earlier in zip(run_s, running_s, earlier_ms or [{}] * len(run_s), strict=True)
    ]


def typical_run_time(run_s: Sequence[Sequence[float]]) -> float:
    """Return the geometric mean of the labels' medians; 1 where no run time is known."""
    medians = [sorted(times[-_RECENT:])[len(times[-_RECENT:]) // 2] for times in run_s if times]
    return math.exp(sum(math.log(max(each, 1e-3)) for each in medians) / len(medians)) if medians else 1.0


def _draw_beyond(dice: Random) -> float:
    """Return the factor on the run time so far of a job that runs longer than any that ended."""
    return math.exp(abs(dice.gauss(0.0, _BEYOND)))


def _survival_weights(ended: Sequence[float], running: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the values of ended jobs, and the share of all jobs that takes each, ascending."""
    values, weights = [], []
    surviving = 1.0
    for place, value in enumerate(ended):
        # Jobs that took or will take at least as long.
        at_risk = len(ended) - place + len(running) - bisect_left(running, value)
        values.append(value)
        weights.append(surviving / at_risk)
        surviving -= surviving / at_risk
    return values, weights
