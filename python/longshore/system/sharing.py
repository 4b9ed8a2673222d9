"""What all processes of a user on this host share: locks, answers to questions, batches of them, and rate limits."""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

import msgspec

from longshore.system.atomic import is_file_at, write_atomically
from longshore.system.files import files
from longshore.system.folder import make_folders, open_below, remove_file
from longshore.system.host import boot_id
from longshore.system.reading import exists_uncached, read_record

# File locks (flock), released at the latest when the process that holds them ends. The keeper, which runs without this
# package, locks its own file; `is_locked` sees that lock too.


_POLL_S: Final = 0.02


class Lock:
    """A lock that this process holds on an open file."""

    def __init__(self, file: int) -> None:
        self.file = file

    def release(self) -> None:
        """Release the lock and close the file."""
        files.close(self.file)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def take_lock(
    path: Path, *, below: Path | None = None, wait_s: float = 0.0, create: bool = True, mode: int = 0o600
) -> Lock:
    """Lock a file, waiting up to `wait_s` seconds for another holder.

    A missing file is created with the permissions `mode`, unless `create` is false; `below` is explained in
    `longshore.system.folder`. Raises `BlockingIOError` when another holder has the lock, and `OSError` when the
    file cannot be opened, is a link, or its file system has no locks.
    """
    deadline = time.monotonic() + wait_s
    while True:
        file = open_below(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR, mode, below=below)
        try:
            _take_flock(file, deadline)
            with suppress(FileNotFoundError):
                if is_file_at(file, path):
                    return Lock(file)
        except BaseException:
            files.close(file)
            raise
        # The holder removed the file, or replaced it.
        files.close(file)


