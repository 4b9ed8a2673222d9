"""Turns the end of a log, however long and whatever is in it, into a few lines of text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from longshore.world.files.atomic import open_to_read

_MOST_B: Final = 64 * 1024
"""Read from the end of a log; a line that is longer is cut."""
_LONGEST: Final = 500
"""Signs of a line that are shown."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*[mK]")
"""What programs write to colour their output; it means nothing in a file."""


def tail(path: Path, lines: int) -> tuple[str, ...] | None:
    r"""The last lines of a log that are not empty at its end; ``None`` if it cannot be read.

    Colours are taken out, and of a line that was rewritten in place (``\r``) the last version stays; every other sign
    is left as it is, so whoever shows it to a terminal has to spell it out.

    Parameters
    ----------
    path
        The log.
    lines
        How many at most.
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
        # The first one was probably cut.
        del found[0]
    return tuple(map(_one_line, found[-lines:])) if text.strip() else ()


def _one_line(line: str) -> str:
    plain = _COLOUR.sub("", line).rstrip().rpartition("\r")[2].expandtabs()
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
