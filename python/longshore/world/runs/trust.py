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
    """A run that the user trusts: its directory, owner, inode, and digests of what it would run."""

    path: str
    uid: int
    device: int
    inode: int
    workflow: str
    """SHA-256 of ``workflow.jsonl``, which has the commands of all jobs; empty without that file."""
    manifests: tuple[str, ...]
    """SHA-256 of each manifest that was there or that this user added; they have digests of all other files."""
    at: float


def is_trusted(run: RunPaths, uid: int, device: int, inode: int) -> bool:
    """Whether this user trusts a run: the same directory, owner, workflow and submissions as when trust was given."""
    record = _read_record(run)
    if record is None or (record.path, record.uid, record.device, record.inode) != (str(run.root), uid, device, inode):
        return False
    found = manifest_digests(run)
    # Nothing is compared with a manifest that was removed or cannot be read.
    if "" in found or bool(found) != bool(record.manifests):
        return False
    return record.workflow == workflow_digest(run) and found <= {*record.manifests}


def was_trusted(run: RunPaths) -> bool:
    """Whether this user gave trust in a run, even if the run changed since."""
    return _read_record(run) is not None


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


def manifest_digests(run: RunPaths) -> frozenset[str]:
    """Return the SHA-256 of the manifests of all submissions; the empty text for one that cannot be read."""
    try:
        names = os.listdir(run.submissions)
    except OSError:
        return frozenset()
    return frozenset(_digest(run.submissions / name) for name in names if name.endswith(".json"))


def trust_own_manifest(run: RunPaths, text: bytes) -> None:
    """Extend this user's trust in a run, if there is any, to a manifest that this user adds."""
    record = _read_record(run)
    if record is not None:
        digest = hashlib.sha256(text).hexdigest()
        record_trust(run, msgspec.structs.replace(record, manifests=(*record.manifests, digest)))


def _read_record(run: RunPaths) -> TrustRecord | None:
    try:
        text, status = read_with_status(_record_path(run))
        record = msgspec.json.decode(text, type=TrustRecord)
    except (OSError, *DECODE_ERRORS):
        return None
    # A record that another user could leave there is no consent of this one.
    return record if status.st_uid == os.geteuid() else None


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
