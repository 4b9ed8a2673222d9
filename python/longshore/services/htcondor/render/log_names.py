"""Says where the log of each attempt of a job lies: as the pattern HTCondor is given, and as the path it then has.

HTCondor numbers the starts of a job within its cluster, and gives a job a new cluster whenever DAGMan submits it: after
a restart, say. Both are in the name, ``logs/<label>/<nn>/<job>.<cluster>.<attempt>.log``, so that no attempt overwrites
another's. With ``overwriteJobFiles`` attempts in one cluster share ``<job>.<cluster>.log``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from longshore.contract.context import file_name

_PER_FOLDER: Final = 500
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,.~^-]{1,150}", re.ASCII)
_ODD: Final = re.compile(r"[^A-Za-z0-9_@%+=:,.~^-]", re.ASCII)
ATTEMPT: Final = "$$([(NumJobStarts?:0)+1])"
"""What the schedd fills in when the job is matched: 1 for the first start; with blanks in it, it would not find it."""


def is_plain(name: str) -> bool:
    """Whether a name of a job means just itself in paths, arguments and attributes."""
    return _PLAIN.fullmatch(name) is not None


def folder(label: str, subfolder: str) -> str:
    """The folder of logs, relative to the run directory."""
    return f"logs/{_safe(label)}/{subfolder}"


def folders(labels: Iterable[str]) -> Iterator[str]:
    """The folders of all logs, each once, given the label of each job."""
    found = dict.fromkeys((label, index // _PER_FOLDER) for index, label in enumerate(labels))
    return (folder(label, subfolder(place * _PER_FOLDER)) for label, place in found)


def subfolder(index: int) -> str:
    """The last part of the folder of a job's logs; at most a thousand files or so share it."""
    return f"{index // _PER_FOLDER:02}"


def stem(index: int, name: str) -> str:
    """What the names of a job's logs begin with; a name with odd signs is told apart by the job's number."""
    return name if is_plain(name) else f"{_safe(name)}-{index}"


def _safe(name: str) -> str:
    return _ODD.sub("_", file_name(name)[:150])


def log_of(index: int, name: str, label: str, cluster: int, attempt: int) -> tuple[str, str]:
    """Paths that the log of an attempt may have, relative to the run directory: its own, and one that all share."""
    beginning = f"{folder(label, subfolder(index))}/{stem(index, name)}.{cluster}"
    return f"{beginning}.{attempt}.log", f"{beginning}.log"
