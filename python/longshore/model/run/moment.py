"""Turns seconds since the epoch into ISO-8601 in UTC, as all that people and programs read spells moments."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

_MICROS = 1_000_000
_MILLIS = tuple(f".{milli:03}Z" for milli in range(1000))


def timestamp(at: float | None, *, exact: bool = False) -> str | None:
    """Return a moment as ISO-8601 in UTC; ``None`` for none, or one outside the years 1 to 9999.

    Parameters
    ----------
    at
        Seconds since the epoch.
    exact
        Whether to the millisecond; else, and beyond that, the rest is cut off.
    """
    if at is None:
        return None
    try:
        second, micros = divmod(round(at * _MICROS), _MICROS)
    except (OverflowError, ValueError):
        return None
    text = _second(second)
    if text is None:
        return None
    return text + _MILLIS[micros // 1000] if exact else f"{text}Z"


def moment(at: float | None) -> str:
    """Return a moment for a sentence.

    Parameters
    ----------
    at
        Seconds since the epoch.
    """
    return timestamp(at) or "an unknown time"


@lru_cache(maxsize=4096)
def _second(second: int) -> str | None:
    # Of hundreds of thousands of jobs many begin and end in the same second, and most of the text is its.
    try:
        return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()
    except (OverflowError, ValueError, OSError):
        # A clock that was never set, or a damaged record, must not hide the rest of a report.
        return None
