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
    """

    name: str
    path: str
    transfer: bool = False
    shared: bool = True
    size_b: int | None = None


def is_remote(path: str) -> bool:
    """Whether a path is a URL, which names no file that this or a job's host sees."""
    return "://" in path


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern of the shell, for all files that match its last part."""
    return not is_remote(path) and bool(_PATTERN.search(posixpath.basename(path)))
