"""Parses DAGMan's messages, ``run.dag.dagman.out``, for failures to submit nodes that no log records."""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Final

from longshore.services.htcondor.node_names import FINAL_NODE

_SHORTCUT: Final = re.compile(rb"Shortcutting node (\S+) retries because of submit failure")
_GATE: Final = re.compile(rb"PRE Script of (?:Node|Job) g\d+ (?:failed|died)[^\n]*", re.IGNORECASE)
_SAID: Final = re.compile(rb"\n\d\d/\d\d/\d\d(?:\d\d)? \d\d:\d\d:\d\d(?:\.\d+)? (?:ERROR|Error|submit error)[^\n]*")
_STAMP: Final = re.compile(rb"^\n\d\d/\d\d/\d\d(?:\d\d)? \d\d:\d\d:\d\d(?:\.\d+)? ")
_ERROR: Final = re.compile(rb"\n\d\d/\d\d/\d\d(?:\d\d)? [\d:.]+ ((?:ERROR|Warning is fatal error)\b[^\n]*)")
_OF_JOBS: Final = (b"ERROR: the following", b"ERROR: a node failed")
"""Prefixes of messages that only report failed jobs."""
_MOST: Final = 3
_BEFORE: Final = 4000
"""Bytes before the message that a node is given up, to search for the reason."""


def submit_failures(path: Path, size: int) -> dict[int, str]:
    """Reasons why jobs could not be submitted; `size` is the number of jobs, the file may be missing."""
    found: dict[int, str] = {}
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for given_up in _SHORTCUT.finditer(text):
                node = given_up[1].decode("utf-8", "replace")
                job = size - 1 if node == FINAL_NODE else int(node[1:]) if re.fullmatch(r"j\d+", node) else -1
                if 0 <= job < size:
                    found[job] = _reason(text[max(0, given_up.start() - _BEFORE) : given_up.start()])
    except (OSError, ValueError):
        # The file is missing or empty.
        return found
    return found


def barrier_failures(path: Path) -> list[str]:
    """Messages on gates between groups whose script failed: jobs behind one never run. The file may be missing."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return [found[0].decode("utf-8", "replace") for found in _GATE.finditer(text)]
    except (OSError, ValueError):
        return []


def dag_errors(path: Path) -> list[str]:
    """Messages on errors of the DAG or its environment, not on failed jobs. The file may be missing."""
    found: list[str] = []
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for said in _ERROR.finditer(text):
                words = said[1].decode("utf-8", "replace").strip()
                if not said[1].startswith(_OF_JOBS) and words not in found:
                    found.append(words)
                if len(found) == _MOST:
                    break
    except (OSError, ValueError):
        return found
    return found


def _reason(before: bytes) -> str:
    said = _SAID.findall(before)
    if not said:
        return "DAGMan could not submit it"
    words = _STAMP.sub(b"", said[-1]).decode("utf-8", "replace").strip()
    return f"DAGMan could not submit it: {words}"
