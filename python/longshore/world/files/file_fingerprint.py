"""Fingerprints of files, and the differences of a file from its earlier fingerprint."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

from longshore.model.run.fingerprint import FileFingerprint


def fingerprint_file(path: Path, name: str = "") -> FileFingerprint | None:
    """Take the fingerprint of a file; ``None`` when it is missing or unreadable.

    `name` replaces the file's absolute path in the fingerprint.
    """
    try:
        status = path.stat()
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return FileFingerprint(
        path=name or str(path.absolute()), size=status.st_size, mtime_ns=status.st_mtime_ns, sha256=digest
    )


def describe_change(before: FileFingerprint, root: Path) -> str:
    """Describe how a file differs from its fingerprint; empty when it is the same. Relative paths start at `root`."""
    path = root / before.path
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "is not there any more"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if status.st_size != before.size:
        return f"has another content now: {status.st_size:,} bytes, and {before.size:,} then"
    if status.st_mtime_ns == before.mtime_ns:
        # A change within one tick of the clock that keeps the length cannot be detected.
        return ""
    now = fingerprint_file(path)
    if now is None:
        return "can no longer be read"
    return "" if now.sha256 == before.sha256 else "has another content now, as long as before"


def have_same_content(path: Path, other: Path) -> bool:
    """Return whether two files have the same content; false if one is missing or unreadable."""
    before, now = fingerprint_file(path), fingerprint_file(other)
    return before is not None and now is not None and before.sha256 == now.sha256
