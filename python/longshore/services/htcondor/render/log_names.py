"""Names the log of each attempt, for HTCondor and for readers; apart because both sides need the same rule.

HTCondor numbers the starts of a job within its cluster, and gives a job a new cluster whenever DAGMan submits it: after
a restart, for example. The name ``logs/<label>/<nn>/<job>.<cluster>.<attempt>.log`` contains both numbers, so that no
attempt overwrites another's log. With ``overwriteJobFiles`` attempts in one cluster share ``<job>.<cluster>.log``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from longshore.contract.service import file_name

JOBS_PER_FOLDER: Final = 500
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,.~^-]{1,150}", re.ASCII)
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9_@%+=:,.~^-]", re.ASCII)
ATTEMPT: Final = "$$([(NumJobStarts?:0)+1])"
"""Expression that the schedd expands at each match: 1 for the first start. It may contain no blanks."""


def is_plain(name: str) -> bool:
    """Whether a job's name needs no quoting in paths, arguments and attributes."""
    return _PLAIN.fullmatch(name) is not None


@lru_cache
def log_folder(label: str, subfolder: str) -> str:
    """A directory of logs, relative to the run directory."""
    return f"logs/{_safe_name(label)}/{subfolder}"


def log_folders(labels: Iterable[str]) -> Iterator[str]:
    """The directories of all logs, each once, given the label of each job."""
    found = dict.fromkeys((label, index // JOBS_PER_FOLDER) for index, label in enumerate(labels))
    return (log_folder(label, subfolder(place * JOBS_PER_FOLDER)) for label, place in found)


def subfolder(index: int) -> str:
    """Last part of the directory of a job's logs; 500 jobs share it."""
    return f"{index // JOBS_PER_FOLDER:02}"


def log_prefix(number: int, name: str) -> str:
    """Prefix of the names of a job's logs; a name with special characters gets the job's file number."""
    return name if is_plain(name) else f"{_safe_name(name)}-{number}"


def _safe_name(name: str) -> str:
    return _SPECIAL.sub("_", file_name(name)[:150])


def log_paths(index: int, name: str, label: str, cluster: int, attempt: int) -> tuple[str, str]:
    """Possible paths of an attempt's log, relative to the run directory: its own, and the shared one."""
    prefix = f"{log_folder(label, subfolder(index))}/{log_prefix(index, name)}.{cluster}"
    return f"{prefix}.{attempt}.log", f"{prefix}.log"
