"""Archives of directories: one compressed tar file, the same for the same content, and read with distrust.

Members have the directory's name as their first part. A reader takes regular files and folders below it, and refuses
all else: absolute paths, ``..``, two names of one place, links, devices, holes, and files that come twice. Headers are
bounded before they are read, and all else is read as a stream.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

import msgspec

from longshore.errors import RunUnreadableError
from longshore.rundir.archive_names import archive_suffix
from longshore.system.files import RawFile, files
from longshore.system.folder import open_below
from longshore.system.reading import open_stream
from longshore.system.room import CLOSED_ERRORS, closed_hint

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PIECE_B: Final = 1 << 20
_MOST_HEADER_B: Final = 1 << 16
"""Bytes of a header with a long name or further values."""
_MOST_HEADERS: Final = 8
"""Headers of one member."""
_MOST_NAME_B: Final = 4095
"""Bytes of a path on Linux."""
_MOST_SIZE_B: Final = 1 << 62
_MOST_DIGITS: Final = 19
_MOST_TIME_S: Final = 1 << 40
_MOST_B: Final = 4 << 30
_MOST_RATIO: Final = 1000
"""Bytes of content per byte of an archive, beyond `_MOST_B`: as many as a log of equal lines has."""
_MOST_MEMORY_B: Final = 96 << 20
"""Memory to decompress: ``xz -9`` needs 65 MiB."""
_SHOWN_NAME: Final = 200
CARD: Final = "run.json"
"""File of a run that its archive begins with."""
_DAMAGE: Final = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError, OverflowError)


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
        # The card first: a reader bounds the rest by its number of jobs.
        for name in sorted(list_tree(root, without=without)[0], key=lambda name: name != CARD):
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

    def __init__(self, path: Path, content: _TarStream) -> None:
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
    files_seen: set[int] = set()
    folders: set[int] = set()
    top = ""
    with open_stream(path) as raw, _open_stream(raw, suffix) as packed:
        stream = _TarStream(packed, most=_MOST_B + _MOST_RATIO * files.fstat(raw.fileno()).st_size)
        while (member := stream.next_member()) is not None:
            parts = member.name.split("/")
            top = top or parts[0]
            if problem := _problem_of(member, top):
                raise tarfile.TarError(f"its member '{member.name[:_SHOWN_NAME]}' {problem}")
            # Numbers instead of names: an archive may have many long ones.
            above = [hash(member.name[:end]) for end, letter in enumerate(member.name) if letter == "/"]
            name = hash(member.name)
            if name in files_seen or not files_seen.isdisjoint(above) or (_is_file(member) and name in folders):
                raise tarfile.TarError(f"its member '{member.name[:_SHOWN_NAME]}' comes twice")
            folders.update(above)
            (files_seen if _is_file(member) else folders).add(name)
            yield "/".join(parts[1:]), member, ArchiveContent(path, stream) if _is_file(member) else None


def _is_file(member: tarfile.TarInfo) -> bool:
    """Whether a member is a plain file, without holes."""
    return member.type in {tarfile.REGTYPE, tarfile.AREGTYPE}


def _problem_of(member: tarfile.TarInfo, top: str) -> str:
    """Return why a member is refused; empty if it is a file or folder of the archived directory."""
    parts = member.name.split("/")
    if parts[0] != top or not {"", ".", ".."}.isdisjoint(parts) or "\0" in member.name:
        return "leads out of its directory, or has another name for a place in it"
    if len(os.fsencode(member.name)) > _MOST_NAME_B:
        return "has a name that no file has"
    if not (_is_file(member) or member.isdir()):
        return "is a link or a device"
    return ""


class _TarStream:
    """Members of a tar file in a stream, each header read within bounds, and no content kept.

    `tarfile` reads a header of any length into memory, and keeps all members.
    """

    def __init__(self, stream: IO[bytes], *, most: int) -> None:
        self._stream = stream
        self._most = most
        """Bytes that the stream may still have."""
        self._left = 0
        """Bytes of the newest member's content that were not read."""
        self._padding = 0

    def next_member(self) -> tarfile.TarInfo | None:
        """Return the next member, whose content is read next; ``None`` at the end, behind which nothing may follow."""
        while self.read(_PIECE_B):
            pass
        self._exactly(self._padding)
        extended: dict[str, str] = {}
        for _ in range(_MOST_HEADERS):
            block = self._exactly(tarfile.BLOCKSIZE)
            if not block.strip(b"\0"):
                while rest := self._take(_PIECE_B):
                    if rest.strip(b"\0"):
                        raise tarfile.TarError("something follows its end")
                return None
            member = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
            if member.type not in {tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME}:
                return self._begin(member, extended)
            if not 0 <= member.size <= _MOST_HEADER_B:
                raise tarfile.TarError(f"a header of it has {member.size:,} bytes, and may have {_MOST_HEADER_B:,}")
            text = self._exactly(_padded(member.size))[: member.size]
            if member.type == tarfile.XHDTYPE:
                extended |= _parse_records(text)
            else:
                extended["path"] = os.fsdecode(text.rstrip(b"\0"))
        raise tarfile.TarError("it has headers without a member")

    def _begin(self, member: tarfile.TarInfo, extended: Mapping[str, str]) -> tarfile.TarInfo:
        """Complete a member by what the headers before it say."""
        if sparse := next((key for key in extended if key.startswith("GNU.sparse")), ""):
            raise tarfile.TarError(f"its member '{member.name[:_SHOWN_NAME]}' has holes: '{sparse}'")
        member.name = extended.get("path", member.name).removesuffix("/")
        if "size" in extended:
            member.size = _number(extended["size"])
        if "mtime" in extended:
            member.mtime = int(float(extended["mtime"]))
        if not 0 <= member.size <= _MOST_SIZE_B or not -_MOST_TIME_S <= member.mtime <= _MOST_TIME_S:
            raise tarfile.TarError(f"its member '{member.name[:_SHOWN_NAME]}' has a size or time that no file has")
        if member.size and not _is_file(member):
            raise tarfile.TarError(f"its member '{member.name[:_SHOWN_NAME]}' is no file, and has content")
        self._left, self._padding = member.size, _padded(member.size) - member.size
        return member

    def read(self, size: int) -> bytes:
        """Read some bytes of the newest member's content."""
        piece = self._take(min(size, self._left)) if self._left else b""
        if self._left and not piece:
            raise EOFError("it is cut off")
        self._left -= len(piece)
        return piece

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._take(size - len(found))
            if not piece:
                raise EOFError("it is cut off")
            found += piece
        return found

    def _take(self, size: int) -> bytes:
        piece = self._stream.read(size)
        self._most -= len(piece)
        if self._most < 0:
            raise tarfile.TarError("it has far more content than its size allows")
        return piece


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise tarfile.TarError(f"'{text[:_SHOWN_NAME]}' is no number of bytes")
    return int(text)


