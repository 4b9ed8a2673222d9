"""How often a cluster is asked: often while there is news, ever less often while there is none; never below a floor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from longshore.config.values.quantities import walltime
from longshore.errors import ConfigError

FLOOR_S: Final = 2.0
CEILING_S: Final = 60.0
_SLOWER: Final = 1.5
"""By how much the interval grows with each answer that says nothing new."""

_SILENT_S: Final = 15.0
"""Longest interval while nobody answers, so that it is soon known when somebody does again."""


class Pace:
    """When the queue is asked next, in seconds since boot.

    Parameters
    ----------
    floor_s
        Least time between two questions.
    ceiling_s
        The most.
    """

    def __init__(self, floor_s: float = FLOOR_S, ceiling_s: float = CEILING_S) -> None:
        self.floor_s = floor_s
        self.ceiling_s = max(ceiling_s, floor_s)
        self.interval_s = floor_s
        self.asked_at = -1e9
        """When the newest answer was asked for."""
        self.wanted_since = 0.0
        """A question put before this moment does not answer what we want to know now."""
        self.silence = ""
        """Why the newest question was not answered; meanwhile, nothing else is asked of the controller either."""

    def due(self, now: float) -> bool:
        """Whether it is time to ask."""
        return now - self.asked_at >= self.interval_s

    def hurry(self) -> None:
        """Ask as often as may be: something happens."""
        if not self.silence:
            self.interval_s = self.floor_s

    def want(self, now: float) -> None:
        """Ask as soon as may be, and take no answer to what was asked before now."""
        self.wanted_since = max(self.wanted_since, now)
        self.hurry()

    def answered(self, asked_at: float) -> None:
        """Take note of an answer."""
        if self.silence:
            self.interval_s = self.floor_s
        self.silence = ""
        self.asked_at = asked_at
        self.interval_s = min(self.interval_s * _SLOWER, self.ceiling_s)

    def silent(self, now: float, why: str) -> None:
        """Take note that there was no answer: it is asked again at leisure, for nothing follows from silence."""
        self.silence = why
        self.asked_at = now
        self.interval_s = min(self.interval_s * _SLOWER, max(_SILENT_S, self.floor_s), self.ceiling_s)


def pace_of(slurm: Mapping[str, Any], floor_s: float = 0.0) -> Pace:
    """The pace that a site's map asks for.

    Parameters
    ----------
    slurm
        The map: ``pollInterval`` and ``pollCeiling``.
    floor_s
        Below what the site lets nobody go.

    Raises
    ------
    ConfigError
        One of them is no time.
    """
    least = _seconds(slurm, "pollInterval", FLOOR_S)
    most = _seconds(slurm, "pollCeiling", CEILING_S)
    if most < least and slurm.get("pollCeiling") is not None:
        raise ConfigError(
            f"'slurm.pollCeiling' ({slurm['pollCeiling']}) is below 'slurm.pollInterval' ({least:g} s)",
            hint="Slurm is asked at most once in the one, and at least once in the other.",
        )
    return Pace(max(floor_s, least), most)


def _seconds(slurm: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = slurm.get(name)
    seconds = otherwise if value is None else walltime(value, f"slurm.{name}")
    if seconds <= 0:
        raise ConfigError(
            f"'slurm.{name}' must be a time above 0, not '{value}'", hint=f"The default is {otherwise:g}."
        )
    return seconds
