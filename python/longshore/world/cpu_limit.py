"""Bound on the processor time of a computation that cannot be trusted to end, such as a user's regular expression."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CpuLimitError(Exception):
    """A computation took more processor time than it may."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Run the body for at most so many seconds of processor time; raises `CpuLimitError` when it takes more.

    Only the main thread can be interrupted; in any other, the body runs without a bound. Python's own regular
    expressions look for signals while they match.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_active = True

    def give_up(*_: object) -> None:
        # The signal may arrive after the body ended.
        if is_active:
            raise CpuLimitError(f"it took more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        is_active = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)