def _parse_records(text: bytes) -> dict[str, str]:
    """Parse an extended header: lines of a length, a keyword and a value."""
    found = {}
    while text:
        length = _number(text[: text.index(b" ")].decode("ascii", "replace"))
        record = text[:length]
        if not length or not record.endswith(b"\n"):
            raise tarfile.TarError("an extended header of it is not as the format says")
        key, _, value = record[record.index(b" ") + 1 : -1].partition(b"=")
        found[os.fsdecode(key)] = os.fsdecode(value)
        text = text[length:]
    return found


class _XzStream(io.RawIOBase):
    """What an xz file has, within a bound of memory that `lzma.LZMAFile` does not have."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._decoder = self._new_decoder()

    @staticmethod
    def _new_decoder() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY_B)

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read some bytes."""
        with memoryview(buffer).cast("B") as view:
            while True:
                data = b""
                if self._decoder.eof:
                    data = (self._decoder.unused_data or self._raw.read(_PIECE_B)).lstrip(b"\0")
                    if not data:
                        return 0
                    self._decoder = self._new_decoder()
                elif self._decoder.needs_input and not (data := self._raw.read(_PIECE_B)):
                    raise EOFError("it is cut off")
                if piece := self._decoder.decompress(data, len(view)):
                    view[: len(piece)] = piece
                    return len(piece)


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
        with io.BufferedReader(_XzStream(raw), _PIECE_B) as pressed:
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
