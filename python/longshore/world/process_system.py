"""The door to processes and time: functions of the operating system, which a simulation can replace."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from pathlib import Path


class ProcessSystem:
    """Functions that start, watch and signal processes, and those that wait or read a clock.

    Each attribute is the function of the standard library itself, so that a call costs no more than it.
    """

    popen = subprocess.Popen
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
    make_temporary_folder = staticmethod(tempfile.mkdtemp)
    # Time
    monotonic = staticmethod(time.monotonic)
    clock_gettime = staticmethod(time.clock_gettime)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)


processes = ProcessSystem()
"""The door of the engine's service for this machine."""
