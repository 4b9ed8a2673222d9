"""Who and where we are: user, host, boot, the processors and memory of this machine, and which processes live."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_START_TICKS = 19
"""Place of a process's start time in ``/proc/PID/stat``, counted from the state that follows the name (see proc(5))."""


def user_name() -> str:
    """The login name of whoever runs this, or the number where there is no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def host_name() -> str:
    """This host's own name."""
    return os.uname().nodename


def boot_id() -> str:
    """The kernel's name for this boot; empty where it has none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return ""


def usable_cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0))


def physical_memory() -> int:
    """Memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def started_at(pid: int, *, remains: bool = False) -> float | None:
    """Seconds from boot to the start of a process; ``None`` when there is none of that number.

    Parameters
    ----------
    pid
        Its number.
    remains
        Whether one that has ended, and that its parent has not yet asked about, still counts.
    """
    fields = _stat(pid)
    if fields is None or (fields[0] in "ZX" and not remains):
        return None
    return int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str] | None:
    """What the kernel says of a process, from its state on; ``None`` when there is none of that number."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    return stat.rpartition(")")[2].split()


def is_same_process(pid: int, up: float, *, remains: bool = False) -> bool:
    """Whether the process of that number is the one that was started about `up` seconds after boot."""
    start = started_at(pid, remains=remains)
    return start is not None and abs(start - up) < 1.0


def process_name(pid: int) -> str:
    """The name of a process's program, as the kernel keeps it (15 bytes); empty when there is none of that number."""
    try:
        return (_PROC / str(pid) / "comm").read_text("utf-8", errors="replace").rstrip("\n")
    except OSError:
        return ""


def command_of(pid: int) -> list[str]:
    """The words a process was started with; none when there is none of that number."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Processes that a process made, those that these made, and so on; not what is already dead."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(_PROC):
        fields = _stat(int(entry)) if entry.isdigit() else None
        if fields is not None and fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    stack = [pid]
    while stack:
        made = children.get(stack.pop(), [])
        found += made
        stack += made
    return found


def processes_with(variable: str, value: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Processes we may look into whose environment has that variable and value, with their environment."""
    wanted = f"{variable}={value}".encode()
    for entry in os.listdir(_PROC):
        if not entry.isdigit():
            continue
        try:
            words = (_PROC / entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in words:
            pairs = (word.decode(errors="surrogateescape").partition("=") for word in words if word)
            yield int(entry), {name: text for name, _, text in pairs}
