"""The standard streams: what the terminal there can show, who reads them, and what is printed there safely.

Messages that nobody can read are dropped. Untrusted bytes go to a pipe unchanged, and to a terminal with escaped
control characters.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterable, Mapping
from typing import BinaryIO, Final, TextIO

import click
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


class Output(io.TextIOWrapper):
    """A standard stream of the program that drops what cannot be written, where `drops` names the error.

    Nobody has to read the messages of a command for it to do its work and end with its status.
    """

    drops: tuple[type[OSError], ...] = ()

    def write(self, text: str, /) -> int:
        """Write text."""
        try:
            return super().write(text)
        except self.drops as error:
            self._drop(error)
            return len(text)

    def flush(self) -> None:
        """Write what waits in memory."""
        try:
            super().flush()
        except self.drops as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        # A full disk may have room again, and the stream tries again; a reader never comes back.
        if isinstance(error, BrokenPipeError):
            discard(self)


def discard(stream: TextIO) -> None:
    """Let all that a stream still writes, also when Python flushes it at exit, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    if nowhere != stream.fileno():
        os.close(nowhere)


def discard_unwritable_output() -> None:
    """Discard what the standard streams cannot write: else Python fails to, and ends with a status of its own, 120."""
    for stream in (sys.stdout, sys.stderr):
        if stream:  # `None` if it was closed before this program began
            try:
                stream.flush()
            except OSError:
                discard(stream)


def take_streams() -> None:
    """Give the process of the program standard streams that can drop what nobody reads, as messages always do."""
    sys.stdout, sys.stderr = _own_stream(sys.stdout), _own_stream(sys.stderr)
    if isinstance(sys.stderr, Output):
        sys.stderr.drops = (OSError,)


def _own_stream(stream: TextIO) -> TextIO:
    """Return a stream that can drop what nobody reads, over the same buffer; another kind of stream stays."""
    if type(stream) is not io.TextIOWrapper:
        return stream
    return Output(
        stream.buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def print_json(document: object) -> None:
    """Print a JSON document."""
    from longshore.reports.documents.document import to_json

    click.echo(to_json(document))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes for the user to standard error."""
    for note in notes:
        click.echo(f"longshore: {note}", err=True)


class SafeOutput:
    """Standard output for untrusted text; `raw` writes bytes unchanged even to a terminal."""

    def __init__(self, *, raw: bool = False) -> None:
        # `None` if it was closed before this program began.
        self._stream: BinaryIO | None = sys.stdout.buffer if sys.stdout else None
        self._encoding = sys.stdout.encoding if sys.stdout else "utf-8"
        self._raw = raw or self._stream is None or not sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._at_line_start = True

    def write_line(self, text: str) -> None:
        """Write a line of Longshore's; names in it are untrusted too."""
        if not self._raw:
            text = escape_output(text)
        self._write(text.encode(self._encoding, "backslashreplace") + b"\n")

    def write(self, chunk: bytes, *, last: bool = False) -> None:
        """Write the next bytes of an untrusted text, which may cut a character; `last` marks its end."""
        if self._raw:
            self._write(chunk)
            return
        text = self._decoder.decode(chunk, final=last)
        self._write(escape_output(text).encode(self._encoding, "backslashreplace"))

    def end_line(self) -> None:
        """Begin a new line, unless the last piece ended with one."""
        if not self._at_line_start:
            self._write(b"\n")

    def flush(self) -> None:
        """Flush, so that readers get all output."""
        if self._stream:
            self._stream.flush()

    def _write(self, chunk: bytes) -> None:
        if chunk and self._stream:
            self._stream.write(chunk)
            self._at_line_start = chunk.endswith(b"\n")


def escape_output(text: str) -> str:
    r"""Escape terminal control characters, except line feeds and tabs, as ``\x1b`` and the like.

    A carriage return at the end of a line, as in a file from Windows, is dropped.
    """
    from longshore.model.report import escape_controls

    return escape_controls(text.replace("\r\n", "\n"), keep="\n\t")
