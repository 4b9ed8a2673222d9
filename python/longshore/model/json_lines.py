"""Lines of JSON that each end with a running CRC-32, because disks and people change what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from zlib import crc32

import msgspec

# Checksums of append-only files: each line ends with a running CRC-32 of all bytes before it. A line is a JSON object
# whose last member is ``"c"``, eight hexadecimal digits: the CRC-32 of all bytes of the file up to this member. So each
# line vouches for all lines before it, and one call of `zlib.crc32` checks a whole block. A line that is changed,
# missing, inserted, repeated or out of place is found. A cut at the end of a line is not: the rest is an intact,
# shorter file, and only a record elsewhere of its length tells.


SEED: Final = 0
"""Running checksum of an empty file."""
_OPENING: Final = b',"c":"'
_CLOSING: Final = b'"}\n'
_DIGITS: Final = 8
CHECKSUM_B: Final = len(_OPENING) + _DIGITS + len(_CLOSING)
"""Bytes at the end of a line that are its checksum."""
_HEXADECIMAL: Final = frozenset(b"0123456789abcdef")
_MARKS: Final = (_OPENING, b'"v":2')
"""Either of them marks lines of a format with checksums: the checksum itself, and the version in the first line."""
_CHANGED_END: Final = re.compile(rb',"c":"[0-9a-f]{8}"}[^\n]')
"""A whole line whose line feed is another byte."""


class BadLine(msgspec.Struct, frozen=True):
    """A line that does not fit the bytes before it: it, or what was before it, is changed or missing."""

    line: int
    """Number of the line in its file, from 1."""
    offset: int
    """Bytes of the file before the line."""
    torn: bool
    """Whether the line has no checksum, so that it is certainly not as it was written."""


def add_checksum(line: bytes, crc: int) -> tuple[bytes, int]:
    """Return a line with its checksum, and the running checksum behind it.

    `line` is an encoded JSON object with at least one member, without line feed; `crc` is the running checksum before.
    """
    payload = line[:-1]
    crc = crc32(payload, crc)
    tail = _tail(crc)
    return payload + tail, crc32(tail, crc)


def has_checksum(line: bytes) -> bool:
    """Return whether a line, with its line feed, ends in the form of a checksum."""
    return _stated(line) is not None


def have_checksums(lines: bytes) -> bool:
    """Return whether lines from the start of a file have checksums; damage of one byte does not hide that."""
    return any(mark in lines for mark in _MARKS)


def has_changed_end(rest: bytes) -> bool:
    """Return whether what follows the last line feed of a file begins with a whole line, whose end was changed.

    A line that its writer did not finish has no byte behind its checksum.
    """
    return _CHANGED_END.search(rest) is not None


def checksum_after(line: bytes) -> int | None:
    """Return the running checksum behind a line by its own statement; ``None`` if it has no checksum."""
    stated = _stated(line)
    return None if stated is None else crc32(line[-CHECKSUM_B:], stated)


def check_block(block: bytes, crc: int) -> int | None:
    """Check whole lines that follow the running checksum `crc`; return the one behind them, ``None`` if any is bad."""
    if not block:
        return crc
    stated = _stated(block[-CHECKSUM_B:])
    # A view spares a copy of the block.
    if stated is None or crc32(memoryview(block)[:-CHECKSUM_B], crc) != stated:
        return None
    return crc32(block[-CHECKSUM_B:], stated)


def find_bad_lines(block: bytes, crc: int, *, line: int = 1, offset: int = 0) -> Iterator[BadLine]:
    """Yield the bad lines of a block of whole lines, which begins with the given line at `offset`.

    A bad line does not make the next one bad: that one may follow what the bad line states, what it should state, or
    the line before it.
    """
    before: tuple[int, ...] = (crc,)
    for text in _split(block):
        stated = _stated(text)
        computed = [crc32(text[:-CHECKSUM_B], each) for each in before]
        if stated in computed:
            before = (crc32(text[-CHECKSUM_B:], computed[computed.index(stated)]),)
        else:
            yield BadLine(line, offset, torn=stated is None)
            digits = text[-len(_CLOSING) - _DIGITS : -len(_CLOSING)]
            likely = [int(digits, 16)] if _is_hexadecimal(digits) else []
            before = (*(crc32(_tail(each), each) for each in (*likely, computed[0])), before[0])
        line += 1
        offset += len(text)


def _split(block: bytes) -> list[bytes]:
    """Split a block at line feeds only; the last line may lack its own."""
    *lines, rest = block.split(b"\n")
    return [*(line + b"\n" for line in lines), *([rest] if rest else [])]


def _tail(crc: int) -> bytes:
    return b"%s%08x%s" % (_OPENING, crc, _CLOSING)


def _stated(line: bytes) -> int | None:
    """Return the checksum that a line states."""
    tail = line[-CHECKSUM_B:]
    digits = tail[len(_OPENING) : -len(_CLOSING)]
    if not (len(tail) == CHECKSUM_B and tail.startswith(_OPENING) and tail.endswith(_CLOSING)):
        return None
    return int(digits, 16) if _is_hexadecimal(digits) else None


def _is_hexadecimal(digits: bytes) -> bool:
    return len(digits) == _DIGITS and _HEXADECIMAL.issuperset(digits)


# Documents with a checksum: a JSON object whose last member ``"c"`` is the CRC-32 of all bytes before that member.


def encode_document(record: object, *, indent: int = 1) -> bytes:
    """Encode a record as indented JSON with a checksum, and a line feed."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=indent)
    # The checksum follows the last member in its line.
    return add_checksum(text.removesuffix(b"\n}") + b"}", SEED)[0]


def is_intact(document: bytes) -> bool:
    """Return whether a document has a checksum that fits its bytes."""
    return bool(document) and check_block(document, SEED) is not None


# Encodes a record as JSON on one line.


encode = msgspec.json.Encoder(enc_hook=dict).encode
"""Encodes a record as JSON on one line, without a line feed."""


def encode_line(record: object) -> bytes:
    """Encode a record as one line of JSON, with its line feed."""
    return encode(record) + b"\n"
