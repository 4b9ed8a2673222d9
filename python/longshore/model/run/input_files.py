"""What a run begins with: the state of input files when it was prepared, and results of another run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from longshore.model.run.event import FileStamp

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
    if now.mtime_ns == before.mtime_ns:
        return ""
    unknown = ", and the earlier run recorded no hash of its content" if now.sha256 else ""
    return f"'{path}' was written since{unknown}"


REUSED_JOBS: Final = "reused-jobs.json"
REUSED_JOBS_FORMAT: Final = 1
"""Version of the file's format."""
REUSED_BATCH: Final = "reused"
"""Id of the batch of all attempts that another run made."""
REUSED_FROM: Final = "reused_from"
"""Field of the end of such an attempt: the id of that run."""


class ReusedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs whose results an earlier run made."""

    v: int = REUSED_JOBS_FORMAT
    run: str
    """Id of the earlier run."""
    path: str
    """Its directory."""
    jobs: tuple[int, ...]
    """Numbers of the jobs in the workflow of the first submission."""
    links: tuple[str, ...] = ()
    """Outputs that are links to those of the earlier run, relative to the run directory."""
    stamps: Mapping[int, tuple[FileStamp, ...]] = msgspec.field(default_factory=dict)
    """Stamps of the outputs per job, as in `longshore.model.run.event.Ended`; older records have none."""
