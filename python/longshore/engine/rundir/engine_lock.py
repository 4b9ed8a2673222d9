"""The engine's lock: one engine per run and host; who holds it, and how an engine that hangs is killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.journal.journal import newest_life
from longshore.errors import SubmissionRefusedError
from longshore.system.atomic import write_atomically
from longshore.system.files import files
from longshore.system.host import boot_id, host_name, process_command
from longshore.system.processes import processes
from longshore.system.reading import read_record
from longshore.system.sharing import Lock, is_locked, take_lock

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
