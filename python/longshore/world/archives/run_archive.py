"""Archives of directories: one compressed tar file, the same for the same content, and read with distrust.

Members have the directory's name as their first part. A reader takes regular files and folders below it, and refuses
all else: absolute paths, ``..``, links, devices, and files that come twice.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Final, cast

import msgspec

from longshore.errors import RunUnreadableError
from longshore.world.archives.archive_names import archive_suffix
from longshore.world.files.folder import open_below
from longshore.world.files.permissions import CLOSED_ERRORS, closed_hint
from longshore.world.files.raw_file import RawFile
from longshore.world.files.read_file import open_stream
from longshore.world.files.system import files

_PIECE_B: Final = 1 << 20
_DAMAGE: Final = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)


class ArchivedFile(msgspec.Struct, frozen=True):
    """A file of an archive: size, SHA-256 and time of modification in nanoseconds."""

    size_b: int
    digest: str
    changed_ns: int = 0


def list_tree(root: Path, *, without: str = "") -> tuple[list[str], list[str]]:
    """Return all files and folders below a directory, sorted by name, and all others: links, pipes, sockets.

    The folder `without` of the directory is left out.
    """
    found: list[str] = []
    others: list[str] = []
    stack = [""]
    while stack:
        folder = stack.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if name == without:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append(f"{name}/")
                    stack.append(f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    found.append(name)
                else:
                    others.append(name)
    return sorted(found), sorted(others)


def write_archive(
    root: Path, output: IO[bytes], *, suffix: str, without: str = "", on_read: Callable[[int], None] = lambda _: None
) -> dict[str, ArchivedFile]:
    """Write a directory as an archive without any clock, user or order of the disk; return its files.

    The folder `without` is left out. `on_read` is called with the number of bytes of each piece of a file. Raises
    `OSError` if a file cannot be read, or changes meanwhile.
    """
    written = {}
    with (
        _compressor(output, suffix) as stream,
        tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in list_tree(root, without=without)[0]:
            path = root / name
            status = path.lstat()
            member = tarfile.TarInfo(f"{root.name}/{name.rstrip('/')}")
            member.mode, member.mtime = stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
            if name.endswith("/"):
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
                continue
            with io.BufferedReader(RawFile(open_below(path, os.O_RDONLY, below=root))) as content:
                before = files.fstat(content.fileno())
                member.size = before.st_size
                reader = _HashingReader(content, on_read)
                tar.addfile(member, cast("IO[bytes]", reader))
                after = files.fstat(content.fileno())
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise OSError(0, "it changed while it was read", str(path))
            written[name] = ArchivedFile(before.st_size, reader.digest.hexdigest(), before.st_mtime_ns)
    return written


def read_archive(path: Path, suffix: str = "") -> Iterator[tuple[str, tarfile.TarInfo, ArchiveContent | None]]:
    """Iterate over the members of an archive: name below its directory, record, and content of a file.

    Raises `RunUnreadableError` if it is damaged or has a member that an archive of a run never has.
    """
    with _map_damage(path):
        yield from _read_members(path, suffix or archive_suffix(path))


@contextmanager
def _map_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno:
            # From the file system; libraries of compressions raise errors without a number.
            hint = closed_hint(path) if error.errno in CLOSED_ERRORS else ""
            raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}", hint=hint) from error
        raise RunUnreadableError(
            f"the archive '{path}' is damaged, or none: {str(error) or type(error).__name__}",
            hint="Bring it back from a copy.",
        ) from error


class ArchiveContent:
    """Content of a file in an archive."""

    def __init__(self, path: Path, content: IO[bytes]) -> None:
        self._path = path
        self._content = content

    def read(self, size: int) -> bytes:
        """Read some bytes; raises `RunUnreadableError` if the archive is damaged."""
        with _map_damage(self._path):
            return self._content.read(size)

    def pieces(self) -> Iterator[bytes]:
        """Yield the content in pieces."""
        return iter(partial(self.read, _PIECE_B), b"")


def digest_of(content: ArchiveContent, on_read: Callable[[int], None] = lambda _: None) -> str:
    """Return the SHA-256 of a file's content; `on_read` is called with the number of bytes of each piece."""
    digest = sha256()
    for piece in content.pieces():
        digest.update(piece)
        on_read(len(piece))
    return digest.hexdigest()


def _read_members(path: Path, suffix: str) -> Iterator[tuple[str, tarfile.TarInfo, ArchiveContent | None]]:
    seen = set()
    top = ""
    with open_stream(path) as raw, _open_stream(raw, suffix) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts
            top = top or (parts[0] if parts else "")
            name = "/".join(parts[1:])
            if problem := _problem_of(member, top):
                raise tarfile.TarError(f"its member '{member.name}' {problem}")
            if member.name in seen:
                raise tarfile.TarError(f"its member '{member.name}' comes twice")
            seen.add(member.name)
            content = tar.extractfile(member) if member.isreg() else None
            yield name, member, None if content is None else ArchiveContent(path, content)
        # The checksum of the compression is at its end, behind the end of the tar file.
        while stream.read(_PIECE_B):
            pass


def _problem_of(member: tarfile.TarInfo, top: str) -> str:
    """Return why a member is refused; empty if it is a file or folder of the archived directory."""
    parts = member.name.split("/")
    if member.name.startswith("/") or ".." in parts or top in {"", "."} or parts[0] != top or "\0" in member.name:
        return "leads out of its directory"
    if not (member.isreg() or member.isdir()):
        return "is a link or a device"
    if not hasattr(tarfile, "data_filter"):
        # Python 3.11.0 to 3.11.3, such as Debian's. What it refuses is refused above already.
        return ""
    try:
        tarfile.data_filter(member, "/nonexistent")
    except tarfile.FilterError as error:
        return str(error)
    return ""


@contextmanager
def _open_stream(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    """Open the tar file in a compressed stream."""
    if suffix == ".tar.gz":
        with gzip.GzipFile(fileobj=raw) as stream:
            yield cast("IO[bytes]", stream)
    elif suffix == ".tar.bz2":
        with bz2.BZ2File(raw) as packed:
            yield cast("IO[bytes]", packed)
    else:
        with lzma.LZMAFile(raw) as pressed:
            yield cast("IO[bytes]", pressed)


@contextmanager
def _compressor(output: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".tar.gz":
        with gzip.GzipFile(filename="", mode="wb", fileobj=output, mtime=0) as stream:
            yield cast("IO[bytes]", stream)
    elif suffix == ".tar.bz2":
        with bz2.BZ2File(output, "wb") as packed:
            yield cast("IO[bytes]", packed)
    else:
        with lzma.LZMAFile(output, "wb") as pressed:
            yield cast("IO[bytes]", pressed)


class _HashingReader:
    """Reads a stream, and computes the SHA-256 of what was read."""

    def __init__(self, content: IO[bytes], on_read: Callable[[int], None]) -> None:
        self._content = content
        self._on_read = on_read
        self.digest = sha256()

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        piece = self._content.read(size)
        self.digest.update(piece)
        self._on_read(len(piece))
        return piece
