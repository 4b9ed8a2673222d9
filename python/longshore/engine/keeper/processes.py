"""Knows which processes an attempt consists of, and how much memory they have together, from what ``/proc`` tells.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.

An attempt is the session of its first process, and all that these processes started, in whatever session. A process
that went into a session of its own, and whose parent ended before anybody looked, is the one kind that is missed.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_FORGET = 40
"""Looks after which strangers are looked at again: a number may have gone to another process."""


class Processes:
    """The processes of the attempts that are followed.

    Parameters
    ----------
    proc
        Where the kernel tells of processes.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self.proc = proc
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.owner: dict[int, int | None] = {}
        """First process of the attempt that each belongs to; ``None`` for a stranger."""
        self.members: dict[int, dict[int, str]] = {}
        """Processes per attempt, with when each began as the kernel counts it."""
        self.looks = 0

    def follow(self, leader: int) -> None:
        """Follow an attempt."""
        self.members[leader] = {}
        # The number may have been that of another.
        self.owner.pop(leader, None)

    def forget(self, leader: int) -> dict[int, str]:
        """Follow an attempt no longer, and return the processes it had."""
        members = self.members.pop(leader, {})
        for pid in members:
            self.owner.pop(pid, None)
        return members

    def of(self, leader: int) -> Mapping[int, str]:
        """The processes of an attempt."""
        return self.members.get(leader, {})

    def refresh(self) -> None:
        """Learn whose the processes are that were not there the last time."""
        there = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        self.looks += 1
        for pid in [pid for pid in self.owner if pid not in there]:
            leader = self.owner.pop(pid)
            if leader is not None:
                self.members.get(leader, {}).pop(pid, None)
        if self.looks % _FORGET == 0:
            self.owner = {pid: leader for pid, leader in self.owner.items() if leader is not None}
        new = {pid: found for pid in there - self.owner.keys() if (found := self.stat_of(pid)) is not None}
        for pid in new:
            self.settle(pid, new)

    def settle(self, pid: int, new: dict[int, tuple[int, int, str]]) -> None:
        """Find whose a process is: by its session, or that of the process it comes from."""
        chain = []
        leader = None
        while pid in new and pid not in self.owner:
            chain.append(pid)
            # Against rings, which processes do not form, but numbers that are given away again might.
            self.owner[pid] = None
            parent, session, _ = new[pid]
            if session in self.members:
                leader = session
                break
            pid = parent
        else:
            leader = self.owner.get(pid)
        for each in chain:
            self.owner[each] = leader
            if leader in self.members:
                self.members[leader][each] = new[each][2]

    def sampled_memory(self, leader: int) -> int:
        """About what processes use together: what each has alone, and the most that one of them shares."""
        own = shared = 0
        for text in self.memories(leader).values():
            fields = text.split()
            if len(fields) > 2:
                own += int(fields[1]) - int(fields[2])
                shared = max(shared, int(fields[2]))
        return (own + shared) * self.page

    def exact_memory(self, leader: int, otherwise: int) -> int:
        """What processes use together, shared pages counted once; `otherwise` where the kernel does not tell."""
        total = 0
        for pid in self.memories(leader):
            for line in self.read("%d/smaps_rollup" % pid).splitlines():
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1]) * 1024
        return total or otherwise

    def memories(self, leader: int) -> dict[int, bytes]:
        """What the kernel says of the memory of each process that has one of its own.

        Between vfork and exec a process lives in the memory of its parent, which waits meanwhile, and of both the
        kernel tells the same. Were it counted twice, an attempt that starts many programs, and uses more than half of
        what it may have, would be ended sooner or later.
        """
        said = {pid: self.read("%d/statm" % pid) for pid in self.members[leader]}
        alike: dict[bytes, list[int]] = {}
        for pid, text in said.items():
            alike.setdefault(text, []).append(pid)
        for same in alike.values():
            for pid in same if len(same) > 1 else ():
                found = self.stat_of(pid)
                if found is None or found[0] in same:
                    del said[pid]
        return said

    def kill(self, members: Mapping[int, str]) -> None:
        """Kill single processes, unless their numbers have gone to others."""
        for pid, began in members.items():
            found = self.stat_of(pid)
            if found is not None and found[2] == began:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass

    def stat_of(self, pid: int) -> tuple[int, int, str] | None:
        """Parent, session and beginning of a process; ``None`` when it is gone."""
        text = self.read("%d/stat" % pid)
        # The name of the program, in brackets, may have anything in it.
        fields = text.rpartition(b")")[2].split()
        return (int(fields[1]), int(fields[3]), fields[19].decode()) if len(fields) > 19 else None

    def read(self, name: str) -> bytes:
        """What the kernel says under a name; nothing when the process is gone."""
        try:
            file = os.open(os.path.join(self.proc, name), os.O_RDONLY)
        except OSError:
            return b""
        try:
            return os.read(file, 65536)
        except OSError:
            return b""
        finally:
            os.close(file)
