"""What an output stream can show: whether it is a terminal, its size, its colours and its characters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, TextIO

import msgspec

_DEFAULT_SIZE: Final = (80, 24)
_MAX_WIDTH: Final = 250
"""Wider lines are hard to follow with the eyes."""


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """Size and abilities of a terminal.

    `width` and `height` are in characters. `has_color` and `has_unicode` tell whether colours and characters such as
    blocks may be written.
    """

    width: int = _DEFAULT_SIZE[0]
    height: int = _DEFAULT_SIZE[1]
    has_color: bool = False
    has_unicode: bool = True


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a person reads the stream; ``None`` is a stream that was closed before this program began."""
    return stream is not None and stream.isatty()


def can_redraw(stream: TextIO | None, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether lines on the stream can be overwritten."""
    return is_terminal(stream) and env.get("TERM", "") not in {"", "dumb"}


def has_color(stream: TextIO | None, env: Mapping[str, str] = os.environ) -> bool:
    """Return whether to write colours: NO_COLOR wins over FORCE_COLOR, and that over what the stream is."""
    if env.get("NO_COLOR"):
        return False
    forced = env.get("FORCE_COLOR")
    return forced != "0" if forced else can_redraw(stream, env)


def measure_terminal(stream: TextIO, env: Mapping[str, str] = os.environ) -> Terminal:
    """Return size and abilities of a terminal now; its user may change the size at any time."""
    width, height = _size(stream, env)
    return Terminal(
        width=min(width, _MAX_WIDTH),
        height=height,
        has_color=has_color(stream, env),
        has_unicode=(stream.encoding or "").lower().replace("-", "") == "utf8",
    )


def _size(stream: TextIO, env: Mapping[str, str]) -> tuple[int, int]:
    try:
        width, height = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        width, height = 0, 0
    return width or _number(env.get("COLUMNS")) or _DEFAULT_SIZE[0], height or _DEFAULT_SIZE[1]


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
