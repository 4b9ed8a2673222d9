"""Sends notices side by side: no rule waits for another one, and the notices of one rule keep their order."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

import msgspec

from longshore.app.notices.deliver import DeliveryError, RunningCommands, deliver
from longshore.model.notice import Notice, NoticeRule

_MAX_WAIT_S: Final = 3600.0
"""Longest wait in one call of a queue: it takes no infinite one."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A notice that is sent by a rule; commands start in `folder`.

    Attributes
    ----------
    life
        Number of what drove the run when the notice fell due.
    why
        Why it was not sent; empty if it was, or is not sent yet.
    """

    rule: NoticeRule
    notice: Notice
    folder: Path
    life: int = 0
    why: str = ""


class Deliveries:
    """Notices on their way, each rule's in a thread of its own.

    At the end of the context, commands that still run are killed with their children, and their notices count as not
    sent.
    """

    def __init__(self) -> None:
        self.open_number = 0
        """Number of notices whose result nobody has taken."""
        self._commands = RunningCommands()
        self._waiting: dict[str, SimpleQueue[Delivery]] = {}
        self._ended: SimpleQueue[Delivery] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._commands.kill()

    def add(self, delivery: Delivery) -> None:
        """Send a notice, after the earlier ones of its rule."""
        name = delivery.rule.name
        self.open_number += 1
        if name not in self._waiting:
            waiting: SimpleQueue[Delivery] = SimpleQueue()
            # A webhook that hangs must not keep the process from ending.
            thread = threading.Thread(target=self._send_all, args=(waiting,), daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # As many threads as the user may have run already.
                self._ended.put(msgspec.structs.replace(delivery, why=f"no thread for it: {error}"))
                return
            self._waiting[name] = waiting
        self._waiting[name].put(delivery)

    def take_ended(self, wait_s: float = math.inf) -> list[Delivery]:
        """Return notices with their results, in the order of their rules; wait up to `wait_s` for the first one."""
        ended: list[Delivery] = []
        deadline = time.monotonic() + wait_s
        while not ended and self.open_number:
            left_s = deadline - time.monotonic()
            try:
                ended.append(self._ended.get(timeout=max(0.0, min(left_s, _MAX_WAIT_S))))
            except Empty:
                if left_s <= _MAX_WAIT_S:
                    break
        while not self._ended.empty():
            ended.append(self._ended.get())
        self.open_number -= len(ended)
        return sorted(ended, key=lambda delivery: delivery.rule.name)

    def _send_all(self, waiting: SimpleQueue[Delivery]) -> None:
        while True:
            delivery = waiting.get()
            why = ""
            try:
                deliver(delivery.notice, delivery.rule, delivery.folder, self._commands)
            except DeliveryError as error:
                why = str(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other notices are sent
                # Its text may have an address.
                why = f"an error of Longshore itself: {type(error).__name__}"
            self._ended.put(msgspec.structs.replace(delivery, why=why))
