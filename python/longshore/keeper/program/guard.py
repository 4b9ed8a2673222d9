"""Guard program: starts the keeper, and takes over its orphans when it is killed, so that their ends are not lost.

It is the program that an engine starts, as ``python -I -S -B guard.py RECORDS TMP NEXT WHERE [BOUND | UNITS]``; see the
keeper for these words. It forks the keeper from itself and then sleeps until the keeper is dead. A keeper that ended by
itself leaves nothing to do. One that was killed leaves its jobs to the guard, which waits for them as their reaper, and
holds them to their limits; see `orphans`.

The file RECORDS with the suffix ``.guard`` is locked while the guard lives, and stays empty as long as the keeper
does. Its records, as lines with a running checksum like those of the keeper, are, by ``r``::

    {"r": "guard", "v": 2, "pid", "keeper", "s"}    first: the keeper is dead; its process and wait status
    {"r": "end", "pid", "up", "t", "at",            an orphan ended, written before it is reaped; up, at: its start and
     "s": wait status, "cpu": seconds,              end in seconds since boot
     "why", "say", "rss"}                           where a limit ended it, as in records of the keeper
    {"r": "usage", "pid", "up", "cpu": seconds,     after it was reaped, as the kernel counts
     "rss": bytes or null}

With the word BOUND, ``bound``, no job outlives the process that started the guard, nor the keeper: when one of them
dies, the guard kills the keeper and all descendants. A keeper may hang on a file server, but a guard touches none.

The guard lives as long as the keeper, so it imports as little as possible, and calls the C library for the rest.
The reason is in decision 0066.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Iterator

    from longshore.keeper.program.orphans import Orphans

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOCK_EX = 2
_SIG_IGN = 1
_IGNORED_SIGNALS = (1, 2, 15)
"""SIGHUP, SIGINT and SIGTERM, whose numbers are the same everywhere; Python ignores SIGPIPE and SIGXFSZ itself."""
_SIGKILL = 9
_SIGTERM = 15
_BOUND = "bound"
_RETRY_S = 0.5
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL | os.O_NOFOLLOW
_BLOCK_B = 1 << 16
_START_TICKS = 19
"""Position of a process's start time in ``/proc/PID/stat``, from the state after the name (see proc(5))."""
_CPU_TICKS = slice(11, 15)
"""Positions of its processor times there, with those of the children that it waited for."""
_START_RECORD = b'{"r":"start"'
_PID_KEY = b'"pid":'


