"""Late events: facts that arrive after the end of a run, in a file of their own beside the sealed life.

``0001.late.jsonl`` goes on where ``0001.jsonl`` ends: with the next number, and with its running checksum. Nothing
depends on these events, so a damaged line hides only itself and those behind it: readers warn, and go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from longshore.engine.journal.chain import LifeExtent, decode_if_event, life_path
from longshore.model.event import AttemptFacts, Finished
from longshore.model.json_lines import add_checksum, check_block, encode, find_bad_lines
from longshore.model.report import Damage
from longshore.system.atomic import AppendedFile
from longshore.system.reading import open_stream, read_file

_SUFFIX: Final = ".late.jsonl"
_LAST_B: Final = 1 << 12
"""Bytes at the end of a life that hold its last event, if that is the end of the run."""
_UNKNOWN: Final = "what some attempts used is not known"


class LateLines(msgspec.Struct, frozen=True):
    """Late lines of a life that count, and the damage behind them."""

    path: Path
    lines: bytes
    damage: Damage | None = None


class LateJournal:
    """Late events of one life, for its engine to write; they continue its last number and its running checksum."""

    def __init__(self, folder: Path, life: int, *, number: int, crc: int) -> None:
        self._file = AppendedFile(late_path(folder, life), below=folder.parent)
        self._number = number
        self._crc = crc

    def write(self, events: Iterable[AttemptFacts], *, now: float) -> None:
        """Write events durably; raises `OSError` if they may be lost."""
        for event in events:
            self._number += 1
            line, self._crc = add_checksum(encode(msgspec.structs.replace(event, n=self._number, t=now)), self._crc)
            self._file.add(line)
        self._file.commit()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def late_path(folder: Path, life: int) -> Path:
    """Return the path of a life's late events."""
    return folder / f"{life:04}{_SUFFIX}"


def path_of_life(path: Path) -> Path:
    """Return the path of the life that a file of events belongs to."""
    name = path.name
    return life_path(path.parent, int(name.removesuffix(_SUFFIX))) if name.endswith(_SUFFIX) else path


def _is_whole(extent: LifeExtent) -> bool:
    """Whether the counted part of a life reaches the end of the run: only late lines follow it."""
    if not extent.end:
        return False
    with open_stream(extent.path) as file:
        file.seek(max(0, extent.end - _LAST_B))
        last = file.read(extent.end - file.tell()).splitlines(keepends=True)[-1:]
    return any(isinstance(decode_if_event(line), Finished) for line in last)


def read_late_lines(extent: LifeExtent) -> LateLines | None:
    """Return the late lines of a life; ``None`` without any."""
    if not extent.sealed or not extent.checked or extent.damage is not None or extent.crc is None:
        return None
    path = late_path(extent.path.parent, extent.life)
    try:
        text = read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        unread = f"it cannot be read: {error.strerror}"
        return LateLines(path, b"", Damage(path=str(path), what=unread, unknown=_UNKNOWN))
    # Its writer may be writing the last line just now.
    lines = text[: text.rfind(b"\n") + 1]
    if check_block(lines, extent.crc) is not None:
        return LateLines(path, lines)
    if not _is_whole(extent):
        # They continue lines whose loss was accepted, and are lost with them.
        return None
    bad = next(find_bad_lines(lines, extent.crc))
    what = "it is not as it was written, or lines before it are missing"
    return LateLines(path, lines[: bad.offset], Damage(path=str(path), line=bad.line, what=what, unknown=_UNKNOWN))
