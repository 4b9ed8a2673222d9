"""Trust of a user in runs of other users: a record per run in the user's own state folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import FilesError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.read_file import open_stream, read_with_status
from longshore.world.runs.registry import state_folder

_BLOCK_B: Final = 1 << 20


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run that the user trusts: its directory, owner, inode, and the digest of its workflow."""

    path: str
    uid: int
    device: int
    inode: int
    workflow: str
    """SHA-256 of ``workflow.jsonl``, which has the commands of all jobs; empty without that file."""
    manifest: str
    """SHA-256 of the manifest of the first submission, which has digests of all other files; empty without one."""
    at: float


def is_trusted(run: RunPaths, uid: int, device: int, inode: int) -> bool:
    """Whether this user trusts a run: the same directory, owner and workflow as when the trust was given."""
    try:
        text, status = read_with_status(_record_path(run))
        record = msgspec.json.decode(text, type=TrustRecord)
    except (OSError, *DECODE_ERRORS):
        return False
    # A record that another user could leave there is no consent of this one.
    if status.st_uid != os.geteuid():
        return False
    given = (record.path, record.uid, record.device, record.inode)
    if given != (str(run.root), uid, device, inode):
        return False
    return (record.workflow, record.manifest) == (workflow_digest(run), manifest_digest(run))


def record_trust(run: RunPaths, record: TrustRecord) -> None:
    """Write the trust in a run; raises `FilesError` if the state folder cannot be written."""
    path = _record_path(run)
    try:
        make_folders(path.parent)
        write_atomically(path, msgspec.json.encode(record) + b"\n")
    except OSError as error:
        raise FilesError(f"'{path}' cannot be written: {error.strerror}") from error


def workflow_digest(run: RunPaths) -> str:
    """Return the SHA-256 of a run's workflow; empty if it cannot be read."""
    return _digest(run.workflow)


def manifest_digest(run: RunPaths) -> str:
    """Return the SHA-256 of the manifest of a run's first submission; empty without one."""
    return _digest(run.submissions / "0001.json")


def _digest(path: Path) -> str:
    try:
        with open_stream(path) as file:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK_B):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _record_path(run: RunPaths) -> Path:
    name = hashlib.sha256(os.fsencode(run.root)).hexdigest()[:32]
    return state_folder() / "trusted" / f"{name}.json"
