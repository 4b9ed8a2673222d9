"""This machine: user, host, boot, processors, memory, clock, folders of configuration, and bounds on computations."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from longshore.system.processes import processes

# Clock protocol and the system clock, injected so that tests can control time.


class Clock(Protocol):
    """Source of wall-clock and monotonic time."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC); may jump."""

    def elapsed(self) -> float:
        """Return monotonic seconds from an arbitrary origin; never jumps."""


class SystemClock:
    """Clock of this host."""

    def now(self) -> float:
        """Return seconds since the epoch (UTC); may jump."""
        return time.time()

    def elapsed(self) -> float:
        """Return seconds since boot, time in which it slept included; never jumps, equal in all processes."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def timestamp(seconds: float) -> str:
    """Format a time as BPS does in names: ``20261120T092700Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")


# Bound on the processor time of a computation that cannot be trusted to end, such as a user's regular expression.


class CpuLimitError(Exception):
    """A computation took more processor time than it may."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Run the body for at most so many seconds of processor time; raises `CpuLimitError` when it takes more.

    Only the main thread can be interrupted; in any other, the body runs without a bound. Python's own regular
    expressions look for signals while they match.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_active = True

    def give_up(*_: object) -> None:
        # The signal may arrive after the body ended.
        if is_active:
            raise CpuLimitError(f"it took more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        is_active = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)


_START_TICKS = 19
"""Position of a process's start time in ``/proc/PID/stat``, counted from the state after the name (see proc(5))."""


def user_name() -> str:
    """Return the user's login name, or the user id when it has no name that is text."""
    try:
        # Few commands ask: this module imports that of terminals.
        import getpass

        name = getpass.getuser()
        name.encode()
    except (KeyError, OSError, UnicodeEncodeError):
        return str(os.getuid())
    return name


def host_name() -> str:
    """Return this host's own name."""
    return os.uname().nodename


def working_directory() -> str:
    """Return the working directory without symbolic links; empty if it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - text is wanted
    except OSError:
        return ""


def boot_id() -> str:
    """Return the kernel's id of this boot; empty where it has none."""
    try:
        return processes.read_proc("sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return ""


def usable_cpus() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0))


def physical_memory() -> int:
    """Return this machine's memory, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def process_start_s(pid: int, *, include_zombies: bool = False) -> float | None:
    """Return the seconds from boot to the start of a process; ``None`` when there is no such process.

    With `include_zombies`, a zombie (ended, not yet reaped by its parent) counts too.
    """
    fields = _read_stat(pid)
    if fields is None or (fields[0] in "ZX" and not include_zombies):
        return None
    return int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")


def _read_stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` from the state on; ``None`` when there is no such process."""
    try:
        stat = processes.read_proc(f"{pid}/stat").decode("utf-8", "replace")
    except OSError:
        return None
    # The name in parentheses may itself contain spaces and parentheses.
    return stat.rpartition(")")[2].split()


def is_same_process(pid: int, start_s: float, *, include_zombies: bool = False) -> bool:
    """Whether a process id still belongs to the process that started about `start_s` seconds after boot."""
    start = process_start_s(pid, include_zombies=include_zombies)
    return start is not None and abs(start - start_s) < 1.0


def parent_process(pid: int) -> int | None:
    """Return the parent of a process, which may be a zombie; ``None`` when there is no such process."""
    fields = _read_stat(pid)
    return None if fields is None else int(fields[1])


def process_name(pid: int) -> str:
    """Return a process's program name as the kernel keeps it (15 bytes); empty when there is no such process."""
    try:
        return processes.read_proc(f"{pid}/comm").decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return ""


def process_command(pid: int) -> list[str]:
    """Return a process's command line; empty when there is no such process."""
    try:
        return processes.read_proc(f"{pid}/cmdline").decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def process_folder(pid: int) -> str:
    """Return a process's working directory, as the kernel names it; empty when it cannot be read."""
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    """List all descendants of a process, without zombies."""
    children: dict[int, list[int]] = {}
    for entry in processes.list_proc():
        fields = _read_stat(int(entry)) if entry.isdigit() else None
        if fields is not None and fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    stack = [pid]
    while stack:
        child_ids = children.get(stack.pop(), [])
        found += child_ids
        stack += child_ids
    return found


def processes_with_variable(variable: str, value: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Find the readable processes whose environment has a variable with this value; yields id and environment."""
    assignment = f"{variable}={value}".encode()
    for entry in processes.list_proc():
        if not entry.isdigit():
            continue
        try:
            words = processes.read_proc(f"{entry}/environ").split(b"\0")
        except OSError:
            continue
        if assignment in words:
            pairs = (word.decode(errors="surrogateescape").partition("=") for word in words if word)
            yield int(entry), {name: text for name, _, text in pairs}


def user_folder(env: Mapping[str, str]) -> Path:
    """Return the folder of this user's configuration."""
    folder = Path(env.get("XDG_CONFIG_HOME", ""))
    return (folder if folder.is_absolute() else Path(env.get("HOME") or "~").expanduser() / ".config") / "longshore"


def system_folders(env: Mapping[str, str]) -> list[Path]:
    """List the folders of this machine's configuration, strongest first."""
    names = (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    # The XDG base directory specification ignores relative paths.
    return [Path(name) / "longshore" for name in names if name.startswith("/")]
