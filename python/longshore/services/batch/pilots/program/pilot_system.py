"""Calls of the pilot on the operating system, through one object so that a simulation can replace them.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import threading
import time


class PilotSystem:
    """The functions of the operating system that the pilot calls; a simulation puts others in their place."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    read = staticmethod(os.read)
    pread = staticmethod(os.pread)
    write = staticmethod(os.write)
    mkdir = staticmethod(os.mkdir)
    pipe = staticmethod(os.pipe)
    set_blocking = staticmethod(os.set_blocking)
    select = staticmethod(select.select)
    make_temporary_folder = staticmethod(tempfile.mkdtemp)
    remove_tree = staticmethod(lambda path: shutil.rmtree(path, ignore_errors=True))
    getpid = staticmethod(os.getpid)
    uname = staticmethod(os.uname)
    environment = staticmethod(lambda: dict(os.environ))
    popen = subprocess.Popen
    killpg = staticmethod(os.killpg)
    start_thread = staticmethod(lambda target: threading.Thread(target=target, daemon=True).start())
    make_event = staticmethod(threading.Event)
    clock_gettime = staticmethod(time.clock_gettime)
    sleep = staticmethod(time.sleep)


system = PilotSystem()
"""The door of the pilot's own modules; those of its files share the keeper's."""


def seconds_since_boot() -> float:
    """Return seconds since boot, which go on while the machine is suspended."""
    return system.clock_gettime(time.CLOCK_BOOTTIME)
