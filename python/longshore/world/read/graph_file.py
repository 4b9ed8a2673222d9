"""Streaming reader and writer of graph files (JSON lines), plain or compressed with gzip."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from longshore.errors import FilesError, GraphError, Origin
from longshore.system.atomic import atomic_file

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BUFFER_B: Final = 1 << 20
_GZIP_LEVEL: Final = 3
"""gzip level: the levels above take several times as long, for a tenth less."""
GZIP_SUFFIX: Final = ".gz"
"""Suffix of a file that is written compressed; a file that is read is recognized by its first bytes."""


@contextmanager
def open_graph_file(path: Path, origin: Origin | None = None) -> Iterator[Iterator[bytes]]:
    """Open a graph file and iterate over its lines, decompressing where needed.

    Raises `FilesError` when the file is unreadable, and `GraphError` when it is compressed and damaged.
    """
    try:
        with path.open("rb", _BUFFER_B) as file:
            compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            file.seek(0)
            yield _decompressed_lines(file, path) if compressed else iter(file)
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=origin) from error


def _decompressed_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) as decompressed:
            yield from io.BufferedReader(decompressed, _BUFFER_B)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        why = "it was cut short" if isinstance(error, EOFError) else str(error)
        raise GraphError(
            f"the packed file is damaged: {why}", origin=Origin(str(path)), hint="Copy or make it again."
        ) from error


def write_graph_file(path: Path, lines: Iterable[bytes]) -> None:
    """Write a graph file atomically; the same lines always give the same bytes.

    Raises `FilesError` when the file cannot be written.
    """
    try:
        with atomic_file(path, durable=True) as file:
            if path.suffix == GZIP_SUFFIX:
                # No name and no time in the gzip header.
                with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as compressed:
                    compressed.writelines(_join_lines(lines))
            else:
                file.writelines(lines)
    except OSError as error:
        raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error


def _join_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into larger chunks, because each write to gzip has a cost."""
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size >= _BUFFER_B:
            yield b"".join(chunk)
            chunk, size = [], 0
    yield b"".join(chunk)
