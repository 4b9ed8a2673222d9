"""Reader of the orders for a pilot: files with a running checksum, one per life of the engine.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import os
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "order_reader":
    from longshore.engine.keeper.kernel import system
else:
    # The copy finds only the standard library and the modules beside it.
    from kernel import system

_CHECKSUM_LENGTH = len(',"c":"00000000"}')
_BLOCK_B = 1 << 20


class OrderReader:
    """The orders of a mailbox, in sequence, each once.

    The pilot follows one file at a time. Once the next one is there, it reads the older one to its end as it is then,
    and leaves it for good.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.generation = 0
        """Number of the file that is read; 0 before the first."""
        self.offset = 0
        """Bytes of it that were taken."""
        self._crc = 0

    def read(self) -> tuple[list[bytes], list[tuple[int, int, int]]]:
        """Return the new orders, and the changes of files: new number, old number, bytes taken of the old one.

        Orders of several files do not mix: a change is returned with the orders of the older file alone. Raises
        `OSError` if a file cannot be read.
        """
        orders = self._read_file()
        try:
            system.close(system.open(self._path(self.generation + 1), os.O_RDONLY))
        except FileNotFoundError:
            return orders, []
        if self.generation:
            # What was appended before the next file was made.
            orders += self._read_file()
        change = (self.generation + 1, self.generation, self.offset)
        self.generation, self.offset, self._crc = self.generation + 1, 0, 0
        return orders, [change]

    def _path(self, generation: int) -> str:
        return os.path.join(self.folder, "orders.%d" % generation)

    def _read_file(self) -> list[bytes]:
        """Read the whole lines that are new, up to the first whose checksum does not match."""
        if not self.generation:
            return []
        # Opened anew, because only then does a network file system look whether the file has grown.
        file = system.open(self._path(self.generation), os.O_RDONLY)
        try:
            text = bytearray()
            while block := system.pread(file, _BLOCK_B, self.offset + len(text)):
                text += block
        finally:
            system.close(file)
        orders = []
        for line in bytes(text).split(b"\n")[:-1]:
            order = self._check(line)
            if order is None:
                # It may be shown before its data are there: later it is read again.
                break
            orders.append(order)
            self.offset += len(line) + 1
        return orders

    def _check(self, line: bytes) -> bytes | None:
        """Return a line without its checksum; ``None`` if that does not match."""
        payload, tail = line[:-_CHECKSUM_LENGTH], line[-_CHECKSUM_LENGTH:]
        crc = crc32(payload, self._crc)
        if tail != b',"c":"%08x"}' % crc:
            return None
        self._crc = crc32(tail + b"\n", crc)
        return payload + b"}"
