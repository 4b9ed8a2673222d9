"""Query cache shared by all processes of a user on this host, so that one process queries for all.

Only what a manager answered is shared. A program that is missing, crashes or hangs is the trouble of the process whose
program it is, and says nothing of the manager: a query raises `OwnTroubleError` then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.locks import take_lock
from longshore.world.files.read_file import read_record
from longshore.world.host import boot_id


class CachedAnswer(msgspec.Struct, frozen=True):
    """A cached query result, or the reason for its failure.

    `asked_at` is when the query began, in seconds since boot; the result cannot include anything newer.
    `text` is ``None`` when the query failed; then `why` gives the reason.
    """

    asked_at: float
    text: str | None
    why: str = ""
    boot: str = ""


Query: TypeAlias = Callable[[], tuple[str | None, str]]
"""Runs the query; returns its result, or ``None`` and the reason. May raise `OwnTroubleError`."""


class OwnTroubleError(Exception):
    """A query failed in this process, for the reason in its text: no other process is to believe it."""


def seconds_since_boot() -> float:
    """Return seconds since boot: monotonic, continues during sleep, equal in all processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def cached_answer(
    path: Path, *, max_age_s: float, query: Query, not_before: float = 0.0, min_interval_s: float = 0.0
) -> CachedAnswer | None:
    """Return the cached result of a query, refreshed when it is too old and no other process is refreshing it.

    `path` identifies the query: each query has its own. A result is too old when its age exceeds `max_age_s`, or when
    its query began before `not_before` (seconds since boot). All processes together query at most once in
    `min_interval_s` seconds.

    Returns ``None`` when no result is young enough and a new query is either too early or under way in another
    process: call again soon.
    """
    cached = _read_cache(path)
    if cached is not None and _is_fresh(cached, max_age_s, not_before):
        return cached
    try:
        make_folders(path.parent)
        lock = take_lock(path.with_suffix(".lock"))
    except BlockingIOError:
        return None
    except OSError:
        # Without a writable home the query still works; only the other processes cannot share its result.
        return _run_query(query)[0]
    with lock:
        # Another process may have refreshed it between our read and our lock.
        cached = _read_cache(path)
        if cached is not None:
            if _is_fresh(cached, max_age_s, not_before):
                return cached
            if _age_s(cached) < min_interval_s:
                return None
        cached, is_shared = _run_query(query)
        if is_shared:
            with suppress(OSError):
                write_atomically(path, msgspec.json.encode(cached))
        return cached


def _run_query(query: Query) -> tuple[CachedAnswer, bool]:
    """Return the result of a query, and whether others may use it."""
    began_s = seconds_since_boot()
    try:
        text, why = query()
    except OwnTroubleError as error:
        return CachedAnswer(asked_at=began_s, text=None, why=str(error), boot=boot_id()), False
    return CachedAnswer(asked_at=began_s, text=text, why=why, boot=boot_id()), True


def _read_cache(path: Path) -> CachedAnswer | None:
    """Read the cached result; ``None`` unless it is of this boot."""
    cached = read_record(path, CachedAnswer)
    return cached if cached is not None and cached.boot == boot_id() and _age_s(cached) >= 0.0 else None


def _age_s(cached: CachedAnswer) -> float:
    return seconds_since_boot() - cached.asked_at


def _is_fresh(cached: CachedAnswer, max_age_s: float, not_before: float) -> bool:
    return _age_s(cached) <= max_age_s and cached.asked_at >= not_before
