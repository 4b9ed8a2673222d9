"""Poll interval of a cluster: short while there is news, growing without news, never below a floor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from longshore.config.values.quantities import parse_walltime
from longshore.errors import ConfigError

FLOOR_S: Final = 2.0
CEILING_S: Final = 60.0
_SLOWER: Final = 1.5
"""Factor by which the interval grows with each answer without news."""

_SILENT_S: Final = 15.0
"""Longest interval while the controller does not answer, so that its return is noticed soon."""


class Pace:
    """Schedule of queue queries; `floor_s` and `ceiling_s` bound the interval, times are seconds since boot."""

    def __init__(self, floor_s: float = FLOOR_S, ceiling_s: float = CEILING_S) -> None:
        self.floor_s = floor_s
        self.ceiling_s = max(ceiling_s, floor_s)
        self.interval_s = floor_s
        self.asked_at = -1e9
        """When the newest answer was requested."""
        self.wanted_since = 0.0
        """Answers to queries before this moment are too old."""
        self.silence = ""
        """Why the newest query failed; until it is cleared, the controller gets no other queries."""

    def due(self, now: float) -> bool:
        """Whether the next query is due."""
        return now - self.asked_at >= self.interval_s

    def hurry(self) -> None:
        """Use the shortest interval, because something happens."""
        if not self.silence:
            self.interval_s = self.floor_s

    def want(self, now: float) -> None:
        """Query as soon as allowed, and reject answers to earlier queries."""
        self.wanted_since = max(self.wanted_since, now)
        self.hurry()

    def answered(self, asked_at: float) -> None:
        """Record an answer."""
        if self.silence:
            self.interval_s = self.floor_s
        self.silence = ""
        self.asked_at = asked_at
        self.interval_s = min(self.interval_s * _SLOWER, self.ceiling_s)

    def silent(self, now: float, why: str) -> None:
        """Record a failed query: the interval grows, because silence says nothing about jobs."""
        self.silence = why
        self.asked_at = now
        self.interval_s = min(self.interval_s * _SLOWER, max(_SILENT_S, self.floor_s), self.ceiling_s)


def pace_of(slurm: Mapping[str, Any], floor_s: float = 0.0) -> Pace:
    """Make the schedule from a site's map (``pollInterval``, ``pollCeiling``), never below the site's floor.

    Raises `ConfigError` when a value is no time.
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
    seconds = otherwise if value is None else parse_walltime(value, f"slurm.{name}")
    if seconds <= 0:
        raise ConfigError(
            f"'slurm.{name}' must be a time above 0, not '{value}'", hint=f"The default is {otherwise:g}."
        )
    return seconds
