"""Turns single values into words for people, in which nothing is left that a terminal would obey."""

from __future__ import annotations

from typing import Final

from longshore.model.run.state import Cause
from longshore.model.signals import signal_name

INDENT: Final = "  "
KIB: Final = 1024


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units, such as ``4 min 5 s``; below a minute in tenths of a second."""
    tenths = round(max(seconds, 0.0), 1)
    if tenths < 60:
        return f"{tenths:.1f} s"
    minutes, rest = divmod(int(tenths), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def size(amount: int) -> str:
    """Return a number of bytes in its largest unit, such as ``1.5 GiB``."""
    if amount < KIB:
        return f"{amount} B"
    power = min((amount.bit_length() - 1) // 10, 5)
    return f"{amount / KIB**power:.1f}".removesuffix(".0") + f" {'KMGTP'[power - 1]}iB"


def visible(text: str) -> str:
    r"""Return text with all that a terminal would obey, or could not print, spelled out as ``\x1b`` and the like."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def paragraph(text: str) -> str:
    """Text whose line breaks are kept, but indented: no message can pass for a second one."""
    return f"\n{INDENT}".join(visible(line) for line in text.strip().splitlines())


def counted(number: int, noun: str) -> str:
    """A number of things, such as ``3 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def why(cause: Cause | None, exit_code: int | None, signal_number: int | None) -> str:
    """Why an attempt ended badly, in as few words as tell all that is known."""
    known = []
    if signal_number is not None:
        known.append(named_signal(signal_number))
    elif exit_code is not None:
        known.append(f"exit code {exit_code}")
    if cause is not None and not (known and cause in {Cause.EXIT, Cause.SIGNAL}):
        known.insert(0, cause.value)
    return ", ".join(known) or (cause.value if cause else "cause unknown")


def named_signal(number: int) -> str:
    """A signal for a reader, such as ``signal SIGKILL``."""
    return f"signal {signal_name(number).removeprefix('signal ')}"
