"""Poll interval of a cluster: short while there is news, growing without news, never below a floor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longshore.config.quantities import parse_walltime
from longshore.errors import ConfigError
from longshore.model.values import YamlValue

FLOOR_S: Final = 2.0
CEILING_S: Final = 60.0
_INTERVAL_GROWTH: Final = 1.5
"""Factor by which the interval grows with each answer without news."""

_FAILURE_CEILING_S: Final = 15.0
"""Longest interval while the controller does not answer, so that its return is noticed soon."""


class PollSchedule:
    """Schedule of queue queries; `floor_s` and `ceiling_s` bound the interval, times are seconds since boot."""

    def __init__(self, floor_s: float = FLOOR_S, ceiling_s: float = CEILING_S) -> None:
        self.floor_s = floor_s
        self.ceiling_s = max(ceiling_s, floor_s)
        self.interval_s = floor_s
        self.queried_at = -1e9
        """When the newest answer was requested."""
        self.not_before = 0.0
        """Answers to queries before this moment are too old."""
        self.failure = ""
        """Why the newest query failed; until it is cleared, the controller gets no other queries."""

    def is_due(self, now: float) -> bool:
        """Whether the next query is due."""
        return now - self.queried_at >= self.interval_s

    def reset_interval(self) -> None:
        """Use the shortest interval, because something happens."""
        if not self.failure:
            self.interval_s = self.floor_s

    def request_query(self, now: float) -> None:
        """Query as soon as allowed, and reject answers to earlier queries."""
        self.not_before = max(self.not_before, now)
        self.reset_interval()

    def record_answer(self, queried_at: float) -> None:
        """Record an answer."""
        if self.failure:
            self.interval_s = self.floor_s
        self.failure = ""
        self.queried_at = queried_at
        self.interval_s = min(self.interval_s * _INTERVAL_GROWTH, self.ceiling_s)

    def record_failure(self, now: float, why: str) -> None:
        """Record a failed query: the interval grows, because silence says nothing about jobs."""
        self.failure = why
        self.queried_at = now
        self.interval_s = min(self.interval_s * _INTERVAL_GROWTH, max(_FAILURE_CEILING_S, self.floor_s), self.ceiling_s)


def poll_schedule(service: str, own: Mapping[str, YamlValue], floor_s: float = 0.0) -> PollSchedule:
    """Make the schedule from a service's map (``pollInterval``, ``pollCeiling``), never below the site's floor.

    Raises `ConfigError` when a value is no time.
    """
    interval_s = _seconds(service, own, "pollInterval", FLOOR_S)
    ceiling_s = _seconds(service, own, "pollCeiling", CEILING_S)
    if ceiling_s < interval_s and own.get("pollCeiling") is not None:
        raise ConfigError(
            f"'{service}.pollCeiling' ({own['pollCeiling']}) is below '{service}.pollInterval' ({interval_s:g} s)",
            hint="The queue is queried at most once per 'pollInterval', and at least once per 'pollCeiling'.",
        )
    return PollSchedule(max(floor_s, interval_s), ceiling_s)


def _seconds(service: str, own: Mapping[str, YamlValue], name: str, default_s: float) -> float:
    value = own.get(name)
    seconds = default_s if value is None else parse_walltime(value, f"{service}.{name}")
    if seconds <= 0:
        raise ConfigError(
            f"'{service}.{name}' must be a time above 0, not '{value}'", hint=f"The default is {default_s:g}."
        )
    return seconds
