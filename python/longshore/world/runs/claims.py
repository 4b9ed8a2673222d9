"""Claims of one user's runs on this host: a small file per run, locked while its engine lives.

A claim without a lock is dead. A run whose engine is gone and whose keeper still waits for jobs keeps the resources of
these jobs: the keeper's file, or that of its guard, is locked as well.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import file_name
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.run.claim import ResourceClaim
from longshore.world.files.folder import make_folders, remove_file
from longshore.world.files.locks import Lock, is_locked, take_lock
from longshore.world.files.read_file import read_file
from longshore.world.files.system import files
from longshore.world.host import host_name
from longshore.world.runs.registry import state_folder

_SUFFIX: Final = ".claim"
_LOCK_FILE: Final = "lock"
_BLOCK_B: Final = 4096
_LOCK_WAIT_S: Final = 1.0
"""Seconds another run may hold the lock while it reads a claim."""
STALE_S: Final = 60.0
"""Age after which a live engine's claim counts only its jobs: the engine is suspended."""


class ClaimUnreadableError(OSError):
    """A claim exists that cannot be read."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ResourceClaim).decode


def claims_folder() -> Path:
    """Return the folder of claims on this host."""
    return state_folder() / "claims" / file_name(host_name())


def limits_folder() -> Path:
    """Return the folder of claims on limits, which count the jobs of this host's engines wherever they run."""
    return claims_folder().parent / "limits" / claims_folder().name


class ClaimFile:
    """The claim of one run, locked by its engine.

    Raises `BlockingIOError` when another engine of the run holds it, and `OSError` when it cannot be created.
    """

    def __init__(self, folder: Path, run: str) -> None:
        make_folders(folder)
        self.path = folder / f"{file_name(run)}{_SUFFIX}"
        self._lock = take_lock(self.path, wait_s=_LOCK_WAIT_S)
        self._length = files.fstat(self._lock.file).st_size

    def write(self, claim: ResourceClaim) -> None:
        """Replace the content of the claim; raises `OSError` when the disk is full, for example."""
        text = _encode(claim)
        # One write, never shorter than the last: a concurrent reader sees the old claim or the new.
        self._length = max(self._length, -(-len(text) // _BLOCK_B) * _BLOCK_B)
        files.pwrite(self._lock.file, text.ljust(self._length), 0)

    def release(self) -> None:
        """Remove the claim."""
        try:
            remove_file(self.path)
        except OSError:
            # Only the lock counts, and it ends when the file is closed.
            pass
        finally:
            self._lock.release()


def lock_claims(folder: Path) -> Lock:
    """Lock the folder so that no other run changes its claim; raises `BlockingIOError` while another run does."""
    return take_lock(folder / _LOCK_FILE)


def read_other_claims(folder: Path, own: str, *, now: float) -> list[ResourceClaim]:
    """Read the valid claims of other runs, and remove dead ones.

    `own` is the token of the asking run, `now` the host's monotonic clock. Raises `OSError` when claims are unreadable.
    """
    own_name = f"{file_name(own)}{_SUFFIX}"
    names = [name for name in sorted(files.listdir(folder)) if name.endswith(_SUFFIX) and name != own_name]
    return [claim for name in names if (claim := _read_valid_claim(folder / name, now))]


def _read_valid_claim(path: Path, now: float) -> ResourceClaim | None:
    try:
        text = read_file(path)
        lock = take_lock(path, create=False)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        # An empty file is new and claims nothing yet.
        claim = _decode_claim(text, path) if text else None
        return claim and msgspec.structs.replace(claim, alive=abs(now - claim.at) < STALE_S)
    with lock:
        with suppress(ClaimUnreadableError):
            claim = _decode_claim(text, path)
            if _is_keeper_alive(Path(claim.keeper)):
                return msgspec.structs.replace(claim, alive=False)
        remove_file(path)
    return None


def _decode_claim(text: bytes, path: Path) -> ResourceClaim:
    try:
        return _decode(text)
    except DECODE_ERRORS as error:
        raise ClaimUnreadableError(f"'{path}' cannot be read: {error}") from error


def _is_keeper_alive(folder: Path) -> bool:
    return bool(folder.name) and any(map(_holds_lock, (*folder.glob("*.jsonl"), *folder.glob("*.guard"))))


def _holds_lock(path: Path) -> bool:
    try:
        return is_locked(path)
    except OSError:
        return False
