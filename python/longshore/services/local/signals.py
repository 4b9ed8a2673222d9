"""Sends signals to processes and groups whose numbers were read from files, and that may be gone."""

from __future__ import annotations

import os
import signal


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group.

    The number comes from a file. To the kernel, group 1 is every process there is, and group 0 is our own: neither is
    meant by anybody.
    """
    if group <= 1:
        return
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process; 0 and 1 are no job's."""
    if pid <= 1:
        return
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
