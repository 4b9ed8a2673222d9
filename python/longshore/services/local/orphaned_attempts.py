"""Attempts whose keeper was killed: detection of their end, and of limits, unless their guard lives."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId, MemberEvent
from longshore.keeper.program.attempt_files import Scratch
from longshore.keeper.program.kernel import append_to_log, find_log
from longshore.keeper.program.processes import Processes
from longshore.keeper.program.watchdog import Watchdog
from longshore.keeper.protocol import ExitRecord, ReapingRecord, StartRecord, end_event
from longshore.keeper.scratch_folders import local_folder
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.model.workflow import KeepPolicy
from longshore.services.local.keeper_file import KeeperFile, OrphanEndRecord
from longshore.system.folder import remove_tree
from longshore.system.host import host_name, is_same_process, parent_process
from longshore.system.processes import processes, signal_group

_UNKNOWN: Final = 0
"""A wait status without information."""


class OrphanedAttempts:
    """The attempts that outlived their keeper on this machine.

    `kill_attempt` kills every leftover process of an attempt.
    """

    def __init__(self, kill_attempt: Callable[[AttemptId], None]) -> None:
        self._kill_attempt = kill_attempt
        self._host = host_name()
        self._watchdog: Watchdog | None = None
        """Created for the first orphan: most engines never have one."""

    def outcome(self, start: StartRecord, file: KeeperFile) -> MemberEvent | None:
        """Return how an attempt ended; ``None`` while it runs, under its limits."""
        file.guard.read()
        if recorded := file.guard.find_end(start.pid, start.up):
            return self._recorded_end(start, file, recorded)
        if not file.is_of_this_boot():
            if reaping := file.reaping.get((start.j, start.a)):
                return self._reaping_end(start, file, reaping)
            host = file.keeper_record.host if file.keeper_record else self._host
            why = "the machine was restarted while it ran" if host == self._host else f"it ran on '{host}'"
            return Lost(j=start.j, a=start.a, why=why)
        if not is_same_process(start.pid, start.up, include_zombies=True):
            return self._gone_end(start, file)
        try:
            # As reaper of orphans this process is now the parent, if it was the keeper's. Until it is reaped, the
            # process keeps its id, so that leftovers in its group can be ended without hitting another process.
            exited = processes.waitid(os.P_PID, start.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            if not is_same_process(start.pid, start.up) and not _has_reaper(start, file):
                return self._gone_end(start, file)
            exited = None
        if exited is None:
            if not _has_reaper(start, file):
                # The guard is dead, and does not do it.
                self._start_watching(start, file)
            return None
        signal_group(start.pid, signal.SIGKILL)
        _, status, usage = processes.wait4(start.pid, 0)
        end = ExitRecord(j=start.j, a=start.a, t=processes.time(), s=status, cpu=usage.ru_utime + usage.ru_stime)
        return self._observed_end(start, file, end, run_s=_run_s(start))

    def enforce_limits(self) -> None:
        """End attempts that exceed their limits."""
        if self._watchdog is not None:
            self._watchdog.check_limits()

    def next_check_s(self) -> float:
        """Seconds until the next check."""
        due = None if self._watchdog is None else self._watchdog.next_check_s()
        return float("inf") if due is None else due

    def _make_watchdog(self) -> Watchdog:
        if self._watchdog is None:
            self._watchdog = Watchdog(Processes())
        return self._watchdog

    def _start_watching(self, start: StartRecord, file: KeeperFile) -> None:
        watchdog = self._make_watchdog()
        if start.pid <= 1 or start.pid in watchdog.watched or start.pid in watchdog.unlimited:
            return
        if start.lim is not None:
            watchdog.begin(start.pid, start.lim, start.log, ran=_run_s(start))
        elif log := find_log(start.pid, os.path.realpath(file.path.parents[1] / "logs")):
            watchdog.unlimited[start.pid] = log

    def _gone_end(self, start: StartRecord, file: KeeperFile) -> MemberEvent:
        """Return the end of an attempt whose process is gone."""
        # Read again: the guard records an end before it reaps the process.
        file.guard.read()
        if recorded := file.guard.find_end(start.pid, start.up):
            return self._recorded_end(start, file, recorded)
        if reaping := file.reaping.get((start.j, start.a)):
            return self._reaping_end(start, file, reaping)
        return self._unobserved_end(start, file)

    def _recorded_end(self, start: StartRecord, file: KeeperFile, recorded: OrphanEndRecord) -> Ended:
        """Return the end of an attempt that the guard observed."""
        end = ExitRecord(
            j=start.j,
            a=start.a,
            t=recorded.t,
            s=recorded.s,
            cpu=recorded.cpu,
            rss=recorded.rss,
            why=recorded.why,
            say=recorded.say,
        )
        return self._observed_end(start, file, end, run_s=max(0.0, recorded.at - start.up))

    def _reaping_end(self, start: StartRecord, file: KeeperFile, reaping: ReapingRecord) -> Ended:
        """Return the end of an attempt whose keeper was killed while it reaped it."""
        end = ExitRecord(j=start.j, a=start.a, t=reaping.t, s=reaping.s)
        return self._observed_end(start, file, end, run_s=max(0.0, reaping.t - start.t))

    def _observed_end(self, start: StartRecord, file: KeeperFile, end: ExitRecord, *, run_s: float) -> Ended:
        """Return an end with its run time and what else this process knows of the attempt."""
        status = end.s or 0
        notes = self._make_watchdog().unwatch(start.pid, status, end.rss)
        if end.why:
            # The guard ended it.
            notes["why"], notes["say"] = end.why, end.say or ""
        if kept_path := keep_temporary_directory(start, file, is_failed=bool(status or "why" in notes)):
            notes["tmp"] = kept_path
        # Nobody looked at its outputs: the engine does.
        return end_event(msgspec.structs.replace(end, run=run_s, out=None, **notes), host=self._host)

    def _unobserved_end(self, start: StartRecord, file: KeeperFile) -> MemberEvent:
        """Return the end of an attempt that no parent waited for: lost, unless it was ended here."""
        # Leftover processes must end before another attempt may start.
        self._kill_attempt((start.j, start.a))
        keep_temporary_directory(start, file, is_failed=True)
        notes = self._watchdog.unwatch(start.pid, _UNKNOWN, None) if self._watchdog else {}
        if "why" not in notes:
            why = "its end was not observed: its keeper, the guard and the engine were gone"
            return Lost(j=start.j, a=start.a, why=why)
        now, run_s = processes.time(), _run_s(start)
        return Ended(
            j=start.j,
            a=start.a,
            cause=Cause(notes["why"]),
            reason=notes["say"],
            host=self._host,
            start=now - run_s,
            end=now,
            run_s=run_s,
            rss_b=notes.get("rss"),
        )


def _has_reaper(start: StartRecord, file: KeeperFile) -> bool:
    """Whether the keeper or the guard is the parent of a process: it will be reaped, or come to this process."""
    record = file.keeper_record
    return record is not None and parent_process(start.pid) in {record.pid, record.guard} - {0}


def scratch_folder(file: KeeperFile) -> Path | None:
    """Return the folder of the attempts' temporary directories, if it is ours to change."""
    return local_folder(file.keeper_record) if file.keeper_record is not None else None


def keep_temporary_directory(start: StartRecord, file: KeeperFile, *, is_failed: bool) -> str | None:
    """Move an attempt's temporary directory away if it is to be kept; return its new path."""
    policy = (start.lim or {}).get("tmp")
    folder = scratch_folder(file)
    if folder is None or not (policy == KeepPolicy.ALL or (policy == KeepPolicy.FAILED and is_failed)):
        return None
    scratch = Scratch(str(folder), str)
    kept_path = scratch.retain(scratch.path(start.j, start.a))
    if kept_path:
        append_to_log(start.log, f"TMPDIR is kept: {kept_path}")
    return kept_path


def remove_folder(file: KeeperFile, attempt: AttemptId | None = None) -> None:
    """Remove a dead keeper's temporary directories: that of an attempt, or the folder of all."""
    if (folder := scratch_folder(file)) is not None:
        remove_tree(folder / f"{attempt[0]}.{attempt[1]}" if attempt else folder)


def _run_s(start: StartRecord) -> float:
    """Seconds since an attempt began."""
    return max(0.0, processes.clock_gettime(time.CLOCK_BOOTTIME) - start.up)
