"""Record file of the keeper, which the engine reads, and the pipe that wakes the engine.

Each line ends with the member ``c``: the running CRC-32 of all bytes of the file before it, so that damage is found.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import fcntl
import json
import os
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "records":
    from longshore.engine.keeper.kernel import system
else:
    # The copy beside the keeper is not in a package.
    from kernel import system

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL | os.O_NOFOLLOW


class Records:
    """The record file; a full disk delays a record but never loses it."""

    def __init__(self, path: str) -> None:
        self.file = system.open(path, _FLAGS, 0o644)
        system.flock(self.file, fcntl.LOCK_EX)
        self.unwritten = bytearray()
        self.crc = 0
        """Running checksum of all lines so far, written or not."""
        self.has_news = False
        """Whether something was written since the engine was last woken."""

    def add(self, record: dict[str, object]) -> None:
        """Add a record; `flush` writes it."""
        self.take(json.dumps(record, separators=(",", ":")))

    def take(self, record: str) -> None:
        """Add a record that is JSON already."""
        payload = record[:-1].encode()
        crc = crc32(payload, self.crc)
        tail = b',"c":"%08x"}\n' % crc
        self.unwritten += payload + tail
        self.crc = crc32(tail, crc)

    def flush(self) -> bool:
        """Write all records; return false if a full disk keeps some back."""
        try:
            while self.unwritten:
                written = system.write(self.file, self.unwritten)
                del self.unwritten[:written]
                self.has_news = True
        except OSError:
            return False
        return True

    def wake(self) -> None:
        """Wake the engine to read the records."""
        self.has_news = False
        try:
            system.write(1, b"\n")
        except OSError:
            # The engine is gone, or has not read the earlier bytes yet: either way it reads the file when it looks.
            pass
