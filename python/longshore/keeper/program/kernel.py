"""System calls of the keeper: files, processes, signals and time, through one replaceable object.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import sys
import threading
import time

_PR_SET_CHILD_SUBREAPER = 36
_TAIL_B = 1 << 20
"""Most bytes of the end of a log that are kept when it is cut."""
_LINES_B = 512
"""Room for the lines that say what was cut, and why the job was ended."""


class System:
    """The functions of the operating system that the keeper calls; a simulation puts others in their place.

    Each attribute is the function of the standard library itself, so that a call costs no more than it.
    """

    # Files
    open = staticmethod(os.open)
    close = staticmethod(os.close)
    read = staticmethod(os.read)
    write = staticmethod(os.write)
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    fsync = staticmethod(os.fsync)
    ftruncate = staticmethod(os.ftruncate)
    stat = staticmethod(os.stat)
    lstat = staticmethod(os.lstat)
    fstat = staticmethod(os.fstat)
    utime = staticmethod(os.utime)
    lexists = staticmethod(os.path.lexists)
    isfile = staticmethod(os.path.isfile)
    realpath = staticmethod(lambda path: str(os.path.realpath(path)))
    readlink = staticmethod(os.readlink)
    access = staticmethod(os.access)
    getxattr = staticmethod(os.getxattr)
    listdir = staticmethod(os.listdir)
    mkdir = staticmethod(os.mkdir)
    makedirs = staticmethod(os.makedirs)
    rmdir = staticmethod(os.rmdir)
    rename = staticmethod(os.rename)
    flock = staticmethod(fcntl.flock)
    fcntl = staticmethod(fcntl.fcntl)
    pipe = staticmethod(os.pipe)
    set_blocking = staticmethod(os.set_blocking)
    select = staticmethod(select.select)
    # Processes
    getpid = staticmethod(os.getpid)
    getppid = staticmethod(os.getppid)
    sched_getaffinity = staticmethod(os.sched_getaffinity)
    uname = staticmethod(os.uname)
    sysconf = staticmethod(os.sysconf)
    chdir = staticmethod(os.chdir)
    posix_spawn = staticmethod(os.posix_spawn)
    c_library = staticmethod(lambda: ctypes.CDLL(None))
    start_thread = staticmethod(lambda target: threading.Thread(target=target, daemon=True).start())
    set_switch_interval = staticmethod(sys.setswitchinterval)
    waitid = staticmethod(os.waitid)
    wait4 = staticmethod(os.wait4)
    # Signals
    kill = staticmethod(os.kill)
    killpg = staticmethod(os.killpg)
    set_signal = staticmethod(signal.signal)
    set_wakeup_fd = staticmethod(signal.set_wakeup_fd)
    block_signals = staticmethod(signal.pthread_sigmask)
    wait_for_signal = staticmethod(signal.sigtimedwait)
    # Time
    monotonic = staticmethod(time.monotonic)
    thread_time = staticmethod(time.thread_time)
    clock_gettime = staticmethod(time.clock_gettime)
    time = staticmethod(time.time)


system = System()
"""The door of all modules of the keeper."""


def open_log(path: str) -> int:
    """Open a log for appending, and make its folder if it is missing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        return system.open(path, flags, 0o666)
    except FileNotFoundError:
        system.makedirs(os.path.dirname(path), exist_ok=True)
        return system.open(path, flags, 0o666)


def append_to_log(path: str, text: str) -> None:
    """Append a line on the fate of an attempt to its log."""
    try:
        log = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            system.write(log, ("longshore: %s\n" % text).encode("utf-8", "backslashreplace"))
        finally:
            system.close(log)
    except OSError:
        # The record says it as well; an unwritable log may be the very reason.
        pass


def find_log(pid: int, folder: str) -> str | None:
    """Return the log of a process: the file below a folder to which its output or its errors go."""
    for number in (1, 2):
        try:
            path = system.readlink("/proc/%d/fd/%d" % (pid, number))
        except OSError:
            continue
        if path.startswith(folder + "/"):
            return path
    return None


def trim_log(path: str, most: int) -> None:
    """Cut the middle out of a log, so that it has room for a line within `most` bytes; keep head and tail."""
    try:
        file = system.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        size = system.fstat(file).st_size
        room = max(0, most - _LINES_B)
        # Only the tail is moved, so it is short.
        tail = system.pread(file, min(room // 2, _TAIL_B), max(0, size - min(room // 2, _TAIL_B)))
        head = room - len(tail)
        cut = size - head - len(tail)
        if cut > 0:
            line = b"\nlongshore: %d bytes were cut here, because of maxLogSize\n" % cut
            # The next line, on why the job was ended, begins a line.
            text = line + tail.removesuffix(b"\n") + b"\n"
            # A short write leaves less of the tail, never more of the log.
            system.ftruncate(file, head + system.pwrite(file, text, head))
    except OSError:
        # The record says that the log was too large; an unwritable log may be the very reason.
        pass
    finally:
        system.close(file)


def read_file(path: str) -> bytes:
    """Read a file of the kernel's."""
    file = system.open(path, os.O_RDONLY)
    try:
        text = b""
        while chunk := system.read(file, 65536):
            text += chunk
        return text
    finally:
        system.close(file)


def number_after(word: bytes, text: bytes) -> int | None:
    """Return the number on the line that begins with a word; ``None`` if it is missing."""
    for line in text.splitlines():
        if line.startswith(word):
            return int(line[len(word) :])
    return None


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone."""
    try:
        system.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def peak_memory() -> int:
    """Return the peak memory of this program, in KiB.

    `getrusage` is no use for that: for the process itself it also counts the memory of the process that started it.
    """
    for line in read_file("/proc/self/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1])
    return 0


def boot_id() -> str:
    """Return the kernel's identifier of this boot."""
    return read_file("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def become_subreaper() -> None:
    """Make this process the child subreaper: processes whose parents die become its children, and it can reap them."""
    system.c_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
