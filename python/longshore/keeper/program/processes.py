"""Process trees of attempts: finds the processes of an attempt in ``/proc``, sums their memory, and kills them.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.

An attempt is the session of its first process, and all descendants of these processes, in any session. The only process
that is missed is one in a session of its own whose parent ended before the next scan. The reason is in decision 0005.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "processes":
    from longshore.keeper.program.kernel import system
else:
    # The copy beside the keeper is not in a package.
    from kernel import system

if TYPE_CHECKING:
    from collections.abc import Mapping

_RECHECK_SCANS = 40
"""Scans after which foreign processes are checked again: a number may have gone to another process."""
_KILL_PAUSE_S = 0.01


class Processes:
    """Processes of the followed attempts; `proc` is the mount point of procfs."""

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.page = system.sysconf("SC_PAGE_SIZE")
        self.owner: dict[int, int | None] = {}
        """First process of each process's attempt; ``None`` for a foreign process."""
        self.members: dict[int, dict[int, str]] = {}
        """Processes per attempt, with their start times as the kernel counts them."""
        self.scans = 0

    def follow(self, leader: int) -> None:
        """Follow an attempt."""
        self.members[leader] = {}
        # The number may have been another process's.
        self.owner.pop(leader, None)

    def unfollow(self, leader: int) -> dict[int, str]:
        """Stop following an attempt, and return its processes."""
        members = self.members.pop(leader, {})
        for pid in members:
            self.owner.pop(pid, None)
        return members

    def processes_of(self, leader: int) -> Mapping[int, str]:
        """Return the processes of an attempt."""
        return self.members.get(leader, {})

    def refresh(self) -> None:
        """Assign the processes that are new since the last scan to their attempts."""
        existing = {int(name) for name in system.listdir(self.proc) if name.isdigit()}
        self.scans += 1
        for pid in [pid for pid in self.owner if pid not in existing]:
            leader = self.owner.pop(pid)
            if leader is not None:
                self.members.get(leader, {}).pop(pid, None)
        if self.scans % _RECHECK_SCANS == 0:
            self.owner = {pid: leader for pid, leader in self.owner.items() if leader is not None}
        new = {pid: stat for pid in existing - self.owner.keys() if (stat := self.read_stat(pid)) is not None}
        for pid in new:
            self.assign(pid, new)

    def assign(self, pid: int, new: dict[int, tuple[int, int, str]]) -> None:
        """Assign a process to an attempt: by its session, or by that of an ancestor."""
        chain = []
        leader = None
        while pid in new and pid not in self.owner:
            chain.append(pid)
            # Against cycles: processes form none, but reused numbers might.
            self.owner[pid] = None
            parent, session, _ = new[pid]
            if session in self.members:
                leader = session
                break
            pid = parent
        else:
            leader = self.owner.get(pid)
        for member in chain:
            self.owner[member] = leader
            if leader in self.members:
                self.members[leader][member] = new[member][2]

    def sampled_memory(self, leader: int) -> int:
        """Estimate an attempt's memory in bytes: unshared memory of each process, plus the largest shared part."""
        own = shared = 0
        for text in self.read_memory_records(leader).values():
            fields = text.split()
            if len(fields) > 2:
                own += int(fields[1]) - int(fields[2])
                shared = max(shared, int(fields[2]))
        return (own + shared) * self.page

    def exact_memory(self, leader: int, otherwise: int) -> int:
        """Return the memory of an attempt in bytes, shared pages counted once (PSS); `otherwise` if unknown."""
        total = 0
        for pid in self.read_memory_records(leader):
            for line in self.read("%d/smaps_rollup" % pid).splitlines():
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1]) * 1024
        return total or otherwise

    def read_memory_records(self, leader: int) -> dict[int, bytes]:
        """Return the kernel's memory record of each process that has memory of its own.

        Between vfork and exec a process lives in the memory of its parent, which waits meanwhile, and the kernel
        reports the same memory for both. If both were counted, an attempt that starts many programs, and uses more than
        half of its limit, would be killed sooner or later.
        """
        records = {pid: self.read("%d/statm" % pid) for pid in self.members[leader]}
        by_record: dict[bytes, list[int]] = {}
        for pid, text in records.items():
            by_record.setdefault(text, []).append(pid)
        for equal in by_record.values():
            for pid in equal if len(equal) > 1 else ():
                stat = self.read_stat(pid)
                if stat is None or stat[0] in equal:
                    del records[pid]
        return records

    def kill(self, members: Mapping[int, str]) -> None:
        """Kill single processes, unless their numbers have gone to others."""
        for pid, start_time in members.items():
            stat = self.read_stat(pid)
            if stat is not None and stat[2] == start_time:
                try:
                    system.kill(pid, signal.SIGKILL)
                except OSError:
                    pass

    def read_stat(self, pid: int) -> tuple[int, int, str] | None:
        """Return parent, session and start time of a process; ``None`` when it is gone."""
        text = self.read("%d/stat" % pid)
        # The name of the program, in brackets, may have anything in it.
        fields = text.rpartition(b")")[2].split()
        return (int(fields[1]), int(fields[3]), fields[19].decode()) if len(fields) > 19 else None

    def read(self, name: str) -> bytes:
        """Read a file of procfs; empty when the process is gone."""
        try:
            file = system.open(os.path.join(self.proc, name), os.O_RDONLY)
        except OSError:
            return b""
        try:
            return system.read(file, 65536)
        except OSError:
            return b""
        finally:
            system.close(file)


def kill_descendants() -> None:
    """Kill the descendants of this process, which must be a child subreaper, and reap them until none is left."""
    while True:
        for pid in find_descendants(system.getpid()):
            try:
                system.kill(pid, signal.SIGKILL)
            except OSError:
                # It is gone, or runs as another user.
                pass
        try:
            while system.wait4(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        # A process inside the kernel does not die at once.
        system.select([], [], [], _KILL_PAUSE_S)


def find_descendants(ancestor: int) -> set[int]:
    """Return the processes below another."""
    children: dict[int, list[int]] = {}
    for name in system.listdir("/proc"):
        if name.isdigit() and (parent := read_parent(name)):
            children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    unvisited = [ancestor]
    while unvisited:
        below = children.get(unvisited.pop(), [])
        found.update(below)
        unvisited += below
    return found


def read_parent(name: str) -> int:
    """Return the parent of a process; 0 when it is gone."""
    try:
        file = system.open("/proc/%s/stat" % name, os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int(system.read(file, 4096).rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0
    finally:
        system.close(file)
