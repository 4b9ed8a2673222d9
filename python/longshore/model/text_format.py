"""Formats durations, sizes and ends of attempts for people, and escapes control characters in text."""

from __future__ import annotations

from typing import Final

from longshore.model.run.states import Cause
from longshore.model.signals import signal_name

KIB: Final = 1024


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, such as ``4 min 5 s``; below a minute in tenths of a second."""
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


def format_size(amount: int) -> str:
    """Format a number of bytes in its largest unit, such as ``1.5 GiB``."""
    if amount < KIB:
        return f"{amount} B"
    power = min((amount.bit_length() - 1) // 10, 5)
    return f"{amount / KIB**power:.1f}".removesuffix(".0") + f" {'KMGTP'[power - 1]}iB"


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""Escape control and other unprintable characters, as ``\x1b`` and the like, except those in `keep`."""
    if text.isprintable() or (keep and text.translate(dict.fromkeys(map(ord, keep))).isprintable()):
        return text
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )


def failure_text(cause: Cause | None, exit_code: int | None, signal_number: int | None) -> str:
    """Format why an attempt failed, as short as possible."""
    known = []
    if signal_number is not None:
        known.append(format_signal(signal_number))
    elif exit_code is not None:
        known.append(f"exit code {exit_code}")
    if cause is not None and not (known and cause in {Cause.EXIT, Cause.SIGNAL}):
        known.insert(0, cause.value)
    return ", ".join(known) or (cause.value if cause else "cause unknown")


def format_signal(number: int) -> str:
    """Format a signal, such as ``signal SIGKILL``."""
    return f"signal {signal_name(number).removeprefix('signal ')}"
