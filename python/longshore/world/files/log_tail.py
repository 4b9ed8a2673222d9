"""Last lines of a log as clean text, for logs of any length and content."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from longshore.world.files.read_file import open_to_read

_MAX_READ_B: Final = 64 * 1024
"""Bytes read from the end of a log; a longer line is cut."""
_MAX_LINE_LENGTH: Final = 500
"""Characters of a line that are shown."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*[mK]")
"""Escape sequences for colours and erasing, meaningless in a file."""
_NULLS: Final = re.compile(r"\x00{3,}")
"""A hole of a sparse file, as a crash or a log rotation leaves it."""


def read_tail(path: Path, lines: int) -> tuple[str, ...] | None:
    r"""Return the last lines of a log without trailing empty ones; ``None`` if it cannot be read.

    Removes colours, keeps only the last version of a line that was rewritten in place (``\r``), and replaces a hole of
    a sparse file by a few words. All other control characters stay, so a caller that prints to a terminal must escape
    them.
    """
    try:
        file = open_to_read(path)
    except OSError:
        return None
    try:
        offset = max(0, os.fstat(file).st_size - _MAX_READ_B)
        text = os.pread(file, _MAX_READ_B, offset).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
    rows = text.rstrip().split("\n")
    if offset and rows[1:]:
        # The first line is probably cut.
        del rows[0]
    return tuple(map(_clean_line, rows[-lines:])) if text.strip() else ()


def _clean_line(line: str) -> str:
    cleaned = _NULLS.sub("<null characters>", _COLOUR.sub("", line)).rstrip().rpartition("\r")[2].expandtabs()
    return cleaned if len(cleaned) <= _MAX_LINE_LENGTH else f"{cleaned[: _MAX_LINE_LENGTH - 1]}…"
