"""Queue of commands to Slurm that run in the background, each retried until it succeeds or is not wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from longshore.world.processes.background_call import BackgroundCall
from longshore.world.processes.shell import ProgramResult

LOG: Final = logging.getLogger("longshore.slurm")

_AGAIN_S: Final = 10.0
"""Pause after a failed command."""


class Order(msgspec.Struct, frozen=True):
    """A command to Slurm.

    `act` runs it and returns the failed answer, or ``None``. `wanted` says whether the command, or its retry, is still
    needed.
    """

    act: Callable[[], ProgramResult | None]
    wanted: Callable[[], bool]


class Orders:
    """The pending commands."""

    def __init__(self) -> None:
        self._left: list[Order] = []
        self._acting: BackgroundCall[ProgramResult | None] = BackgroundCall()
        self._under_way: Order | None = None
        self._again_at = 0.0

    def give(self, order: Order, *, first: bool = False) -> None:
        """Add a command; an urgent one goes first."""
        self._left.insert(0 if first else len(self._left), order)

    def turn(self, now: float, *, timeout_s: float = 0.0) -> None:
        """Make progress, at a moment `now` (seconds since boot); waits for an answer up to `timeout_s`."""
        self._begin(now)
        for failed in self._acting.take_result(timeout_s=timeout_s):
            order, self._under_way = self._under_way, None
            if failed is not None and order is not None:
                LOG.warning("%s: %s", failed.argv[0], failed.why)
                self._again_at = now + _AGAIN_S
                self._left.append(order)
        self._begin(now)

    def has(self, order: Order) -> bool:
        """Whether a command is still pending."""
        return order is self._under_way or any(each is order for each in self._left)

    def _begin(self, now: float) -> None:
        self._left = [order for order in self._left if order.wanted()]
        if self._left and not self._acting.is_busy and now >= self._again_at:
            self._under_way = self._left.pop(0)
            self._acting.start(self._under_way.act)
