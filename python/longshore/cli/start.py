"""Entry point of the program ``longshore``: an interruption at any moment prints a line, and no traceback."""

import sys


def main() -> None:
    """Import the program and run it."""
    try:
        # Imports take most of the time of a short command. Until the command begins, an interruption waits.
        from longshore.cli.interrupts import INTERRUPTED, delay_interrupts, print_interrupt

        delay_interrupts()
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


def _end_at_interrupt() -> None:
    """Let an interruption end the interpreter while it closes down, where its exceptions are printed and ignored."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
