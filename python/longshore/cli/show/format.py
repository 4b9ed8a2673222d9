"""Formats counts and messages; formats that pages and records share are in `longshore.model.report`."""

from __future__ import annotations

from longshore.model.report import (
    INDENT,
    KIB,
    escape_controls,
    failure_text,
    format_duration,
    format_signal,
    format_size,
    staged_text,
)

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


def indent_paragraph(text: str) -> str:
    """Keep line breaks but indent the lines, so that no message can imitate a second one."""
    return f"\n{INDENT}".join(escape_controls(line) for line in text.strip().splitlines())


def format_count(number: int, noun: str) -> str:
    """A number and a noun, such as ``3 jobs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
