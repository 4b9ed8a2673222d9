"""Ends attempts that use more memory, time or log than they may: the part of the keeper that looks at what it started.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.

Memory is that of the whole tree of processes, those included that went into a session of their own. What is sampled is
cheap: memory of their own, process by process, and the largest share they have in common. Only when that is beyond the
limit, the kernel is asked for the exact sum (PSS, which counts a page that several processes share once), and what goes
beyond the limit by that is killed at once, as the kernel would: it has no memory left to tidy up with. An attempt that
is out of time, or floods its log, gets the signals it was promised first.

All samples of one look are taken in one pass over the processes there are, and a look is followed by a pause of a
hundred times as long: a thousand attempts cost a hundredth of a processor, a handful is looked at four times a second.
"""

from __future__ import annotations

import heapq
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "watchdog":
    from longshore.engine.keeper.kernel import number_after, say_in_log, send
else:
    # Beside the keeper, there is no package.
    from kernel import number_after, say_in_log, send

if TYPE_CHECKING:
    from longshore.engine.keeper.cgroups import Groups
    from longshore.engine.keeper.processes import Processes
    from longshore.engine.keeper.protocol import EndNotes, LimitsOrder

_MIB = 1 << 20
_NO_LIMIT = float("inf")
_SHARE = 100.0
"""How much longer than a look the pause after it is."""
_SHORTEST_S = 0.25
_LONGEST_S = 10.0
_AGAIN_S = 1.0
"""A process in the kernel's hands does not die at once: it is killed again after that time."""
_EXIT_KILLED = 128 + signal.SIGKILL
"""What a shell exits with whose command was killed."""


class Watched:
    """One attempt that is watched.

    Parameters
    ----------
    pid
        Its first process, which leads its group and its session.
    limits
        ``mem`` and ``asked``: bytes it may use, and bytes it asked for; ``wall``: seconds; ``log``: bytes; ``sig``:
        signals to send one after another; ``grace``: seconds between them, and before it is killed; ``tmp``: whether
        its temporary directory is kept, ``failed`` or ``all``. Each of them may be absent.
    log
        Path of its log.
    """

    def __init__(self, pid: int, limits: LimitsOrder, log: str) -> None:
        self.pid = pid
        self.log = log
        self.tmp: str = limits.get("tmp", "none")
        self.memory: float = limits.get("mem", _NO_LIMIT)
        self.asked: float = limits.get("asked", self.memory)
        self.wall: float = limits.get("wall", _NO_LIMIT)
        self.most_log: float = limits.get("log", _NO_LIMIT)
        self.signals: list[int] = list(limits.get("sig", (signal.SIGTERM,)))
        self.grace: float = limits.get("grace", 10.0)
        self.peak = 0
        self.group: str | None = None
        """The control group that holds it to its memory; ``None`` where that is sampled."""
        self.why = ""
        self.say = ""
        self.due = _NO_LIMIT
        """When its time is over, or the next signal is to be sent."""


