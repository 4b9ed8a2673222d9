"""System calls of the keeper: logs, signals, peak memory, boot id, and adoption of orphaned processes.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36


def open_log(path: str) -> int:
    """Open a log for appending, and make its folder if it is missing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def append_to_log(path: str, text: str) -> None:
    """Append a line on the fate of an attempt to its log."""
    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write("longshore: %s\n" % text)
    except OSError:
        # The record says it as well; an unwritable log may be the very reason.
        pass


def number_after(word: bytes, text: bytes) -> int | None:
    """Return the number on the line that begins with a word; ``None`` if it is missing."""
    for line in text.splitlines():
        if line.startswith(word):
            return int(line[len(word) :])
    return None


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def peak_memory() -> int:
    """Return the peak memory of this program, in KiB.

    `getrusage` is no use for that: for the process itself it also counts the memory of the process that started it.
    """
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def boot_id() -> str:
    """Return the kernel's identifier of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def become_subreaper() -> None:
    """Make this process the child subreaper: processes whose parents die become its children, and it can reap them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
