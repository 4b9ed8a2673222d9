"""Entry point of the program ``longshore``: an interruption at any moment prints a line, and no traceback."""

import gc
import sys
from typing import Final

_COLLECT_AFTER: Final = 100_000
"""New objects after which garbage is looked for; Python's 700 is met 40 times in the imports of a short command."""


def main() -> None:
    """Import the program and run it."""
    # This line and the next call save 10 % of a short command, whose time is that of imports.
    gc.set_threshold(_COLLECT_AFTER)
    try:
        # Imports take most of the time of a short command. Until the command begins, an interruption waits.
        from longshore.cli.interrupts import INTERRUPTED, delay_interrupts, print_interrupt

        delay_interrupts()
        _import_msgspec()
        from longshore.cli.main import main as run_command_line
    except KeyboardInterrupt:
        # The names above may be missing.
        sys.stderr.write("longshore: interrupted\n")
        sys.exit(130)
    try:
        run_command_line()
    except KeyboardInterrupt:
        # It came while another interruption or an error was reported.
        print_interrupt()
        sys.exit(INTERRUPTED)
    finally:
        _end_at_interrupt()


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions: from Python 3.11 on, `typing` has all names that msgspec uses."""
    name = "typing_extensions"
    if name not in sys.modules:
        sys.modules[name] = None  # type: ignore[assignment]
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules[name]


def _end_at_interrupt() -> None:
    """Let an interruption end the interpreter while it closes down, where its exceptions are printed and ignored."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
