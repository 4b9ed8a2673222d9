"""Which command has a lock of a run, by the kernel's table of locks: messages need it, and nothing is written for it.

A record in the file of the lock would change the bytes of archives.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from longshore.world.host import process_command
from longshore.world.process_system import processes

_COMMANDS: Final = ("clean", "archive")
"""Commands that take the lock of an engine; any other holder is one."""


def describe_lock_user(path: Path, *, otherwise: str) -> str:
    """Return which command has the lock of a file on this host; `otherwise` if none of `clean` and `archive` has it."""
    with suppress(OSError):
        for pid in find_lock_users(path.stat(), processes.read_proc("locks").decode("utf-8", "replace")):
            words = process_command(pid)[1:]
            name = next((word for word in words if word in _COMMANDS), "")
            if name and any("longshore" in word for word in words):
                return f"another 'longshore {name}' is at work on it (process {pid})"
    return otherwise


def find_lock_users(status: os.stat_result, table: str) -> list[int]:
    """Return the processes that have a lock (flock) of a file; `table` is ``/proc/locks``, see proc_locks(5)."""
    device = status.st_dev
    file = f"{os.major(device):02x}:{os.minor(device):02x}:{status.st_ino}"
    rows = (line.split() for line in table.splitlines())
    # A process that waits for a lock has an arrow instead of the kind. Those of other hosts have no number.
    return [int(row[4]) for row in rows if row[1:2] == ["FLOCK"] and row[5:6] == [file] and row[4].isdigit()]
