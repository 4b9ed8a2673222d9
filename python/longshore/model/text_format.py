"""Formats durations, sizes, transfers and ends of attempts for people, and escapes control characters in text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longshore.model.run.states import Cause
from longshore.model.signals import signal_name
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.model.run.event import StagedFiles

INDENT: Final = "  "
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


def format_brief_duration(seconds: float) -> str:
    """Format a duration in few characters, such as ``0.25s``, ``12s``, ``3m05s``, ``4h07m`` or ``2d03h``."""
    if seconds < 10.0:
        digits = 2 if seconds < 1.0 else 1
        return f"{seconds:.{digits}f}s" if seconds else "0s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02}h"
    if hours:
        return f"{hours}h{minute:02}m"
    return f"{minutes}m{second:02}s" if minutes else f"{second}s"


def format_core_time(seconds: float | None, *, is_brief: bool = False) -> str:
    """Format a time of processors: in hours if it is an hour or more, such as ``12.5 h``, or briefly ``12.5h``."""
    if seconds is None:
        return "unknown"
    if seconds >= 3600.0:
        return f"{seconds / 3600:,.1f}{'' if is_brief else ' '}h"
    return format_brief_duration(seconds) if is_brief else format_duration(seconds)


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


def staged_text(staged: StagedFiles) -> str:
    """Format the transfers of an attempt, or of several."""
    sides = [
        f"{count_noun(files, 'file')} {way}, {format_size(size)} in {_transfer_time(seconds)}"
        for way, files, size, seconds in (
            ("in", staged.files_in, staged.bytes_in, staged.in_s),
            ("out", staged.files_out, staged.bytes_out, staged.out_s),
        )
    ]
    kept = f"; {count_noun(staged.kept, 'output')} of another attempt stayed" if staged.kept else ""
    return f"{'; '.join(sides)}{kept}"


def _transfer_time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 60 else format_duration(seconds)
