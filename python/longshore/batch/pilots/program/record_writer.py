"""Writer of a pilot's records: a file with a running checksum, and the length that is on the disk.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import threading
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "record_writer":
    from longshore.engine.keeper.kernel import system
else:
    # The copy finds only the standard library and the modules beside it.
    from kernel import system

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_MOST_B = 4 << 20
"""Most bytes that are written at once."""


class RecordWriter:
    """The file of records. One thread adds records, and another one writes them.

    Raises `FileExistsError` if the file is there: a scheduler may start an allocation twice.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = system.open(path, _FLAGS, 0o644)
        self._is_named = False
        """Whether its name in the folder is certainly on the disk."""
        self._lock = threading.Lock()
        self._unwritten = bytearray()
        self._crc = 0
        self.added = 0
        """Bytes of all records so far."""
        self.durable = 0
        """Bytes of them that are on the disk."""

    def add(self, record: dict[str, object]) -> int:
        """Add a record; return how many bytes are durable once it is."""
        return self.take(json.dumps(record, separators=(",", ":")).encode())

    def take(self, record: bytes) -> int:
        """Add a record that is JSON already; return how many bytes are durable once it is."""
        payload = record[:-1]
        crc = crc32(payload, self._crc)
        tail = b',"c":"%08x"}\n' % crc
        self._crc = crc32(tail, crc)
        with self._lock:
            self._unwritten += payload
            self._unwritten += tail
            self.added += len(payload) + len(tail)
            return self.added

    def write(self) -> bool:
        """Write what was added, and wait until the disk has it; return whether there was something.

        Raises `OSError` if that fails. Then all of it is written again in its place: of what a failed synchronisation
        left behind, nothing is known.
        """
        with self._lock:
            text = bytes(self._unwritten[:_MOST_B])
        if not text:
            return False
        try:
            written = 0
            while written < len(text):
                written += system.pwrite(self._file, text[written:], self.durable + written)
            system.fsync(self._file)
            if not self._is_named:
                self._sync_folder()
        except OSError:
            self._open_again()
            raise
        with self._lock:
            del self._unwritten[: len(text)]
            self.durable += len(text)
        return True

    def _sync_folder(self) -> None:
        """Wait until the name of the file is on the disk: without it, a loss of power takes the content as well."""
        folder = system.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            system.fsync(folder)
        finally:
            system.close(folder)
        self._is_named = True

    def _open_again(self) -> None:
        """Open the file again: a file server that came back may not know the old descriptor."""
        try:
            file = system.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        except OSError:
            return
        system.close(self._file)
        self._file = file
