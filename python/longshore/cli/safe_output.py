"""Writes untrusted bytes to standard output: unchanged to a pipe, with escaped control characters to a terminal."""

from __future__ import annotations

import codecs
import sys
from typing import BinaryIO, Final

_UNESCAPED: Final = "\n\t"
_WITHOUT_UNESCAPED: Final = str.maketrans("", "", _UNESCAPED)


class SafeOutput:
    """Standard output for untrusted text.

    Parameters
    ----------
    raw
        Write bytes unchanged even to a terminal.
    """

    def __init__(self, *, raw: bool = False) -> None:
        # `None` if it was closed before this program began.
        self._stream: BinaryIO | None = sys.stdout.buffer if sys.stdout else None
        self._encoding = sys.stdout.encoding if sys.stdout else "utf-8"
        self._raw = raw or self._stream is None or not sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._at_line_start = True

    def line(self, text: str) -> None:
        """Write a line of Longshore's; names in it are untrusted too."""
        if not self._raw:
            text = harmless(text)
        self._write(text.encode(self._encoding, "backslashreplace") + b"\n")

    def text(self, chunk: bytes, *, last: bool = False) -> None:
        """Write a piece of untrusted text.

        Parameters
        ----------
        piece
            The next bytes; characters may be cut in the middle.
        last
            Whether the text ends here.
        """
        if self._raw:
            self._write(chunk)
            return
        text = self._decoder.decode(chunk, final=last)
        self._write(harmless(text).encode(self._encoding, "backslashreplace"))

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


def harmless(text: str) -> str:
    r"""Escape terminal control characters, except line feeds and tabs, as ``\x1b`` and such.

    A carriage return at the end of a line, as in a file from Windows, is dropped.
    """
    if text.translate(_WITHOUT_UNESCAPED).isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in _UNESCAPED
        else character.encode("unicode_escape").decode("ascii")
        for character in text.replace("\r\n", "\n")
    )
