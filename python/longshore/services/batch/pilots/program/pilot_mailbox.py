"""Mailbox of a pilot on the shared file system: files of orders and records with running checksums, and their thread.

Only this thread touches these files, because a file server that does not answer stops whoever does. There is a file
of orders for each life of the engine.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "pilot_mailbox":
    from longshore.keeper.program.kernel import system as files
    from longshore.services.batch.pilots.program.pilot_system import seconds_since_boot, system
else:
    # The copy finds only the standard library and the modules beside it.
    from kernel import system as files
    from pilot_system import seconds_since_boot, system

if TYPE_CHECKING:
    from collections.abc import Callable

_CHECKSUM_LENGTH = len(',"c":"00000000"}')
_BLOCK_B = 1 << 20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_MOST_B = 4 << 20
"""Most bytes that are written at once."""
_LOOK_S = 0.05
"""Time between two looks for orders right after one."""
_SLOWEST_LOOK_S = 0.5
_SLOWER = 1.2
"""Factor by which that time grows with each look that finds nothing."""


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
            files.close(files.open(self._path(self.generation + 1), os.O_RDONLY))
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
        file = files.open(self._path(self.generation), os.O_RDONLY)
        try:
            text = bytearray()
            while block := files.pread(file, _BLOCK_B, self.offset + len(text)):
                text += block
        finally:
            files.close(file)
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


class RecordWriter:
    """The file of records. One thread adds records, and another one writes them.

    Raises `FileExistsError` if the file is there: a scheduler may start an allocation twice.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = files.open(path, _FLAGS, 0o644)
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
                written += files.pwrite(self._file, text[written:], self.durable + written)
            files.fsync(self._file)
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
        folder = files.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            files.fsync(folder)
        finally:
            files.close(folder)
        self._is_named = True

    def _open_again(self) -> None:
        """Open the file again: a file server that came back may not know the old descriptor."""
        try:
            file = files.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        except OSError:
            return
        files.close(self._file)
        self._file = file


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
