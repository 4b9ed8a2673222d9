"""Encodes and decodes the manifest of a submission."""

from __future__ import annotations

import msgspec

from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.checked_document import encode_document, is_intact
from longshore.model.run.manifest import MANIFEST_FORMAT, Manifest


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest, with a checksum of its own."""
    return encode_document(manifest)


def decode_manifest(text: bytes, *, path: str, run: str) -> Manifest:
    """Decode a manifest; `run` is how a command names the run.

    Raises
    ------
    RunUnreadableError
        It does not fit its checksum, or has a newer format.
    """
    if not is_intact(text):
        raise RunUnreadableError(
            f"'{path}' is damaged: its content does not fit its checksum",
            hint=f"Restore the file from a copy; 'longshore verify {run}' names what else is damaged.",
        )
    try:
        version = _decode_format(text).v
        if version > MANIFEST_FORMAT:
            raise RunUnreadableError(
                f"'{path}' has format {version}; this Longshore reads up to {MANIFEST_FORMAT}",
                hint="Use the version that wrote it, or a newer one.",
            )
        return _decode(text)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error


class _ManifestFormat(msgspec.Struct):
    v: int


_decode = msgspec.json.Decoder(Manifest).decode
_decode_format = msgspec.json.Decoder(_ManifestFormat).decode
