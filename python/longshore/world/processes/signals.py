"""Sending of signals to processes and groups whose ids were read from files and may be stale."""

from __future__ import annotations

import signal

from longshore.world.process_system import processes


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group.

    Ids come from a file and may be wrong. To the kernel, group 1 means every process, and group 0 our own: both are
    ignored.
    """
    if group <= 1:
        return
    try:
        processes.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_process(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process; ids 0 and 1 are ignored."""
    if pid <= 1:
        return
    try:
        processes.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
