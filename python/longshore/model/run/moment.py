"""Formats timestamps: seconds since the epoch as ISO-8601 in UTC, for people and programs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

_MICROS = 1_000_000
_MILLIS = tuple(f".{milli:03}Z" for milli in range(1000))
_MILLIS_LENGTH = len(_MILLIS[0])


def format_timestamp(at: float | None, *, exact: bool = False) -> str | None:
    """Format a timestamp as ISO-8601 in UTC; ``None`` for ``None``, or a time outside the years 1 to 9999.

    `at` is in seconds since the epoch. With `exact`, to the millisecond, else to the second; the rest is cut off.
    """
    text = format_exact_timestamp(at)
    return text if exact or text is None else f"{text[:-_MILLIS_LENGTH]}Z"


def format_exact_timestamp(at: float | None) -> str | None:
    """Format a timestamp to the millisecond; as a function of its own, for the hundred thousand of a report."""
    if at is None:
        return None
    try:
        # Rounded before it is cut off: 0.003 s is a little less than that as a number.
        second, milli = divmod(round(at * _MICROS) // 1000, 1000)
    except (OverflowError, ValueError):
        return None
    text = _second(second)
    return None if text is None else text + _MILLIS[milli]


def format_moment(at: float | None) -> str:
    """Format a timestamp (seconds since the epoch) for a sentence."""
    return format_timestamp(at) or "an unknown time"


@lru_cache(maxsize=4096)
def _second(second: int) -> str | None:
    # Many of a run's jobs begin or end in the same second, whose text is cached.
    try:
        return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()
    except (OverflowError, ValueError, OSError):
        # A clock that was never set, or a damaged record, must not break the rest of a report.
        return None
