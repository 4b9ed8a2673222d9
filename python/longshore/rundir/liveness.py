"""Whether an engine has a run: its lock on this host or heartbeat elsewhere, its stalls, and its end by force."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.model.report import Snapshot
from longshore.rundir.journal import lives, newest_life
from longshore.rundir.run_directory import is_own_run, read_snapshot
from longshore.system.atomic import file_system_time, write_atomically
from longshore.system.files import files
from longshore.system.host import boot_id, host_name, process_command
from longshore.system.processes import processes
from longshore.system.reading import open_stream, read_record
from longshore.system.sharing import Lock, is_locked, take_lock

# The lock: one engine per run and host.


_LOCK_S: Final = 2.0
"""Time that an engine waits for its lock, which every reader takes for an instant."""
_POLL_S: Final = 0.02
_END_S: Final = 10.0
"""Time that a killed engine may take to disappear."""


class LockHolder(msgspec.Struct, frozen=True):
    """The process that took the lock of a run's engine, as it wrote into the lock's file."""

    pid: int
    host: str
    uid: int


def has_local_engine(run: RunPaths) -> bool:
    """Return whether an engine of this host, or of one whose locks are visible here, holds the run's lock."""
    try:
        return is_locked(run.engine_lock)
    except OSError:
        return False


def lock_run(run: RunPaths, *, anew: bool = False) -> Lock:
    """Take the lock of a run's engine.

    With `anew`, a new lock file replaces the old one, which an unreachable engine may still hold; the journal keeps
    that engine from doing anything more.

    Raises
    ------
    SubmissionRefusedError
        Another process holds the lock.
    """
    if anew:
        write_atomically(run.engine_lock, b"", below=run.root)
    try:
        lock = take_lock(run.engine_lock, below=run.root, wait_s=_LOCK_S, mode=0o644)
    except BlockingIOError:
        raise SubmissionRefusedError(f"'{run.root}' already has an engine on this host") from None
    _write_holder(lock)
    return lock


def read_holder(run: RunPaths) -> LockHolder | None:
    """Return who holds the run's lock now; ``None`` if no process does, or its file does not tell."""
    return read_record(run.engine_lock, LockHolder) if has_local_engine(run) else None


def _write_holder(lock: Lock) -> None:
    """Write this process into its lock: it begins its life only after it has read its jobs, which may take a while."""
    holder = msgspec.json.encode(LockHolder(pid=processes.getpid(), host=host_name(), uid=os.getuid()))
    # Only messages need it: an engine also takes over where the disk is full.
    with suppress(OSError):
        files.ftruncate(lock.file, 0)
        files.pwrite(lock.file, holder, 0)


def kill_local_engine(run: RunPaths) -> bool:
    """Kill a run's newest engine if it is on this host and holds the lock; return whether it existed.

    An engine that hangs or is suspended would keep its keeper waiting for orders for ever.
    """
    life = newest_life(run.journal)
    if life is None or life.host != host_name() or life.boot != boot_id() or not has_local_engine(run):
        return False
    if "drive" not in process_command(life.pid):
        # The number now belongs to another process.
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.kill(life.pid, signal.SIGKILL)
    deadline = time.monotonic() + _END_S
    while has_local_engine(run) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return True


# Life and stalls of the engine, wherever it is.


_RECENT_S: Final = 60.0
"""Age up to which a snapshot proves that its engine lives and is well: six of its heartbeats."""


def has_remote_heartbeat(run: RunPaths) -> bool:
    """Return whether another host's engine wrote a snapshot a moment ago."""
    snapshot = read_snapshot(run)
    if snapshot is None or snapshot.finished or snapshot.host == host_name():
        return False
    life = newest_life(run.journal)
    if life is not None and life.life > snapshot.life and life.host == host_name():
        # The engine that has taken over since has not yet written a snapshot.
        return False
    # Both times are the file system's, so that no two clocks are compared. That takes a file, which is not written into
    # the directory of another user: the difference of the clocks is small beside the limit.
    try:
        now = file_system_time(run.root, below=run.root) if is_own_run(run.root) else time.time()
        age = now - files.stat(run.status).st_mtime
    except OSError:
        return True
    return age < _RECENT_S


def find_stall_start(run: RunPaths, snapshot: Snapshot | None, now: float) -> float | None:
    """Return when this host's engine last wrote a snapshot, if a healthy one would have written one since.

    The times are seconds since the epoch; ``None`` means that the engine is not overdue.
    """
    if snapshot is None or snapshot.finished or snapshot.host != host_name() or now - snapshot.at <= _RECENT_S:
        return None
    # An engine that has just begun has not yet written its first.
    found = lives(run.journal)
    return snapshot.at if found and found[-1][0] == snapshot.life else None


def last_log_line(run: RunPaths) -> str:
    """Return the last line of the engine's log."""
    try:
        with open_stream(run.engine_log) as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
