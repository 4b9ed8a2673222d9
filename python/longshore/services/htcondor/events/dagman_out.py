"""Turns what DAGMan wrote for people into what is said nowhere else: which nodes came to nothing, and why."""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import Final

from longshore.services.htcondor.node_names import FINAL

_SHORTCUT: Final = re.compile(rb"Shortcutting node (\S+) retries because of submit failure")
_GATE: Final = re.compile(rb"PRE Script of (?:Node|Job) g\d+ (?:failed|died)[^\n]*", re.IGNORECASE)
_SAID: Final = re.compile(rb"\n\d\d/\d\d/\d\d(?:\d\d)? \d\d:\d\d:\d\d(?:\.\d+)? (?:ERROR|Error|submit error)[^\n]*")
_STAMP: Final = re.compile(rb"^\n\d\d/\d\d/\d\d(?:\d\d)? \d\d:\d\d:\d\d(?:\.\d+)? ")
_ERROR: Final = re.compile(rb"\n\d\d/\d\d/\d\d(?:\d\d)? [\d:.]+ ((?:ERROR|Warning is fatal error)\b[^\n]*)")
_OF_JOBS: Final = (b"ERROR: the following", b"ERROR: a node failed")
"""Begins what says no more than that jobs failed."""
_MOST: Final = 3
_BEFORE: Final = 4000
"""Bytes in front of the word that a node is given up in which the reason stands."""


def submit_failures(path: Path, size: int) -> dict[int, str]:
    """Why jobs could not be submitted, for those of which DAGMan says so.

    Parameters
    ----------
    path
        ``run.dag.dagman.out``; it need not be there.
    size
        Number of jobs of the run.
    """
    found: dict[int, str] = {}
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for given_up in _SHORTCUT.finditer(text):
                node = given_up[1].decode("utf-8", "replace")
                job = size - 1 if node == FINAL else int(node[1:]) if re.fullmatch(r"j\d+", node) else -1
                if 0 <= job < size:
                    found[job] = _reason(text[max(0, given_up.start() - _BEFORE) : given_up.start()])
    except (OSError, ValueError):
        # It is not there, or empty.
        return found
    return found


def gate_failures(path: Path) -> list[str]:
    """What DAGMan says of gates between groups that could not do their work; what is behind one never runs.

    Parameters
    ----------
    path
        ``run.dag.dagman.out``; it need not be there.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return [found[0].decode("utf-8", "replace") for found in _GATE.finditer(text)]
    except (OSError, ValueError):
        return []


def refusal(path: Path) -> list[str]:
    """What DAGMan says is wrong with the DAG, or with where it runs; nothing of jobs that failed.

    Parameters
    ----------
    path
        ``run.dag.dagman.out``; it need not be there.
    """
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
