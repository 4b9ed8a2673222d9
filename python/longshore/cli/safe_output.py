"""Writes untrusted bytes to standard output: unchanged to a pipe, with escaped control characters to a terminal."""

from __future__ import annotations

import codecs
import sys
from typing import BinaryIO

from longshore.cli.show.format import escape_controls


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
    return escape_controls(text.replace("\r\n", "\n"), keep="\n\t")
