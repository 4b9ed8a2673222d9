"""An open file whose bytes go through the door, for the buffers of `io`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from longshore.world.files.system import files

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_PIECE_B: Final = 1 << 16


class RawFile(io.RawIOBase):
    """An open file that is read and written through the door, and closed with this object."""

    def __init__(self, file: int) -> None:
        self._file = file

    def readable(self) -> bool:
        """Return that it can be read, if it was opened so."""
        return True

    def writable(self) -> bool:
        """Return that it can be written, if it was opened so."""
        return True

    def seekable(self) -> bool:
        """Return that it has positions."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._file

    def readinto(self, target: WriteableBuffer, /) -> int:
        """Read into a buffer; return the number of bytes."""
        piece = files.read(self._file, len(memoryview(target)))
        memoryview(target)[: len(piece)] = piece
        return len(piece)

    def readall(self) -> bytes:
        """Read the rest."""
        # One byte more than is left, so that a short answer tells the end.
        wanted = files.fstat(self._file).st_size - self.tell() + 1
        pieces = []
        while piece := files.read(self._file, max(wanted, _PIECE_B)):
            pieces.append(piece)
            wanted = 0
        return b"".join(pieces)

    def write(self, content: ReadableBuffer, /) -> int:
        """Write bytes; return how many were taken."""
        return files.write(self._file, content)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position and return it."""
        return files.lseek(self._file, offset, whence)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            try:
                super().close()
            finally:
                files.close(self._file)
