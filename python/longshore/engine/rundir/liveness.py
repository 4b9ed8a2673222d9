"""Liveness of a run's engine, here or on another host, and the lock that a new engine takes."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from longshore.contract.context import RunPaths
from longshore.engine.rundir.journal import lives, newest_life
from longshore.errors import SubmissionRefusedError
from longshore.model.run.snapshot import Snapshot
from longshore.world.files.atomic import file_system_time, write_atomically
from longshore.world.files.locks import Lock, is_locked, take_lock
from longshore.world.host import boot_id, host_name, process_command
from longshore.world.runs.run_directory import read_snapshot

_LOCK_S: Final = 2.0
"""Time that an engine waits for its lock, which every reader takes for an instant."""
_POLL_S: Final = 0.02
_RECENT_S: Final = 60.0
"""Age up to which a snapshot proves that its engine lives and is well: six of its heartbeats."""
_END_S: Final = 10.0
"""Time that a killed engine may take to disappear."""


def has_local_engine(run: RunPaths) -> bool:
    """Return whether an engine of this host, or of one whose locks are visible here, holds the run's lock."""
    try:
        return is_locked(run.engine_lock)
    except OSError:
        return False


def has_remote_heartbeat(run: RunPaths) -> bool:
    """Return whether another host's engine wrote a snapshot a moment ago."""
    snapshot = read_snapshot(run)
    if snapshot is None or snapshot.finished or snapshot.host == host_name():
        return False
    life = newest_life(run.journal)
    if life is not None and life.life > snapshot.life and life.host == host_name():
        # The engine that has taken over since has not yet written a snapshot.
        return False
    # Both times are the file system's, so that no two clocks are compared.
    try:
        age = file_system_time(run.root) - run.status.stat().st_mtime
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
        write_atomically(run.engine_lock, b"")
    try:
        return take_lock(run.engine_lock, wait_s=_LOCK_S, mode=0o644)
    except BlockingIOError:
        raise SubmissionRefusedError(f"'{run.root}' already has an engine on this host") from None


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


def last_log_line(run: RunPaths) -> str:
    """Return the last line of the engine's log."""
    try:
        lines = run.engine_log.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
