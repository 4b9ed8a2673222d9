"""Watchdog of attempts: ends those that exceed their limits of memory, run time or log size.

Like the keeper it knows nothing of Longshore, uses the standard library alone, and is copied into the run directory.

Memory is that of the whole tree of processes, including those in sessions of their own. The samples are cheap:
unshared memory, process by process, and the largest shared part of one. Only when that exceeds the limit, the kernel is
asked for the exact sum (PSS, which counts a page that several processes share once). An attempt that exceeds the limit
by that sum is killed at once, as the kernel would: it has no memory left to clean up with. An attempt that is out of
time, or floods its log, first gets the configured signals; one that floods its log is killed half a second later.

Sizes of logs are checked four times a second, and more often when a log would reach its limit before the next check at
the speed of its growth. Once the attempt is over, the middle of the log is cut out. An attempt without a limit of its
own has the default.

All samples of one scan are taken in one pass over the existing processes, and a pause of a hundred times its length
follows: a thousand attempts cost a hundredth of a processor, and a handful is scanned four times a second.
"""

from __future__ import annotations

import heapq
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "watchdog":
    from longshore.keeper.program.kernel import append_to_log, number_after, signal_group, system, trim_log
else:
    # The copy beside the keeper is not in a package.
    from kernel import append_to_log, number_after, signal_group, system, trim_log

if TYPE_CHECKING:
    from longshore.keeper.program.cgroups import AttemptCgroups
    from longshore.keeper.program.processes import Processes
    from longshore.keeper.protocol import EndNotes, LimitsOrder

_MIB = 1 << 20
_NO_LIMIT = float("inf")
_PAUSE_FACTOR = 100.0
"""Length of the pause after a scan, as a multiple of the scan."""
_MIN_PAUSE_S = 0.25
_MAX_PAUSE_S = 10.0
_MIN_LOG_PAUSE_S = 0.01
"""Shortest time between two checks of a log that grows fast."""
_FLOOD_GRACE_S = 0.5
"""Time from the first signal to the kill of an attempt that floods its log."""
DEFAULT_LOG_B = 1 << 30
"""Size of a log at which an attempt without a limit of its own is ended."""
_KILL_INTERVAL_S = 1.0
"""Pause before a process is killed again: one that is inside the kernel does not die at once."""
_EXIT_KILLED = 128 + signal.SIGKILL
"""Exit status of a shell whose command was killed."""


