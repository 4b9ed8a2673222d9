"""Keeps the newest answer to a question where all processes of a user on this host find it: one asks for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from longshore.world.files.atomic import read_record, write_atomically
from longshore.world.files.locks import take_lock
from longshore.world.host import boot_id


class Told(msgspec.Struct, frozen=True):
    """An answer, or why there is none.

    Attributes
    ----------
    asked_at
        When the question was put, in seconds since boot: what came to be after that, the answer cannot know.
    text
        The answer; ``None`` where there was none.
    why
        Why there was none.
    """

    asked_at: float
    text: str | None
    why: str = ""
    boot: str = ""


Ask: TypeAlias = Callable[[], tuple[str | None, str]]
"""Puts the question; returns the answer, or ``None`` and why."""


def since_boot() -> float:
    """Seconds since boot; goes on while the machine sleeps, never jumps, and is the same for all processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def newest(path: Path, *, max_age_s: float, ask: Ask, not_before: float = 0.0, floor_s: float = 0.0) -> Told | None:
    """The newest answer, asked for anew where it is too old and nobody else is asking at this moment.

    Parameters
    ----------
    path
        Where the answer is kept; another question has another path.
    max_age_s
        How old an answer may be.
    ask
        How to ask.
    not_before
        An answer to a question put before this moment (seconds since boot) is too old however young it is.
    floor_s
        Least time between two questions of all processes together, whoever wants to know what.

    Returns
    -------
    Told | None
        ``None`` where there is no answer that is young enough, and it is too early to ask again or another process is
        asking: look again soon.
    """
    known = _read(path)
    if known is not None and _will_do(known, max_age_s, not_before):
        return known
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path.with_suffix(".lock"))
    except BlockingIOError:
        return None
    except OSError:
        # A home that cannot be written is no reason to know nothing; only nobody else gains from the answer.
        return _asked(ask)
    with lock:
        # Somebody else may have asked between our look and our lock.
        known = _read(path)
        if known is not None:
            if _will_do(known, max_age_s, not_before):
                return known
            if _age(known) < floor_s:
                return None
        found = _asked(ask)
        with suppress(OSError):
            write_atomically(path, msgspec.json.encode(found))
        return found


def _asked(ask: Ask) -> Told:
    at = since_boot()
    text, why = ask()
    return Told(asked_at=at, text=text, why=why, boot=boot_id())


def _read(path: Path) -> Told | None:
    """The newest answer, if it is of this boot."""
    told = read_record(path, Told)
    return told if told is not None and told.boot == boot_id() and _age(told) >= 0.0 else None


def _age(told: Told) -> float:
    return since_boot() - told.asked_at


def _will_do(told: Told, max_age_s: float, not_before: float) -> bool:
    return _age(told) <= max_age_s and told.asked_at >= not_before
