"""Delays an interruption (Ctrl-C) during imports: one that is cut short prints a traceback of the interpreter."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130
"""Exit status of a command that was interrupted (128 and the number of SIGINT)."""

_received: list[int] = []


def delay_interrupts() -> None:
    """Note interruptions from now on; a second one ends the program at once."""
    # Another handler means that the caller ignores interruptions, as a shell's background jobs do, or has its own.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        try:
            signal.signal(signal.SIGINT, _note)
        except ValueError:
            # Only the main thread may, and only it is interrupted.
            return


def deliver_interrupts() -> None:
    """Let interruptions through again; raises `KeyboardInterrupt` if one was delayed."""
    if signal.getsignal(signal.SIGINT) is _note:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _received:
        _received.clear()
        raise KeyboardInterrupt("the command had not begun")


def print_interrupt() -> None:
    """Print that the program was interrupted, with nothing that might have to be imported."""
    if sys.stderr:  # `None` if it was closed before this program began
        sys.stderr.write("longshore: interrupted\n")
        sys.stderr.flush()


def _note(number: int, _frame: object) -> None:
    if _received:
        print_interrupt()
        os._exit(INTERRUPTED)
    _received.append(number)
