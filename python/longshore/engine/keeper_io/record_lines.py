"""Incremental reader of lines with a running checksum, as the keeper and its guard write them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from longshore.model.json_lines import (
    SEED,
    check_block,
    checksum_after,
    find_bad_lines,
    has_changed_end,
    has_checksum,
    have_checksums,
)
from longshore.system.reading import open_to_read

_BLOCK_B: Final = 1 << 20


class RecordLines:
    """The lines of an append-only file, read as it grows. Files of an older format have no checksums."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bad_lines: list[int] = []
        """Numbers of the lines that were found damaged, or that follow missing ones."""
        self._file: int | None = None
        self._partial_line = b""
        """An incomplete line at the end of the last read: its writer died, or still writes it."""
        self._has_checksums = False
        self._crc = SEED
        self._lines_read = 0

    @property
    def is_damaged(self) -> bool:
        """Whether a line that was read is damaged, or the end of the last one."""
        return bool(self.bad_lines) or has_changed_end(self._partial_line)

    def read(self) -> bytes:
        """Read the new intact lines since the last call."""
        if self._file is None:
            try:
                self._file = open_to_read(self.path)
            except FileNotFoundError:
                return b""
        text = bytearray(self._partial_line)
        try:
            while chunk := os.read(self._file, _BLOCK_B):
                text += chunk
        except OSError:
            # A file server that fails in the middle must not discard the records read before.
            self._partial_line = bytes(text)
            raise
        end = text.rfind(b"\n") + 1
        self._partial_line = bytes(text[end:])
        return self._remove_bad_lines(bytes(text[:end]))

    def _remove_bad_lines(self, block: bytes) -> bytes:
        if not block:
            return block
        if not self._lines_read:
            self._has_checksums = have_checksums(block)
        before = self._lines_read
        self._lines_read += block.count(b"\n")
        if not self._has_checksums:
            return block
        crc = check_block(block, self._crc)
        if crc is not None:
            self._crc = crc
            return block
        bad = {each.line for each in find_bad_lines(block, self._crc, line=before + 1)}
        self.bad_lines += sorted(bad)
        lines = [line + b"\n" for line in block.split(b"\n")[:-1]]
        stated = next((line for line in reversed(lines) if has_checksum(line)), b"")
        self._crc = checksum_after(stated) or self._crc
        return b"".join(line for number, line in enumerate(lines, before + 1) if number not in bad)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
