"""Liveness of a run's engine: its lock here or its heartbeat elsewhere, stalls, and the last line of its log."""

from __future__ import annotations

import os
import time
from typing import Final

from longshore.contract.service import RunPaths
from longshore.engine.journal.chain import lives
from longshore.engine.journal.journal import newest_life
from longshore.engine.rundir.engine_lock import has_local_engine
from longshore.model.report import Snapshot
from longshore.rundir.run_directory import is_own_run, read_snapshot
from longshore.system.atomic import file_system_time
from longshore.system.files import files
from longshore.system.host import host_name
from longshore.system.reading import open_stream

_RECENT_S: Final = 60.0
"""Age up to which a snapshot proves that its engine lives and is well: six of its heartbeats."""


def is_engine_alive(run: RunPaths) -> bool:
    """Return whether an engine holds the run's lock, or another host's engine wrote a snapshot a moment ago."""
    return has_local_engine(run) or has_remote_heartbeat(run)


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
