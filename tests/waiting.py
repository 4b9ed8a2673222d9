"""Waits for what other processes do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def eventually(what: Callable[[], Any], *, pause_s: float = 0.02) -> Any:
    """Wait until something is true, and return it: for two minutes, because a busy machine takes its time."""
    deadline = time.monotonic() + 120
    while True:
        began = time.monotonic()
        if found := what():
            return found
        assert time.monotonic() < deadline, "it does not come about"
        rest(began, pause_s)


def rest(began: float, least_s: float) -> None:
    """Pause after a look that began then, for as long as it took: a command takes the processor from what it looks at.

    Parameters
    ----------
    began
        When the look began, by the monotonic clock.
    least_s
        The pause in seconds after a look that takes no time.
    """
    time.sleep(max(least_s, min(time.monotonic() - began, 0.5)))


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that somebody may be writing: the last counts once it has its end."""
    return [line for line in path.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


def engine_of(run: Path | str) -> int:
    """Process number of a run's newest engine, once it has begun."""
    journal = Path(run) / "journal"
    newest = eventually(lambda: max(filter(whole_lines, journal.glob("*.jsonl")), default=None))
    return int(json.loads(whole_lines(newest)[0])["pid"])
