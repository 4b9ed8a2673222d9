"""Has orders to Slurm carried out one after another while the engine goes on, each until it is taken or not wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from longshore.world.processes.background_call import Aside
from longshore.world.processes.shell import Answer

LOG: Final = logging.getLogger("longshore.slurm")

_AGAIN_S: Final = 10.0
"""Pause after an order that was not taken."""


class Order(msgspec.Struct, frozen=True):
    """Something that Slurm is to do.

    Attributes
    ----------
    act
        Has it done; returns the answer that was none, or ``None``.
    wanted
        Whether it is to be done still, or once more where it was not taken.
    """

    act: Callable[[], Answer | None]
    wanted: Callable[[], bool]


class Orders:
    """The orders that are left."""

    def __init__(self) -> None:
        self._left: list[Order] = []
        self._acting: Aside[Answer | None] = Aside()
        self._under_way: Order | None = None
        self._again_at = 0.0

    def give(self, order: Order, *, first: bool = False) -> None:
        """Take an order, which comes before all others where it is urgent."""
        self._left.insert(0 if first else len(self._left), order)

    def turn(self, now: float, *, timeout_s: float = 0.0) -> None:
        """Go on with them.

        Parameters
        ----------
        now
            This moment, in seconds since boot.
        timeout_s
            How long an answer is waited for.
        """
        self._begin(now)
        for failed in self._acting.take(timeout_s=timeout_s):
            order, self._under_way = self._under_way, None
            if failed is not None and order is not None:
                LOG.warning("%s: %s", failed.argv[0], failed.why)
                self._again_at = now + _AGAIN_S
                self._left.append(order)
        self._begin(now)

    def has(self, order: Order) -> bool:
        """Whether an order is not carried out yet."""
        return order is self._under_way or any(each is order for each in self._left)

    def _begin(self, now: float) -> None:
        self._left = [order for order in self._left if order.wanted()]
        if self._left and not self._acting.busy and now >= self._again_at:
            self._under_way = self._left.pop(0)
            self._acting.ask(self._under_way.act)
