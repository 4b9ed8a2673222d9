"""Origin of a value: file, line, column, and layer of the configuration."""

from __future__ import annotations

import msgspec


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Place where a value was written.

    Attributes
    ----------
    file
        Path as the user gave it, or a name such as ``--set`` for a value in no file.
    line, column
        Counted from 1; 0 where the source has no lines.
    layer
        Name of the configuration layer, such as ``defaults``, ``site`` or ``user``; empty outside configuration.
    """

    file: str
    line: int = 0
    column: int = 0
    layer: str = ""

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"
