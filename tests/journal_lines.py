"""Lines of a journal as an engine writes them, for tests that write their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from longshore.model.json_lines import SEED, add_checksum, checksum_after


def lines_of(records: Iterable[object], before: bytes = b"") -> bytes:
    """Return records as lines with checksums that continue the lines before them."""
    crc = checksum_after(before) if before else SEED
    assert crc is not None
    lines = []
    for record in records:
        line, crc = add_checksum(msgspec.json.encode(record), crc)
        lines.append(line)
    return b"".join(lines)


def append_line(path: Path, record: object) -> None:
    """Append a record to a file of lines with checksums."""
    before = path.read_bytes() if path.exists() else b""
    with path.open("ab") as file:
        file.write(lines_of([record], before))
