"""What the keeper asks of the system.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36


def open_log(path: str) -> int:
    """Open a log for appending, and make its folder if there is none."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def say_in_log(path: str, text: str) -> None:
    """Say in the log of an attempt what became of it."""
    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write("longshore: %s\n" % text)
    except OSError:
        # The record says it as well; a log that cannot be written may be the very reason.
        pass


def number_after(word: bytes, text: bytes) -> int | None:
    """The number on the line that begins with a word."""
    for line in text.splitlines():
        if line.startswith(word):
            return int(line[len(word) :])
    return None


def send(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def peak_memory() -> int:
    """The most memory this program has had, in KiB.

    What `getrusage` says of oneself is of no use: it counts the memory of whoever started the program, too.
    """
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def boot_id() -> str:
    """The kernel's name for this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def orphans_come_home() -> None:
    """Make processes whose parents die children of this one, so that it can reap them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