class GuardSystem:
    """The functions of the operating system that the guard calls; a simulation puts others in their place."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    dup2 = staticmethod(os.dup2)
    read = staticmethod(os.read)
    write = staticmethod(os.write)
    lexists = staticmethod(os.path.lexists)
    sysconf = staticmethod(os.sysconf)
    fork = staticmethod(os.fork)
    getpid = staticmethod(os.getpid)
    getppid = staticmethod(os.getppid)
    exit = staticmethod(os._exit)
    waitid = staticmethod(os.waitid)
    wait4 = staticmethod(os.wait4)
    killpg = staticmethod(os.killpg)
    c_library = staticmethod(lambda: ctypes.CDLL(None))
    clock_gettime = staticmethod(time.clock_gettime)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)


system = GuardSystem()
"""The guard's door; the keeper's would make it import as much as the keeper."""


def main() -> None:
    """Fork the keeper, and wait for it and for its orphans."""
    records = sys.argv[1]
    is_bound = sys.argv[5:] == [_BOUND]
    parent = system.getppid() if is_bound else 0
    library = system.c_library()
    for number in _IGNORED_SIGNALS:
        library.signal(number, ctypes.c_void_p(_SIG_IGN))
    library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        file = system.open(guard_path(records), _FLAGS, 0o644)
        units = open_units(sys.argv)
    except OSError as error:
        sys.exit("longshore: the keeper cannot start: %s" % error)
    library.flock(file, _LOCK_EX)
    try:
        keeper = system.fork()
    except OSError as error:
        # The engine tells by it whether to try again later.
        sys.exit(error.errno)
    if not keeper:
        system.close(file)
        run_keeper()
        return
    guard = Guard(keeper, records, file, is_bound=is_bound, units=units)
    # The engine sees by the pipes whether the keeper lives.
    null_file = system.open(os.devnull, os.O_RDWR)
    system.dup2(null_file, 0)
    system.dup2(null_file, 1)
    if parent:
        end_with(parent, library)
    while guard.wait():
        pass


def open_units(words: list[str]) -> int | None:
    """Open the file of units, where there is one, and put its number in the place of its path, for the keeper."""
    if words[5:] in ([], [_BOUND]):
        return None
    file = system.open(words[5], os.O_RDWR | os.O_NOFOLLOW)
    words[5] = str(file)
    return file


def end_with(parent: int, library: ctypes.CDLL) -> None:
    """Kill keeper and jobs when the parent dies, and end."""
    # Not for every guard, because this module is larger than the rest of it.
    from signal import signal

    is_ending = False

    def end_without_parent(*_: object) -> None:
        nonlocal is_ending
        # The signal may have come from another process; and it comes again when another thread of the parent dies.
        if not is_ending and not is_parent(parent):
            is_ending = True
            kill_all()
            system.exit(0)

    signal(_SIGTERM, end_without_parent)
    library.prctl(_PR_SET_PDEATHSIG, _SIGTERM, 0, 0, 0)
    # It may have died before the call.
    end_without_parent()


def is_parent(pid: int) -> bool:
    """Return whether a process is the parent, and its main thread lives; another thread may hang in the kernel."""
    if system.getppid() != pid:
        return False
    try:
        file = system.open("/proc/%d/stat" % pid, os.O_RDONLY)
        state = system.read(file, 4096).rpartition(b")")[2][1:2]
        system.close(file)
    except OSError:
        return False
    return state not in {b"Z", b"X"}


def kill_all() -> None:
    """Kill the keeper and all jobs, and reap them."""
    if TYPE_CHECKING or __name__ != "__main__":
        from longshore.keeper.program.processes import kill_descendants
    else:
        find_modules()
        from processes import kill_descendants
    kill_descendants()


def run_keeper() -> None:
    """Run the keeper in this process."""
    find_modules()
    __import__("keeper").main()


def find_modules() -> None:
    """Let this process import the modules beside this one."""
    sys.dont_write_bytecode = True
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))


def guard_path(records: str) -> str:
    """Return the path of the guard's file beside the keeper's."""
    return records.removesuffix(".jsonl") + ".guard"


class Guard:
    """Waits for the keeper, and for the processes that become its own when the keeper dies.

    `records` is the keeper's file, and `file` the guard's, open to append. A bound guard kills the jobs then. `units`
    is the file of units that it shares with the keeper.
    """

    def __init__(
        self, keeper: int, records: str, file: int, *, is_bound: bool = False, units: int | None = None
    ) -> None:
        self.keeper = keeper
        self.is_bound = is_bound
        self.records = records
        self.file = file
        self.units = units
        self.crc = 0
        self.ticks = system.sysconf("SC_CLK_TCK")
        self.keeper_peak_kib = 0
        """Peak memory of the keeper. Until it runs its program, a process counts that of its maker."""
        self.starts: dict[int, bytes] = {}
        """Start records of its jobs, by process, each of which leads its group; empty while the keeper lives."""
        self.orphans: Orphans | None = None
        """These jobs under their limits; ``None`` while the keeper lives."""

    def wait(self) -> bool:
        """Wait for the next end and record it, or check limits; return whether to go on."""
        if self.orphans is not None:
            self.orphans.check()
        try:
            # Left unreaped until it is recorded: if the guard is killed as well, the next reaper finds it.
            options = os.WEXITED | os.WNOWAIT | (os.WNOHANG if self.orphans else 0)
            ended = system.waitid(os.P_ALL, 0, options)
        except ChildProcessError:
            return False
        if ended is None:
            if self.orphans is not None:
                self.orphans.wait()
            return True
        status = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
        if ended.si_code == os.CLD_DUMPED:
            status |= 0x80
        if ended.si_pid != self.keeper:
            self.record_end(ended.si_pid, status)
            return True
        _, _, usage = system.wait4(self.keeper, 0)
        self.keeper_peak_kib = usage.ru_maxrss
        if status:
            self.add('{"r":"guard","v":2,"pid":%d,"keeper":%d,"s":%d}' % (system.getpid(), self.keeper, status))
            if self.is_bound:
                kill_all()
                return False
            self.starts = self.find_starts()
            self.orphans = self.watch_orphans()
        return bool(status)

    def watch_orphans(self) -> Orphans | None:
        """Load what holds the jobs to their limits; ``None`` if that fails, because their ends are worth more."""
        try:
            if TYPE_CHECKING or __name__ != "__main__":
                from longshore.keeper.program.orphans import Orphans
            else:
                find_modules()
                from orphans import Orphans
            folder = os.path.dirname(os.path.dirname(os.path.abspath(self.records)))
            return Orphans(self.starts, os.path.join(folder, "logs"), self.units)
        except (ImportError, OSError, ValueError) as error:
            sys.stderr.write("longshore: limits of jobs whose keeper is dead are not checked: %r\n" % error)
            return None

    def record_end(self, pid: int, status: int) -> None:
        """Record the end of an orphan, end what it leaves in its group, and reap it."""
        fields = self.read_file("/proc/%d/stat" % pid).rpartition(b")")[2].split()
        up_s = int(fields[_START_TICKS]) / self.ticks
        cpu_s = sum(map(int, fields[_CPU_TICKS])) / self.ticks
        now_s = system.clock_gettime(time.CLOCK_BOOTTIME)
        if pid in self.starts:
            try:
                system.killpg(pid, _SIGKILL)
            except OSError:
                pass
        notes = self.orphans.end(pid, status) if self.orphans else ""
        record = '{"r":"end","pid":%d,"up":%.2f,"t":%.6f,"at":%.6f,"s":%d,"cpu":%.2f%s}'
        self.add(record % (pid, up_s, system.time(), now_s, status, cpu_s, notes))
        _, _, usage = system.wait4(pid, 0)
        self.add('{"r":"usage","pid":%d,"up":%.2f,"cpu":%.6f,"rss":%s}' % (pid, up_s, *self.describe(usage)))

    def describe(self, usage: resource.struct_rusage) -> tuple[float, str]:
        """Return seconds of processor time, and the peak memory in bytes as JSON."""
        peak = "%d" % (usage.ru_maxrss * 1024) if usage.ru_maxrss > self.keeper_peak_kib else "null"
        return usage.ru_utime + usage.ru_stime, peak

    def find_starts(self) -> dict[int, bytes]:
        """Return the keeper's start records of the processes that still exist."""
        found: dict[int, bytes] = {}
        if not system.lexists(self.records):
            # The keeper could not even begin its file.
            return found
        rest = b""
        for block in self.read_blocks(self.records):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                if line.startswith(_START_RECORD):
                    number = line.partition(_PID_KEY)[2].partition(b",")[0]
                    if number.isdigit() and system.lexists("/proc/%d" % int(number)):
                        found[int(number)] = line
        return found

    def add(self, record: str) -> None:
        """Write a record; a full disk delays it but never loses it."""
        # Needed only once the keeper is dead.
        from zlib import crc32

        line = record[:-1].encode()
        self.crc = crc32(line, self.crc)
        tail = b',"c":"%08x"}\n' % self.crc
        self.crc = crc32(tail, self.crc)
        line += tail
        while line:
            try:
                line = line[system.write(self.file, line) :]
            except OSError:
                system.sleep(_RETRY_S)

    def read_file(self, path: str) -> bytes:
        """Read a whole file."""
        return b"".join(self.read_blocks(path))

    def read_blocks(self, path: str) -> Iterator[bytes]:
        """Read a file in blocks."""
        file = system.open(path, os.O_RDONLY)
        while block := system.read(file, _BLOCK_B):
            yield block
        system.close(file)


if __name__ == "__main__":
    main()