class Watchdog:
    """Looks at attempts, and ends those that go beyond their limits.

    Parameters
    ----------
    processes
        Knows which processes belong to an attempt.
    groups
        Has the kernel hold attempts to their memory; ``None`` where that is not possible.
    """

    def __init__(self, processes: Processes, groups: Groups | None = None) -> None:
        self.processes = processes
        self.groups = groups
        self.watched: dict[int, Watched] = {}
        self.sampled: dict[int, Watched] = {}
        """Those whose memory is looked at."""
        self.logged: dict[int, Watched] = {}
        """Those whose log is looked at."""
        self.timers: list[tuple[float, int]] = []
        """When something is due for an attempt, soonest first; times that hold no more are passed over."""
        self.next_look = 0.0
        self.oom_kills = self.count_oom_kills()
        self.unexplained = 0
        """Processes the kernel killed for want of memory that no attempt has been blamed for."""

    # ------------------------------------------------------------------------------------------------ what it is told

    def begin(self, pid: int, limits: LimitsOrder, log: str, *, ran: float = 0.0) -> None:
        """Watch an attempt from now on, which has run for some seconds already if nobody watched it so far."""
        now = time.monotonic()
        watched = self.watched[pid] = Watched(pid, limits, log)
        if watched.wall < _NO_LIMIT:
            self.set_timer(watched, now - ran + watched.wall)
        if watched.most_log < _NO_LIMIT:
            self.logged[pid] = watched
        if watched.memory < _NO_LIMIT and self.groups is not None:
            watched.group = self.groups.hold("%s-%d" % (os.path.basename(log), pid), pid, int(watched.memory))
        if watched.memory < _NO_LIMIT and watched.group is None:
            self.sampled[pid] = watched
            self.processes.follow(pid)
        # One that has just begun has not had the time to do harm.
        self.next_look = max(self.next_look, now + _SHORTEST_S)

    def ended(self, pid: int, status: int, peak: int | None) -> EndNotes:
        """What there is to say of an attempt that ended, beside its status.

        Parameters
        ----------
        pid
            Its first process.
        status
            How that ended.
        peak
            The most memory that any one of its processes had, as far as the kernel says.
        """
        watched = self.watched.pop(pid, None)
        fields: EndNotes = {}
        if watched is not None:
            self.sampled.pop(pid, None)
            self.logged.pop(pid, None)
            self.leave_group(watched)
            rest = self.processes.forget(pid)
            if watched.peak > (peak or 0):
                fields["rss"] = watched.peak
            if watched.why:
                # What it sent away in sessions of their own does not end with its group.
                self.processes.kill(rest)
                fields["why"], fields["say"] = watched.why, watched.say
                return fields
        if self.killed_by_kernel(status):
            fields["why"] = "OOM"
            fields["say"] = "the kernel killed it, or a process of it, for want of memory"
        return fields

    def leave_group(self, watched: Watched) -> None:
        """Take in what the kernel knows of an attempt in a group of its own, and be done with the group."""
        if self.groups is None or watched.group is None:
            return
        watched.peak = self.groups.peak(watched.group)
        if not watched.why and self.groups.killed(watched.group):
            watched.why = "OOM"
            watched.say = "the kernel killed it; it asked for %.0f MiB, and may have %.0f MiB" % (
                watched.asked / _MIB,
                watched.memory / _MIB,
            )
            say_in_log(watched.log, "%s: %s" % (watched.why, watched.say))
        self.groups.end(watched.group)

    def concerns(self, pid: int, status: int) -> bool:
        """Whether there can be anything to say of an attempt that ended; of most there is not."""
        return pid in self.watched or status != 0

    def keeps_tmp(self, pid: int, status: int) -> bool:
        """Whether an attempt's temporary directory is kept; asked before `ended`."""
        watched = self.watched.get(pid)
        if watched is None:
            return False
        return watched.tmp == "all" or (watched.tmp == "failed" and bool(status or watched.why))

    def say(self, pid: int, text: str) -> None:
        """Say something in the log of an attempt; asked before `ended`."""
        say_in_log(self.watched[pid].log, text)

    # ------------------------------------------------------------------------------------------------------- looking

    def due(self) -> float | None:
        """Seconds until the next look; ``None`` while nothing is watched."""
        while self.timers and not self.holds(*self.timers[0]):
            heapq.heappop(self.timers)
        first = self.timers[0][0] if self.timers else _NO_LIMIT
        if self.sampled or self.logged:
            first = min(first, self.next_look)
        return None if first == _NO_LIMIT else max(0.0, first - time.monotonic())

    def holds(self, due: float, pid: int) -> bool:
        """Whether a timer has not been set anew, and its attempt is not over."""
        watched = self.watched.get(pid)
        return watched is not None and watched.due == due

    def set_timer(self, watched: Watched, due: float) -> None:
        """See to an attempt at some time."""
        watched.due = due
        heapq.heappush(self.timers, (due, watched.pid))

    def look(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            due, pid = heapq.heappop(self.timers)
            if self.holds(due, pid):
                self.overdue(self.watched[pid], now)
        if now < self.next_look or not (self.sampled or self.logged):
            return
        # Time of the processor, not of the clock: on a busy machine most of a look is waiting, which costs nobody.
        worked = time.thread_time()
        for watched in self.logged.values():
            if not watched.why:
                self.look_at_log(watched, now)
        if self.sampled:
            self.look_at_memory(now)
        worked = time.thread_time() - worked
        self.next_look = time.monotonic() + min(max(_SHORTEST_S, worked * _SHARE), _LONGEST_S)

    def overdue(self, watched: Watched, now: float) -> None:
        """Its time is over, or the signal before this one was of no use."""
        if not watched.why:
            self.end(watched, "WALLTIME", "it ran for %g s, as long as it had asked for" % watched.wall, now)
        else:
            self.signal_next(watched, now)

    def look_at_log(self, watched: Watched, now: float) -> None:
        """End an attempt whose log is too large."""
        try:
            size = os.stat(watched.log).st_size
        except OSError:
            return
        if size > watched.most_log:
            said = "its log has %.1f MiB, and maxLogSize is %.1f MiB" % (size / _MIB, watched.most_log / _MIB)
            self.end(watched, "OUTPUT", said, now)

    def look_at_memory(self, now: float) -> None:
        """End the attempts that use too much memory."""
        self.processes.refresh()
        for pid, watched in self.sampled.items():
            used = self.processes.sampled_memory(pid)
            if used > watched.memory:
                used = self.processes.exact_memory(pid, used)
            watched.peak = max(watched.peak, used)
            if used > watched.memory and not watched.why:
                said = "it used %.0f MiB; it asked for %.0f MiB, and may have %.0f MiB" % (
                    used / _MIB,
                    watched.asked / _MIB,
                    watched.memory / _MIB,
                )
                watched.signals = []
                self.end(watched, "OOM", said, now)

    # -------------------------------------------------------------------------------------------------------- ending

    def end(self, watched: Watched, why: str, say: str, now: float) -> None:
        """Begin to end an attempt, unless it has just ended of itself."""
        try:
            if os.waitid(os.P_PID, watched.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
        except ChildProcessError:
            # Not ours to wait for: it is signalled like any other.
            pass
        watched.why, watched.say = why, say
        say_in_log(watched.log, "%s: %s" % (why, say))
        self.signal_next(watched, now)

    def signal_next(self, watched: Watched, now: float) -> None:
        """Send the next signal; after the last of them, kill."""
        if watched.signals:
            send(watched.pid, watched.signals.pop(0))
            self.set_timer(watched, now + watched.grace)
            return
        send(watched.pid, signal.SIGKILL)
        self.processes.kill(self.processes.of(watched.pid))
        self.set_timer(watched, now + _AGAIN_S)

    # ----------------------------------------------------------------------------------------- what the kernel tells

    def killed_by_kernel(self, status: int) -> bool:
        """Whether the kernel ended an attempt for want of memory, as far as that can be told."""
        by_signal = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not by_signal and not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == _EXIT_KILLED):
            return False
        counted = self.count_oom_kills()
        self.unexplained += max(0, counted - self.oom_kills)
        self.oom_kills = counted
        if not self.unexplained:
            return False
        self.unexplained -= 1
        return True

    def count_oom_kills(self) -> int:
        """How many processes the kernel has killed for want of memory, in our control group or else on this machine."""
        for line in self.processes.read("self/cgroup").splitlines():
            if line.startswith(b"0::"):
                path = "/sys/fs/cgroup" + line[3:].decode(errors="surrogateescape") + "/memory.events"
                if (counted := number_after(b"oom_kill ", self.processes.read(path))) is not None:
                    return counted
        return number_after(b"oom_kill ", self.processes.read("vmstat")) or 0
