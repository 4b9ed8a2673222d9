"""Counts concurrent jobs by the marks they wrote."""

from __future__ import annotations

from pathlib import Path

RECORD = "echo $(date +%s.%N) + {w} >> signs; sleep 0.4; echo $(date +%s.%N) - {w} >> signs"


def signs(path: Path) -> list[tuple[float, str, str]]:
    """Time, ``+`` or ``-``, and word of a job's mark."""
    lines = (line.split(" ", 2) for line in path.read_text("utf-8").splitlines())
    return sorted((float(when), sign, word) for when, sign, word in lines)


def most_at_once(path: Path, *words: str, since: float = 0.0) -> int:
    now = most = 0
    for when, sign, word in signs(path):
        if not words or word in words:
            now += 1 if sign == "+" else -1
            most = max(most, now) if when > since else most
    return most
