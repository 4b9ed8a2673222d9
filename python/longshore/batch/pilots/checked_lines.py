"""Append-only files of checked lines on a shared file system: one writer each, reopened at each look.

A network file system can show a part of a write, zeros before data, or nothing for a while. So a reader takes only
lines that fit the running checksum, stops at the first other one, and looks again later. A writer keeps what is not
certainly on disk, and writes it again at the same place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from longshore.model.json_lines import SEED, add_checksum, check_block
from longshore.system.files import files
from longshore.system.folder import open_below, sync_folder
from longshore.system.reading import open_to_read

_BLOCK_B: Final = 1 << 22


class CheckedReader:
    """Lines of a file that grows, as far as they are intact."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        """Bytes of the lines that were read."""
        self._crc = SEED
        self._rest = b""
        """What follows them, as the latest look showed it."""

    @property
    def is_damaged(self) -> bool:
        """Whether a whole line follows that does not fit, as the latest look showed it; it may fit later."""
        return b"\n" in self._rest

    def read(self) -> bytes:
        """Look at the file, and return the intact lines that are new; raises `OSError` if there is no answer."""
        file = open_to_read(self.path)
        try:
            found = bytearray()
            while block := files.pread(file, _BLOCK_B, self.offset):
                lines = self._take(block)
                if not lines:
                    self._rest = block
                    break
                found += lines
            else:
                self._rest = b""
            return bytes(found)
        finally:
            files.close(file)

    def _take(self, block: bytes) -> bytes:
        """Take the intact lines at the begin of a block."""
        lines = block[: block.rfind(b"\n") + 1]
        crc = check_block(lines, self._crc) if lines else None
        if crc is None:
            lines, crc = self._take_one_by_one(lines)
        self._crc = crc
        self.offset += len(lines)
        return lines

    def _take_one_by_one(self, lines: bytes) -> tuple[bytes, int]:
        end, crc = 0, self._crc
        for line in lines.splitlines(keepends=True):
            after = check_block(line, crc) if line.endswith(b"\n") else None
            if after is None:
                break
            end, crc = end + len(line), after
        return lines[:end], crc


class CheckedWriter:
    """A new file that this process alone appends to. Raises `FileExistsError` if there is one.

    `below` is the folder below which no link is followed.
    """

    def __init__(self, path: Path, *, below: Path) -> None:
        self.path = path
        self._below = below
        file = open_below(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, below=below)
        files.close(file)
        sync_folder(path.parent, below=below)
        self._durable = 0
        """Bytes that are certainly on disk."""
        self._tail = b""
        """Bytes after them."""
        self._crc = SEED

    @property
    def size(self) -> int:
        """Bytes of the file once all is written."""
        return self._durable + len(self._tail)

    @property
    def is_unwritten(self) -> bool:
        """Whether lines were added that are not certainly on disk."""
        return bool(self._tail)

    def add(self, line: bytes) -> None:
        """Add an encoded JSON object without line feed; `flush` writes it."""
        checked, self._crc = add_checksum(line, self._crc)
        self._tail += checked

    def flush(self) -> None:
        """Wait until all lines are on disk. Raises `OSError` if they are not; a later call tries again."""
        if not self._tail:
            return
        file = open_below(self.path, os.O_WRONLY, below=self._below)
        try:
            unwritten, offset = memoryview(self._tail), self._durable
            while unwritten:
                written = files.pwrite(file, unwritten, offset)
                unwritten, offset = unwritten[written:], offset + written
            files.fsync(file)
        finally:
            files.close(file)
        self._durable += len(self._tail)
        self._tail = b""
