"""Takes the footprints of files, and says what became of a file since."""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path

from longshore.model.run.fingerprint import Footprint


def footprint(path: Path, name: str = "") -> Footprint | None:
    """The footprint of a file; ``None`` where there is none, or it may not be read.

    Parameters
    ----------
    path
        The file.
    name
        What it is called in the footprint; its absolute path, unless something else is said.
    """
    try:
        about = path.stat()
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return Footprint(path=name or str(path.absolute()), size=about.st_size, mtime_ns=about.st_mtime_ns, sha256=digest)


def what_became(before: Footprint, root: Path) -> str:
    """What is different about a file, in words; empty where nothing is.

    Parameters
    ----------
    before
        The file as it was.
    root
        Where relative paths are seen from.
    """
    path = root / before.path
    try:
        about = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "is not there any more"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    if about.st_size != before.size:
        return f"has another content now: {about.st_size:,} bytes, and {before.size:,} then"
    if about.st_mtime_ns == before.mtime_ns:
        # What was written within the same tick of the clock, and is as long, is told apart by nobody.
        return ""
    now = footprint(path)
    if now is None:
        return "can no longer be read"
    return "" if now.sha256 == before.sha256 else "has another content now, as long as before"
