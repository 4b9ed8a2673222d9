"""Entry point of ``longshore``, small so that an interruption at any moment prints a line, and no traceback."""

import atexit
import gc
import os
import sys
from typing import Final

_COLLECT_AFTER: Final = 100_000
"""New objects after which garbage is looked for; Python's 700 is met 40 times in the imports of a short command."""


def run_program() -> None:
    """Be the process of the program: run it, and end the process without freeing its memory object by object."""
    statuses: list[int] = []
    # Functions are called in the reverse order of their registration: this one after all of the command. Functions that
    # are there already, such as that of coverage, would never be called.
    if not getattr(atexit, "_ncallbacks", lambda: 1)():
        atexit.register(_end_process, statuses)
    try:
        main()
    except SystemExit as stop:
        if isinstance(stop.code, int):
            statuses.append(stop.code)
        raise


def _end_process(statuses: list[int]) -> None:
    """End the process with the status; without any, or if output cannot be written, Python ends it and says why.

    This saves 15 % of a short command: Python looks for garbage several times, and clears all modules.
    """
    # Code of users and of plug-ins may have left work for the end of the interpreter.
    if not statuses or "longshore.config.foreign_code" in sys.modules:
        return
    for stream in (sys.stdout, sys.stderr):
        if stream:  # `None` if it was closed before this program began
            try:
                stream.flush()
            except (OSError, ValueError):
                return
    os._exit(statuses[0])


def main() -> None:
    """Import the program and run it."""
    # This saves 7 % of a short command, whose time is that of imports.
    gc.set_threshold(_COLLECT_AFTER)
    _forget_current_folder()
    try:
        # Imports take most of the time of a short command. Until the command begins, an interruption waits.
        from longshore.cli.interrupts import INTERRUPTED, delay_interrupts, end_as_terminated, print_interrupt

        delay_interrupts()
        from longshore.cli.light_imports import import_libraries

        import_libraries()
        from longshore.cli.terminal import take_streams

        take_streams()
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
        end_as_terminated()
        sys.exit(INTERRUPTED)
    finally:
        _end_at_interrupt()


def _forget_current_folder() -> None:
    """Import nothing from the current directory, which may be a stranger's: neither for `python -m` nor by PYTHONPATH.

    Python has made relative and empty entries of that variable absolute.
    """
    text = os.environ.get("PYTHONPATH", "")
    written = text.split(os.pathsep) if text else []
    absolute = {os.path.normpath(each) for each in written if each.startswith("/")}
    try:
        here, *relative = map(os.path.abspath, ["", *(each for each in written if not each.startswith("/"))])
    except OSError:
        return
    dropped = {here, *relative} - absolute
    # One more, of `python -m` or the folder of the program. What follows is the installation, which may lie here.
    count = 1 + len(written)
    sys.path[:count] = [each for each in sys.path[:count] if os.path.normpath(each or here) not in dropped]


def _end_at_interrupt() -> None:
    """Let an interruption end the interpreter while it closes down, where its exceptions are printed and ignored."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
