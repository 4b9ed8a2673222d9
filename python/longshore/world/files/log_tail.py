"""Last lines of a log as clean text, for logs of any length and content."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from longshore.world.files.atomic import open_to_read

_MOST_B: Final = 64 * 1024
"""Bytes read from the end of a log; a longer line is cut."""
_LONGEST: Final = 500
"""Characters of a line that are shown."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*[mK]")
"""Escape sequences for colours and erasing, meaningless in a file."""


def read_tail(path: Path, lines: int) -> tuple[str, ...] | None:
    r"""Return the last lines of a log without trailing empty ones; ``None`` if it cannot be read.

    Removes colours, and keeps only the last version of a line that was rewritten in place (``\r``). All other control
    characters stay, so a caller that prints to a terminal must escape them.
    """
    try:
        file = open_to_read(path)
    except OSError:
        return None
    try:
        begin = max(0, os.fstat(file).st_size - _MOST_B)
        text = os.pread(file, _MOST_B, begin).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(file)
    found = text.rstrip().split("\n")
    if begin and found[1:]:
        # The first line is probably cut.
        del found[0]
    return tuple(map(_one_line, found[-lines:])) if text.strip() else ()


def _one_line(line: str) -> str:
    plain = _COLOUR.sub("", line).rstrip().rpartition("\r")[2].expandtabs()
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
