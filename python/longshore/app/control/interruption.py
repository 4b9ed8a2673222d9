"""Interruptions of commands that change a run: what was begun may go on, and the user learns how to see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from longshore.app.runs.open_run import OpenRun


@contextmanager
def explain_interruption(opened: OpenRun, left: str) -> Iterator[None]:
    """Let an interruption of the body say what it left, unless it says more by itself."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        text = str(interrupt) or f"{left}. To see it: longshore report {opened.reference}"
        raise KeyboardInterrupt(text) from None
