"""Checks of single records of a run directory: documents and files of lines, with or without checksums."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.checked_document import is_intact
from longshore.model.lines.checksum import SEED, check_block, find_bad_lines, has_checksum
from longshore.model.run.damage import Damage

_UNKNOWN = "what it recorded is not known"


def check_record(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check a document of JSON; return whether it has a checksum, and its damage."""
    if has_checksum(content):
        if is_intact(content):
            return True, []
        return True, [Damage(path=str(path), what="it does not fit its checksum", unknown=_UNKNOWN)]
    if (why := _describe_error(content)) is not None:
        return False, [Damage(path=str(path), what=f"it cannot be read: {why}", unknown=_UNKNOWN)]
    return False, []


def check_record_lines(path: Path, content: bytes) -> tuple[bool, list[Damage]]:
    """Check a file of lines of JSON; return whether they have checksums, and their damage.

    A last line without its end is not damage: its writer may be writing it, or died at it.
    """
    whole = content[: content.rfind(b"\n") + 1]
    first = whole[: whole.find(b"\n") + 1]
    if has_checksum(first):
        if check_block(whole, SEED) is not None:
            return True, []
        what = "it is not as it was written, or lines before it are missing"
        return True, [
            Damage(path=str(path), line=bad.line, what=what, unknown=_UNKNOWN) for bad in find_bad_lines(whole, SEED)
        ]
    damages = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        if (why := _describe_error(line)) is not None:
            damages.append(Damage(path=str(path), line=number, what=f"it cannot be read: {why}", unknown=_UNKNOWN))
    return False, damages


def _describe_error(text: bytes) -> str | None:
    """Return why a text is no JSON; ``None`` if it is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except DECODE_ERRORS as error:
        return str(error)
    return None
