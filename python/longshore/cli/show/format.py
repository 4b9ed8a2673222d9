"""Formats counts, transfers and messages; formats that pages share are in `longshore.model.text_format`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from longshore.model.text_format import (
    KIB,
    escape_controls,
    failure_text,
    format_duration,
    format_signal,
    format_size,
)
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    from longshore.model.run.event import StagedFiles

__all__ = [
    "INDENT",
    "KIB",
    "escape_controls",
    "failure_text",
    "format_count",
    "format_duration",
    "format_signal",
    "format_size",
    "indent_paragraph",
    "staged_text",
]
INDENT: Final = "  "


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


def indent_paragraph(text: str) -> str:
    """Keep line breaks but indent the lines, so that no message can imitate a second one."""
    return f"\n{INDENT}".join(escape_controls(line) for line in text.strip().splitlines())


def format_count(number: int, noun: str) -> str:
    """A number and a noun, such as ``3 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
