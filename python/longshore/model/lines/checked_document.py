"""Documents with a checksum: a JSON object whose last member ``"c"`` is the CRC-32 of all bytes before that member."""

from __future__ import annotations

import msgspec

from longshore.model.lines.checksum import SEED, add_checksum, check_block


def encode_document(record: object, *, indent: int = 1) -> bytes:
    """Encode a record as indented JSON with a checksum, and a line feed."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=indent)
    # The checksum follows the last member in its line.
    return add_checksum(text.removesuffix(b"\n}") + b"}", SEED)[0]


def is_intact(document: bytes) -> bool:
    """Return whether a document has a checksum that fits its bytes."""
    return bool(document) and check_block(document, SEED) is not None
