"""Names and numbers of POSIX signals."""

from __future__ import annotations

from signal import Signals
from typing import Final

_MAX_DIGITS: Final = 3


def signal_name(number: int) -> str:
    """Name of a signal, such as ``SIGTERM``; its number as text where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_number(name: str) -> int | None:
    """Number of a signal from its name, with or without ``SIG``, or from digits; ``None`` if unknown."""
    if name.isdecimal():
        # Python converts no number of thousands of digits.
        return int(name) if len(name) <= _MAX_DIGITS and 1 <= int(name) <= 64 else None
    found = Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}")
    return None if found is None else int(found)


def signal_names() -> list[str]:
    """Names of all signals, without ``SIG``."""
    return [name.removeprefix("SIG") for name in Signals.__members__]
