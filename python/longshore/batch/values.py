"""Parsers of numbers, amounts and times in the output of a batch system's programs (pure functions)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

_MOST_DIGITS: Final = 18
"""Digits of the largest number: JSON holds it exactly, and Python converts it."""
_MOST_BYTES: Final = 2**63 - 1
BINARY_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {"": 1} | {sign: 1024**power for power, pair in enumerate(("Kk", "Mm", "Gg", "Tt", "Pp", "Ee"), 1) for sign in pair}
)
"""Bytes per letter of a unit, in powers of 1024."""
_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([KMGTPE]?)(?:B|bytes?)?", re.IGNORECASE)
_DURATION: Final = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{1,9})?)")
_SPAN: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_MOST_TASKS: Final = 4_000_000
"""Largest index of an array; no batch system has more, so that a damaged answer fills no memory."""


def parse_number(text: str) -> int | None:
    """Parse a whole number; ``None`` for other text, and for more digits than any such number has."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def parse_size(text: str, units: Mapping[str, int] = BINARY_UNITS) -> int | None:
    """Parse bytes from ``113561K``, ``1.50G``, ``432.918MB`` or ``5.2 Gbytes``; ``None`` for no amount.

    `units` has the bytes per letter; the empty one stands for a number without a unit.
    """
    found = _SIZE.fullmatch(text.strip())
    factor = units.get(found[2]) if found else None
    amount = None if found is None or factor is None else round(float(found[1]) * factor)
    return None if amount is None or amount > _MOST_BYTES else amount


def parse_duration(text: str) -> float | None:
    """Parse seconds from ``1-02:03:04``, ``00:00:07`` or ``00:01.250``; ``None`` for no such time."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def parse_time(text: str, *forms: str) -> float | None:
    """Parse local time to seconds since the epoch; ``None`` for other text.

    The time is in ISO 8601, as ``2026-11-20T14:06:30``, or in one of the `forms` of `datetime.datetime.strptime`.
    """
    for form in ("", *forms):
        try:
            plain = text.strip()
            moment = datetime.strptime(plain, form) if form else datetime.fromisoformat(plain)  # noqa: DTZ007
            return moment.timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def seconds_between(begin: float | None, end: float | None) -> float | None:
    """Return the seconds from one moment to a later one; ``None`` if either is unknown, or they are the wrong way."""
    return None if begin is None or end is None or end < begin else end - begin


def parse_spans(text: str) -> Iterator[int]:
    """Expand ``3``, ``5,6`` or ``0-2,5-9:2`` to indices; parts that are no such span are left out."""
    for span in text.split(","):
        if (found := _SPAN.fullmatch(span.strip())) and int(found[2] or 0) <= _MOST_TASKS:
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            yield from range(first, last + 1, step or 1)


def plain_lines(*texts: str) -> list[str]:
    """Return the lines of texts without blanks around them; blank ones are left out."""
    return [plain for text in texts for line in text.splitlines() if (plain := line.strip())]
