"""Names and numbers of signals, from the standard library."""

from __future__ import annotations

from signal import Signals


def signal_name(number: int) -> str:
    """The name of a signal, such as ``SIGTERM``, or its number where it has none."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_number(name: str) -> int | None:
    """The number of a signal with or without ``SIG`` in its name, or given as a number; ``None`` if there is none."""
    if name.isdecimal():
        return int(name) if 1 <= int(name) <= 64 else None
    found = Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}")
    return None if found is None else int(found)


def signal_names() -> list[str]:
    """The names of all signals, without ``SIG``."""
    return [name.removeprefix("SIG") for name in Signals.__members__]
