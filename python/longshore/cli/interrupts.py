"""Signals that end a command, imported before all else so that each unwinds it, and nothing half-written stays.

An interruption (Ctrl-C) is delayed during imports: one that is cut short prints a traceback of the interpreter.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Final

INTERRUPTED: Final = 130
"""Exit status of a command that was interrupted (128 and the number of SIGINT)."""

_TERMINATIONS: Final = (signal.SIGTERM, signal.SIGHUP)
"""What a workload manager, `kill` and a closed terminal send."""

_PAIR_S: Final = 0.3
"""A closed terminal sends two terminations within this time."""

_received: list[int] = []
"""Interruptions that were delayed."""
_terminations: list[int] = []
"""The termination that unwinds the command."""
_unwound_at: list[float] = []


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


def unwind_at_termination() -> None:
    """Let a termination unwind the command as an interruption does; `end_as_terminated` then ends the process."""
    # A fork, such as a worker of multiprocessing, has no command to unwind.
    os.register_at_fork(after_in_child=_restore_terminations)
    for number in _TERMINATIONS:
        # Another handler means that the caller ignores it, as `nohup` does, or has its own.
        if signal.getsignal(number) is signal.SIG_DFL:
            try:
                signal.signal(number, _unwind)
            except ValueError:
                # Only the main thread may, and only it is interrupted.
                return


def termination_status() -> int:
    """Return the exit status of a command that a termination unwinds, as a shell shows it; 0 without one."""
    return 128 + _terminations[-1] if _terminations else 0


def end_as_terminated() -> None:
    """End the process by the termination that unwound the command, if one did: its parent learns of the signal."""
    _restore_terminations()
    if _terminations:
        os.kill(os.getpid(), _terminations.pop())


def _restore_terminations() -> None:
    for number in _TERMINATIONS:
        if signal.getsignal(number) is _unwind:
            signal.signal(number, signal.SIG_DFL)


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


def _unwind(number: int, _frame: object) -> None:
    now = time.monotonic()
    # A later one is as another Ctrl-C: code of a user may have caught the first, or something takes long to end.
    if not _unwound_at or now - _unwound_at[0] > _PAIR_S:
        _unwound_at[:] = [now]
        _terminations[:] = [number]
        raise KeyboardInterrupt
