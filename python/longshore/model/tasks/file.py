"""A workflow file that jobs read or write."""

from __future__ import annotations

import posixpath
import re
from typing import Final

import msgspec

_PATTERN: Final = re.compile(r"[*?[]")


class File(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A file of a workflow.

    Attributes
    ----------
    name
        Unique in its graph.
    path
        Where it is or will be; a relative path is relative to the run directory.
    transfer
        Whether the workload manager transfers it to and from the job (BPS: ``wms_transfer``).
    shared
        Whether jobs may read one copy of it (BPS: ``job_shared``).
    size_b
        Bytes; ``None`` while unknown.
    part_of
        Name of the output, a folder, that it is in, or of the same file by another path; empty for none.
    """

    name: str
    path: str
    transfer: bool = False
    shared: bool = True
    size_b: int | None = None
    part_of: str = ""


def is_remote(path: str) -> bool:
    """Whether a path is a URL, which names no file that this or a job's host sees."""
    return "://" in path


def tidy_path(path: str) -> str:
    """Return a path without ``.`` and doubled slashes; ``..`` stays, because a link may be before it."""
    parts = "/".join([part for part in path.split("/") if part not in {"", "."}])
    return f"/{parts}" if path.startswith("/") else parts or "."


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern of the shell, for all files that match its last part."""
    return not is_remote(path) and bool(_PATTERN.search(posixpath.basename(path)))
