"""Size and time of the files that jobs of a run read and none of them makes, as they were when it was prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

INPUT_FILES_FORMAT: Final = 1
"""Version of the file's format."""


class InputFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """State of a file."""

    size: int
    mtime_ns: int
    sha256: str = ""
    """Empty if the content was not read."""


class InputFiles(msgspec.Struct, frozen=True, kw_only=True):
    """``input-files.json``: the state of each file, by path."""

    v: int = INPUT_FILES_FORMAT
    files: Mapping[str, InputFile] = msgspec.field(default_factory=dict)


def describe_input_change(path: str, before: InputFile | None, now: InputFile | None) -> str:
    """Describe how a file differs from its record; empty if it does not."""
    if before is None:
        return f"'{path}' was not recorded"
    if now is None:
        return f"'{path}' is not there any more"
    if now.size != before.size:
        return f"'{path}' has another size now: {now.size:,} bytes, and {before.size:,} then"
    if before.sha256 and now.sha256:
        return "" if now.sha256 == before.sha256 else f"'{path}' has another content now"
    return "" if now.mtime_ns == before.mtime_ns else f"'{path}' was written since"