def lock_folder(folder: Path) -> Lock:
    """Lock a folder, waiting without limit; has no effect where the file system has no locks."""
    file = files.open(folder, os.O_RDONLY)
    with suppress(OSError):
        files.flock(file, fcntl.LOCK_EX)
    return Lock(file)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file, on this host or on one whose locks are visible here.

    Raises `OSError` when the file cannot be read or its file system has no locks.
    """
    try:
        file = files.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return exists_uncached(path) and is_locked(path)
    try:
        # A shared lock, so that two concurrent callers do not take each other for the holder.
        files.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        files.close(file)
    return False


def _take_flock(file: int, deadline: float) -> None:
    if math.isinf(deadline):
        files.flock(file, fcntl.LOCK_EX)
        return
    while True:
        try:
            files.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return


# Query cache shared by all processes of a user on this host, so that one process queries for all. Only what a manager
# answered is shared. A program that is missing, crashes or hangs is the trouble of the process whose program it is, and
# says nothing of the manager: a query raises `OwnTroubleError` then.


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


# Rate limit shared by all processes of a user on this host, kept in a file.


class RateLimit:
    """A rate limit of `per_s` actions per second; unused ones expire after a second, so that bursts stay small.

    `path` holds the time of the next allowed action; each kind of action has its own.
    """

    def __init__(self, path: Path, per_s: float) -> None:
        self._path = path
        self._interval_s = 1.0 / per_s
        self._burst_s = (max(1, math.floor(per_s)) - 1) * self._interval_s
        """How far ahead actions are allowed: as many as a second has, and at least one."""

    def count_available(self) -> int:
        """Count the actions allowed now, provided that no other process takes them."""
        now = seconds_since_boot()
        return max(0, math.floor((now + self._burst_s - max(self._read_next_s(), now)) / self._interval_s + 1e-6) + 1)

    def acquire(self) -> float:
        """Take an action and return 0; when none is allowed, return the seconds until the next."""
        try:
            make_folders(self._path.parent)
            with take_lock(self._path.with_suffix(".lock"), wait_s=math.inf):
                now = seconds_since_boot()
                next_s = max(self._read_next_s(), now)
                wait_s = next_s - now - self._burst_s
                if wait_s > 1e-6:
                    return wait_s
                write_atomically(self._path, f"{boot_id()} {next_s + self._interval_s!r}")
        except OSError:
            # A home that cannot be written must not stop the action.
            return 0.0
        return 0.0

    def _read_next_s(self) -> float:
        """Read the time of the next allowed action, in seconds since boot; ignored when it is of another boot."""
        try:
            boot, _, text = self._path.read_text("utf-8").partition(" ")
            next_s = float(text)
        except (OSError, ValueError):
            return 0.0
        return next_s if boot == boot_id() and math.isfinite(next_s) else 0.0


# A folder holds what each process wants to know, and the newest answer. The process that takes the lock asks for the
# items of all.


_FORGET_S: Final = 120.0
"""Age of a list of wanted items that is not renewed: its process is gone."""
_ANSWER: Final = "answer.json"
_SUFFIX: Final = ".wanted"


class WantedItems(msgspec.Struct, frozen=True):
    """What one process wants to know; `at` is when it last said so, in seconds since boot."""

    items: tuple[str, ...]
    at: float
    boot: str


class BatchAnswer(msgspec.Struct, frozen=True):
    """Answer on several items, or the reason for its failure.

    `asked_at` is when the question began, in seconds since boot. `texts` is ``None`` when it failed.
    """

    asked_at: float
    items: frozenset[str]
    texts: tuple[str, ...] | None
    why: str = ""
    boot: str = ""


AskBatch: TypeAlias = Callable[[Sequence[str]], tuple[tuple[str, ...] | None, str]]
"""Asks for items; returns the texts of the answer, or ``None`` and the reason. May raise `OwnTroubleError`."""


class SharedBatch:
    """The share of one process in the batches of a folder; `name` tells it from other shares."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._path = folder / f"{name}{_SUFFIX}"
        self._taken_at = -_FORGET_S
        """When the question of the newest answer taken here was asked."""
        self._troubled_at = -_FORGET_S
        """When this process last failed to ask."""
        self._wanted: frozenset[str] = frozenset()
        self._wanted_at = -_FORGET_S

    def ask(self, wanted: Mapping[str, float], ask: AskBatch, *, min_interval_s: float) -> BatchAnswer | None:
        """Return a new answer that has some of the wanted items; ``None`` if there is none yet: call again soon.

        `wanted` has, for each item, the earliest moment of a useful question, in seconds since boot: not in the future.
        All processes together ask at most once in `min_interval_s` seconds. No other process gets a failure by an
        `OwnTroubleError`.
        """
        if (found := self._take(wanted)) is not None:
            return found
        if seconds_since_boot() - self._troubled_at < min_interval_s:
            return None
        try:
            self._say_wanted(wanted)
            lock = take_lock(self._folder / "lock")
        except BlockingIOError:
            return None
        except OSError:
            # Without a writable home the question still works; only the other processes cannot share its answer.
            if seconds_since_boot() - self._taken_at < min_interval_s:
                return None
            answer, _ = _ask(sorted(wanted), ask)
            self._taken_at = answer.asked_at
            return answer
        with lock:
            # Another process may have asked between our look and our lock.
            if (found := self._take(wanted)) is not None:
                return found
            newest = self._read()
            if newest is not None and seconds_since_boot() - newest.asked_at < min_interval_s:
                return None
            answer, is_shared = _ask(sorted(self._wanted_by_all() | wanted.keys()), ask)
            if not is_shared:
                self._troubled_at = answer.asked_at
                return answer
            with suppress(OSError):
                write_atomically(self._folder / _ANSWER, msgspec.json.encode(answer))
            self._taken_at = answer.asked_at
            return answer

    def withdraw(self) -> None:
        """Want nothing any more."""
        if self._wanted:
            self._wanted = frozenset()
            with suppress(OSError):
                remove_file(self._path)

    def _take(self, wanted: Mapping[str, float]) -> BatchAnswer | None:
        answer = self._read()
        if answer is None or answer.asked_at <= self._taken_at:
            return None
        if not any(item in answer.items and answer.asked_at >= at for item, at in wanted.items()):
            return None
        self._taken_at = answer.asked_at
        return answer

    def _read(self) -> BatchAnswer | None:
        """Read the newest answer; ``None`` unless it is of this boot."""
        answer = read_record(self._folder / _ANSWER, BatchAnswer)
        is_valid = answer is not None and answer.boot == boot_id() and answer.asked_at <= seconds_since_boot()
        return answer if is_valid else None

    def _say_wanted(self, wanted: Mapping[str, float]) -> None:
        now = seconds_since_boot()
        if self._wanted == wanted.keys() and now - self._wanted_at < _FORGET_S / 4:
            return
        make_folders(self._folder)
        record = WantedItems(items=tuple(sorted(wanted)), at=now, boot=boot_id())
        write_atomically(self._path, msgspec.json.encode(record))
        self._wanted, self._wanted_at = frozenset(wanted), now

    def _wanted_by_all(self) -> set[str]:
        items: set[str] = set()
        for path in self._folder.glob(f"*{_SUFFIX}"):
            record = read_record(path, WantedItems)
            if record is not None and record.boot == boot_id() and seconds_since_boot() - record.at < _FORGET_S:
                items |= set(record.items)
            else:
                with suppress(OSError):
                    remove_file(path)
        return items


def _ask(items: Sequence[str], ask: AskBatch) -> tuple[BatchAnswer, bool]:
    """Return the answer on items, and whether others may use it."""
    began_s = seconds_since_boot()
    try:
        texts, why = ask(items)
    except OwnTroubleError as error:
        return BatchAnswer(began_s, frozenset(items), None, str(error), boot_id()), False
    return BatchAnswer(asked_at=began_s, items=frozenset(items), texts=texts, why=why, boot=boot_id()), True
