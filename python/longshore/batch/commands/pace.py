"""How often a workload manager is asked: pace of calls, interval of queue queries, and commands that are repeated."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from longshore.config.quantities import parse_walltime
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.system.programs import BackgroundCall, ProgramResult
from longshore.system.sharing import seconds_since_boot

BURST: Final = 5
"""Calls of one program that may follow each other at once, after a pause."""


class CallPace:
    """At most one call of each program per `interval_s` seconds, beyond a burst of `BURST`.

    Each loop has an interval of its own. This bound holds for all of them together, so that a loop that misreads its
    answers cannot load the controller.
    """

    def __init__(
        self,
        interval_s: float,
        *,
        now: Callable[[], float] = seconds_since_boot,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_s = interval_s
        self._burst_s = (BURST - 1) * interval_s
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next_s: dict[str, float] = {}
        """Per program, when its next call is due without bursts."""

    def wait(self, program: str) -> None:
        """Wait for the turn of a call, and take it."""
        with self._lock:
            now = self._now()
            next_s = max(self._next_s.get(program, now), now)
            self._next_s[program] = next_s + self._interval_s
        if (wait_s := next_s - self._burst_s - now) > 0.0:
            self._sleep(wait_s)


# The queue's interval is short while there is news, grows without news, and is never below a floor.


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


# Commands run in the background, each until it succeeds or is not wanted. A success is not proof: a command that is
# wanted all the same, some time later, is run again.


LOG: Final = logging.getLogger("longshore.batch")

_RETRY_S: Final = 10.0
"""Pause after a failed command."""
CONFIRM_S: Final = 30.0
"""Time after which a command that succeeded must have had its effect: schedulers let jobs end by themselves first."""


class PendingCommand(msgspec.Struct, frozen=True):
    """A command to the workload manager.

    `run` returns the failed answer, or ``None``. `is_wanted` says whether the command, or its retry, is still needed.
    """

    run: Callable[[], ProgramResult | None]
    is_wanted: Callable[[], bool]


class PendingCommands:
    """The pending commands."""

    def __init__(self) -> None:
        self._queue: list[PendingCommand] = []
        self._call: BackgroundCall[ProgramResult | None] = BackgroundCall()
        self._current: PendingCommand | None = None
        self._retry_at = 0.0
        self._unconfirmed: list[tuple[float, PendingCommand]] = []
        """Commands that succeeded, each with the time by which it must not be wanted any more."""

    def add(self, command: PendingCommand, *, first: bool = False) -> None:
        """Add a command; an urgent one goes first."""
        self._queue.insert(0 if first else len(self._queue), command)

    def run_next(self, now: float, *, timeout_s: float = 0.0) -> None:
        """Make progress, at a moment `now` (seconds since boot); waits for an answer up to `timeout_s`."""
        self._start_next(now)
        for failed in self._call.take_result(timeout_s=timeout_s):
            command, self._current = self._current, None
            if command is not None and failed is None:
                self._unconfirmed.append((now + CONFIRM_S, command))
            if failed is not None and command is not None:
                LOG.warning("%s: %s", failed.argv[0], failed.why)
                self._retry_at = now + _RETRY_S
                self._queue.append(command)
        self._start_next(now)

    def is_pending(self, command: PendingCommand) -> bool:
        """Whether a command has not succeeded yet, or has to be run again."""
        return command is self._current or any(each is command for each in self._queue)

    def _start_next(self, now: float) -> None:
        self._unconfirmed = [(due, command) for due, command in self._unconfirmed if command.is_wanted()]
        self._queue += [command for due, command in self._unconfirmed if now >= due]
        self._unconfirmed = [(due, command) for due, command in self._unconfirmed if now < due]
        self._queue = [command for command in self._queue if command.is_wanted()]
        if self._queue and not self._call.is_busy and now >= self._retry_at:
            self._current = self._queue.pop(0)
            self._call.start(self._current.run)
