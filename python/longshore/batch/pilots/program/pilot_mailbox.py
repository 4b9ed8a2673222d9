"""Mailbox of a pilot on the shared file system: a thread that reads orders and writes records.

Only this thread touches these files, because a file server that does not answer stops whoever does.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import os
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "pilot_mailbox":
    from longshore.batch.pilots.program.order_reader import OrderReader
    from longshore.batch.pilots.program.pilot_system import seconds_since_boot, system
    from longshore.batch.pilots.program.record_writer import RecordWriter
else:
    # The copy finds only the standard library and the modules beside it.
    from order_reader import OrderReader
    from pilot_system import seconds_since_boot, system
    from record_writer import RecordWriter

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 0.05
"""Time between two looks for orders right after one."""
_SLOWEST_LOOK_S = 0.5
_SLOWER = 1.2
"""Factor by which that time grows with each look that finds nothing."""


class Mailbox:
    """Orders and records of one node.

    `wake` is called from the thread when there are orders, or records became durable.
    """

    def __init__(self, folder: str, wake: Callable[[], None]) -> None:
        self.orders = OrderReader(folder)
        self.records = RecordWriter(os.path.join(folder, "records"))
        self.wake = wake
        self.inbox: deque[tuple[list[bytes], list[tuple[int, int, int]], int]] = deque()
        """New orders, changes of their files, and bytes taken of the newest file."""
        self.durable_at = seconds_since_boot()
        """When the newest record became durable, or none was missing."""
        self.write_s = 0.0
        """Seconds that it takes lately until records are durable."""
        self._has_records = system.make_event()
        self._is_over = False
        self._has_ended = system.make_event()

    def start(self) -> None:
        """Begin to read and write."""
        system.start_thread(self._run)

    def send(self) -> None:
        """Write at once what was added to the records."""
        self._has_records.set()

    def finish(self, timeout_s: float) -> bool:
        """Write the last records, and end; return whether all are durable by then."""
        self._is_over = True
        self._has_records.set()
        self._has_ended.wait(timeout_s)
        return self.records.durable == self.records.added

    def _run(self) -> None:
        pause_s = _LOOK_S
        while True:
            is_over = self._is_over
            has_written = self._write()
            has_read = not is_over and self._read()
            if is_over and self.records.durable == self.records.added:
                self._has_ended.set()
                return
            if has_written or has_read:
                self.wake()
            pause_s = _LOOK_S if has_read else min(pause_s * _SLOWER, _SLOWEST_LOOK_S)
            if self._has_records.wait(pause_s):
                self._has_records.clear()

    def _write(self) -> bool:
        began_s = seconds_since_boot()
        try:
            has_written = self.records.write()
        except OSError:
            # Written again with the next look. The pilot ends if that goes on.
            system.sleep(_LOOK_S)
            return False
        self.durable_at = seconds_since_boot()
        if has_written:
            self.write_s = (self.write_s + self.durable_at - began_s) / 2
        return has_written

    def _read(self) -> bool:
        try:
            orders, changes = self.orders.read()
        except OSError:
            return False
        if orders or changes:
            self.inbox.append((orders, changes, self.orders.offset))
        return bool(orders or changes)
