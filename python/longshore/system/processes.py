"""All processes, waits and clocks go through `processes`, so that a simulation can replace it."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

# The door to processes and time: functions of the operating system, which a simulation can replace.


def _popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    # Most commands start no process: the module takes them a fifth of their time.
    import subprocess

    return subprocess.Popen(*arguments, **options)


def _make_temporary_folder(*, prefix: str, dir: str | None) -> str:  # noqa: A002 - the name in the standard library
    import tempfile

    return tempfile.mkdtemp(prefix=prefix, dir=dir)


class ProcessSystem:
    """Functions that start, watch and signal processes, and those that wait or read a clock.

    Most attributes are the functions of the standard library themselves, so that a call costs no more.
    """

    popen = staticmethod(_popen)
    getpid = staticmethod(os.getpid)
    kill = staticmethod(os.kill)
    killpg = staticmethod(os.killpg)
    waitid = staticmethod(os.waitid)
    wait4 = staticmethod(os.wait4)
    # Pipes to a process
    read = staticmethod(os.read)
    write = staticmethod(os.write)
    select = staticmethod(select.select)
    # Facts about processes
    list_proc = staticmethod(lambda: os.listdir("/proc"))
    read_proc = staticmethod(lambda name: Path("/proc", name).read_bytes())
    make_temporary_folder = staticmethod(_make_temporary_folder)
    # Time
    monotonic = staticmethod(time.monotonic)
    clock_gettime = staticmethod(time.clock_gettime)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)


processes = ProcessSystem()
"""The door of the engine's service for this machine."""


# Sending of signals to processes and groups whose ids were read from files and may be stale.


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
