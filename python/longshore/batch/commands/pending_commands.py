"""Queue of commands that run in the background, each retried until it succeeds or is not wanted.

A success is not proof: a command that is wanted all the same, some time later, is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from longshore.system.programs import BackgroundCall, ProgramResult

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
