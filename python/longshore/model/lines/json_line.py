"""Encodes a record as JSON on one line."""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder(enc_hook=dict).encode


def encode(record: object) -> bytes:
    """Encode a record as JSON on one line, without a line feed."""
    return _encode(record)


def encode_line(record: object) -> bytes:
    """Encode a record as one line of JSON, with its line feed."""
    return _encode(record) + b"\n"
