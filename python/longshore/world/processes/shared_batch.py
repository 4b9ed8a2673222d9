"""Batches of questions shared by all processes of a user on this host: one process asks for all of them.

A folder holds what each process wants to know, and the newest answer. The process that takes the lock asks for the
items of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders, remove_file
from longshore.world.files.locks import take_lock
from longshore.world.files.read_file import read_record
from longshore.world.host import boot_id
from longshore.world.processes.query_cache import OwnTroubleError, seconds_since_boot

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