class WatchedAttempt:
    """One attempt that is watched.

    Parameters
    ----------
    pid
        Its first process, which leads its group and its session.
    limits
        ``mem`` and ``asked``: bytes it may use, and bytes it requested; ``wall``: seconds; ``log``: bytes; ``sig``:
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
        self.most_log: float = limits.get("log", DEFAULT_LOG_B) or _NO_LIMIT
        self.log_size = 0
        self.log_checked_at = 0.0
        self.signals: list[int] = list(limits.get("sig", (signal.SIGTERM,)))
        self.grace: float = limits.get("grace", 10.0)
        self.peak = 0
        self.group: str | None = None
        """Control group that limits its memory; ``None`` where memory is sampled."""
        self.why = ""
        self.say = ""
        self.deadline = _NO_LIMIT
        """When its run time is over, or the next signal is due."""


class Watchdog:
    """Watches attempts, and ends those that exceed their limits.

    Parameters
    ----------
    processes
        Finds the processes of an attempt.
    groups
        Control groups for memory limits; ``None`` where they are unavailable.
    """

    def __init__(self, processes: Processes, groups: AttemptCgroups | None = None) -> None:
        self.processes = processes
        self.groups = groups
        self.watched: dict[int, WatchedAttempt] = {}
        self.sampled: dict[int, WatchedAttempt] = {}
        """Attempts whose memory is sampled."""
        self.logged: dict[int, WatchedAttempt] = {}
        """Attempts whose log size is checked."""
        self.unlimited: dict[int, str] = {}
        """Logs of attempts without limits of their own, which are watched once they have run for a moment."""
        self.next_log_check = 0.0
        self.timers: list[tuple[float, int]] = []
        """Due times of attempts, soonest first; outdated ones are skipped."""
        self.next_scan = 0.0
        self.oom_kills = self.count_oom_kills()
        self.unattributed_kills = 0
        """Processes that the kernel killed for lack of memory and that are not yet attributed to an attempt."""

    # ----------------------------------------------------------------------------------------------------- attempts

    def begin(self, pid: int, limits: LimitsOrder, log: str, *, ran: float = 0.0) -> None:
        """Watch an attempt, which has already run for `ran` seconds."""
        now = system.monotonic()
        watched = self.watched[pid] = WatchedAttempt(pid, limits, log)
        if watched.wall < _NO_LIMIT:
            self.set_timer(watched, now - ran + watched.wall)
        if watched.most_log < _NO_LIMIT:
            self.logged[pid] = watched
            watched.log_checked_at = now
            # A small limit is soon reached.
            due = now + (_MIN_PAUSE_S if watched.most_log >= DEFAULT_LOG_B else _MIN_LOG_PAUSE_S)
            self.next_log_check = due if self.next_log_check <= now else min(self.next_log_check, due)
        if watched.memory < _NO_LIMIT and self.groups is not None:
            watched.group = self.groups.limit_memory("%s-%d" % (os.path.basename(log), pid), pid, int(watched.memory))
        if watched.memory < _NO_LIMIT and watched.group is None:
            self.sampled[pid] = watched
            self.processes.follow(pid)
        # An attempt that has just begun has not had the time to do harm.
        self.next_scan = max(self.next_scan, now + _MIN_PAUSE_S)

    def unwatch(self, pid: int, status: int, peak: int | None) -> EndNotes:
        """Stop watching an attempt that ended, and return the fields of its end record beside the status.

        Parameters
        ----------
        pid
            Its first process.
        status
            Wait status of that process.
        peak
            Most memory of any single process, in bytes; ``None`` if unknown.
        """
        self.unlimited.pop(pid, None)
        watched = self.watched.pop(pid, None)
        fields: EndNotes = {}
        if watched is not None:
            self.sampled.pop(pid, None)
            self.logged.pop(pid, None)
            self.remove_cgroup(watched)
            processes_left = self.processes.unfollow(pid)
            if watched.peak > (peak or 0):
                fields["rss"] = watched.peak
            if watched.why:
                # Its processes in sessions of their own do not end with its group.
                self.processes.kill(processes_left)
                if watched.why == "OUTPUT":
                    self.cut_log(watched)
                fields["why"], fields["say"] = watched.why, watched.say
                return fields
        if self.is_oom_kill(status):
            fields["why"] = "OOM"
            fields["say"] = "the kernel killed it, or one of its processes, for lack of memory"
        return fields

    def cut_log(self, watched: WatchedAttempt) -> None:
        """Bring a log that was too large back to its limit, and say how large it was."""
        try:
            size = system.stat(watched.log).st_size
        except OSError:
            size = watched.log_size
        watched.say = "its log had %.1f MiB, and maxLogSize is %.1f MiB" % (size / _MIB, watched.most_log / _MIB)
        trim_log(watched.log, int(watched.most_log))
        append_to_log(watched.log, "%s: %s" % (watched.why, watched.say))

    def remove_cgroup(self, watched: WatchedAttempt) -> None:
        """Read an attempt's peak memory and OOM kill from its control group, and remove the group."""
        if self.groups is None or watched.group is None:
            return
        watched.peak = self.groups.peak(watched.group)
        if not watched.why and self.groups.was_oom_killed(watched.group):
            watched.why = "OOM"
            watched.say = "the kernel killed it; it requested %.0f MiB; its limit is %.0f MiB" % (
                watched.asked / _MIB,
                watched.memory / _MIB,
            )
            append_to_log(watched.log, "%s: %s" % (watched.why, watched.say))
        self.groups.remove(watched.group)

    def needs_unwatch(self, pid: int, status: int) -> bool:
        """Return whether an attempt that ended needs `unwatch`; most do not."""
        if pid in self.watched or status != 0:
            return True
        self.unlimited.pop(pid, None)
        return False

    def keeps_scratch(self, pid: int, status: int) -> bool:
        """Return whether an attempt's temporary directory is kept; call it before `unwatch`."""
        watched = self.watched.get(pid)
        if watched is None:
            return False
        return watched.tmp == "all" or (watched.tmp == "failed" and bool(status or watched.why))

    def say(self, pid: int, text: str) -> None:
        """Append a line to the log of an attempt; call it before `unwatch`."""
        append_to_log(self.watched[pid].log, text)

    # ------------------------------------------------------------------------------------------------------- checks

    def next_check_s(self) -> float | None:
        """Return the seconds until the next check; ``None`` while nothing is watched."""
        while self.timers and not self.is_current_timer(*self.timers[0]):
            heapq.heappop(self.timers)
        first = self.timers[0][0] if self.timers else _NO_LIMIT
        if self.sampled:
            first = min(first, self.next_scan)
        if self.logged or self.unlimited:
            first = min(first, self.next_log_check)
        return None if first == _NO_LIMIT else max(0.0, first - system.monotonic())

    def is_current_timer(self, due: float, pid: int) -> bool:
        """Return whether a timer is current: it was not set anew, and its attempt is not over."""
        watched = self.watched.get(pid)
        return watched is not None and watched.deadline == due

    def set_timer(self, watched: WatchedAttempt, due: float) -> None:
        """Set the timer of an attempt."""
        watched.deadline = due
        heapq.heappush(self.timers, (due, watched.pid))

    def check_limits(self) -> None:
        """Check all limits that are due."""
        now = system.monotonic()
        while self.timers and self.timers[0][0] <= now:
            due, pid = heapq.heappop(self.timers)
            if self.is_current_timer(due, pid):
                self.check_walltime(self.watched[pid], now)
        if now >= self.next_log_check and (self.logged or self.unlimited):
            self.check_log_sizes(now)
        if now < self.next_scan or not self.sampled:
            return
        # Processor time, not wall time: on a busy machine most of a scan is waiting, which uses nothing.
        cpu_s = system.thread_time()
        self.check_memory(now)
        cpu_s = system.thread_time() - cpu_s
        self.next_scan = system.monotonic() + min(max(_MIN_PAUSE_S, cpu_s * _PAUSE_FACTOR), _MAX_PAUSE_S)

    def check_walltime(self, watched: WatchedAttempt, now: float) -> None:
        """End an attempt whose run time is over, or send the next signal after one without effect."""
        if not watched.why:
            self.end(watched, "WALLTIME", "it ran for %g s, the run time that it requested" % watched.wall, now)
        else:
            self.signal_next(watched, now)

    def check_log_sizes(self, now: float) -> None:
        """End the attempts whose logs are too large, and set the time of the next check."""
        cpu_s = system.thread_time()
        pause_s = _MIN_PAUSE_S
        for watched in self.logged.values():
            if not watched.why:
                pause_s = min(pause_s, self.check_log_size(watched, now))
        unlimited, self.unlimited = self.unlimited, {}
        for pid, log in unlimited.items():
            watched = self.watched[pid] = self.logged[pid] = WatchedAttempt(pid, {}, log)
            watched.log_checked_at = now
        cpu_s = system.thread_time() - cpu_s
        self.next_log_check = system.monotonic() + max(pause_s, min(cpu_s * _PAUSE_FACTOR, _MAX_PAUSE_S))

    def check_log_size(self, watched: WatchedAttempt, now: float) -> float:
        """End an attempt whose log is too large; return the seconds after which to check it again."""
        try:
            size = system.stat(watched.log).st_size
        except OSError:
            return _MIN_PAUSE_S
        growth, passed_s = size - watched.log_size, now - watched.log_checked_at
        watched.log_size, watched.log_checked_at = size, now
        if size > watched.most_log:
            watched.grace = min(watched.grace, _FLOOD_GRACE_S / max(1, len(watched.signals)))
            message = "its log has %.1f MiB, and maxLogSize is %.1f MiB" % (size / _MIB, watched.most_log / _MIB)
            self.end(watched, "OUTPUT", message, now)
        elif growth > 0:
            # Half the time that is left at this speed.
            return min(_MIN_PAUSE_S, max(_MIN_LOG_PAUSE_S, (watched.most_log - size) * passed_s / growth / 2))
        return _MIN_PAUSE_S

    def check_memory(self, now: float) -> None:
        """End the attempts that use too much memory."""
        self.processes.refresh()
        for pid, watched in self.sampled.items():
            used = self.processes.sampled_memory(pid)
            if used > watched.memory:
                used = self.processes.exact_memory(pid, used)
            watched.peak = max(watched.peak, used)
            if used > watched.memory and not watched.why:
                message = "it used %.0f MiB; it requested %.0f MiB; its limit is %.0f MiB" % (
                    used / _MIB,
                    watched.asked / _MIB,
                    watched.memory / _MIB,
                )
                watched.signals = []
                self.end(watched, "OOM", message, now)

    # -------------------------------------------------------------------------------------------------------- ending

    def end(self, watched: WatchedAttempt, why: str, say: str, now: float) -> None:
        """Begin to end an attempt, unless it has just ended by itself."""
        try:
            if system.waitid(os.P_PID, watched.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
        except ChildProcessError:
            # It is not a child of this process: it is signalled like any other.
            pass
        watched.why, watched.say = why, say
        if why != "OUTPUT":
            # That is said when the log has been cut.
            append_to_log(watched.log, "%s: %s" % (why, say))
        self.signal_next(watched, now)

    def signal_next(self, watched: WatchedAttempt, now: float) -> None:
        """Send the next signal; after the last of them, kill."""
        if watched.signals:
            signal_group(watched.pid, watched.signals.pop(0))
            self.set_timer(watched, now + watched.grace)
            return
        signal_group(watched.pid, signal.SIGKILL)
        self.processes.kill(self.processes.processes_of(watched.pid))
        self.set_timer(watched, now + _KILL_INTERVAL_S)

    # ----------------------------------------------------------------------------------------------------- OOM kills

    def is_oom_kill(self, status: int) -> bool:
        """Return whether the kernel probably killed an attempt for lack of memory, by its count of OOM kills."""
        by_signal = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not by_signal and not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == _EXIT_KILLED):
            return False
        count = self.count_oom_kills()
        self.unattributed_kills += max(0, count - self.oom_kills)
        self.oom_kills = count
        if not self.unattributed_kills:
            return False
        self.unattributed_kills -= 1
        return True

    def count_oom_kills(self) -> int:
        """Return the kernel's count of OOM kills, in this process's control group or else on this machine."""
        for line in self.processes.read("self/cgroup").splitlines():
            if line.startswith(b"0::"):
                path = "/sys/fs/cgroup" + line[3:].decode(errors="surrogateescape") + "/memory.events"
                if (count := number_after(b"oom_kill ", self.processes.read(path))) is not None:
                    return count
        return number_after(b"oom_kill ", self.processes.read("vmstat")) or 0
