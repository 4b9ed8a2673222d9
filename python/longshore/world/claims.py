"""What the runs of one user on one host claim of it: a small file per run, locked as long as its engine lives.

A free lock is a dead claim. A run whose engine is gone and whose keeper still waits for jobs keeps what these hold: the
keeper's file is locked as well.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import file_name
from longshore.model.claim import Claim
from longshore.world.host import host_name
from longshore.world.locks import is_locked
from longshore.world.registry import state_folder

_SUFFIX: Final = ".claim"
_TABLE: Final = "lock"
_BLOCK: Final = 4096
STALE_S: Final = 60.0
"""Age from which the claim of an engine that lives counts for no more than its jobs: it is stopped."""


class ClaimUnreadableError(OSError):
    """Somebody claims what cannot be told."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Claim).decode


def claims_folder() -> Path:
    """The folder of the claims on this host."""
    return state_folder() / "claims" / file_name(host_name())


def limits_folder() -> Path:
    """The folder of the claims of limits, which count the jobs that engines of this host have running anywhere."""
    return claims_folder().parent / "limits" / claims_folder().name


class ClaimFile:
    """The claim of one run, for its engine to hold.

    Parameters
    ----------
    folder
        The folder of all claims.
    run
        The run's mark.

    Raises
    ------
    OSError
        It cannot be made, or (as `BlockingIOError`) another engine of the run holds it.
    """

    def __init__(self, folder: Path, run: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{file_name(run)}{_SUFFIX}"
        self._file = _open_locked(self.path)
        self._length = os.fstat(self._file).st_size

    def write(self, claim: Claim) -> None:
        """Replace what is claimed.

        Raises
        ------
        OSError
            The disk is full, say.
        """
        text = _encode(claim)
        # In one piece, and never shorter than before: whoever reads it meanwhile finds one claim or the other.
        self._length = max(self._length, -(-len(text) // _BLOCK) * _BLOCK)
        os.pwrite(self._file, text.ljust(self._length), 0)

    def release(self) -> None:
        """Claim nothing any more."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            # The lock is what counts, and that goes with the file.
            pass
        finally:
            os.close(self._file)


@contextmanager
def negotiation(folder: Path) -> Iterator[bool]:
    """Keep all others from claiming anything; not so when somebody else does that right now."""
    lock = os.open(folder / _TABLE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def other_claims(folder: Path, own: str, *, now: float) -> list[Claim]:
    """The claims of other runs that count; dead ones are removed.

    Parameters
    ----------
    folder
        The folder of all claims.
    own
        Mark of the run that asks.
    now
        What the host's clock shows that never jumps.

    Raises
    ------
    OSError
        They cannot be read.
    """
    mine = f"{file_name(own)}{_SUFFIX}"
    names = [name for name in sorted(os.listdir(folder)) if name.endswith(_SUFFIX) and name != mine]
    return [claim for name in names if (claim := _counting(folder / name, now))]


def _counting(path: Path, now: float) -> Claim | None:
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        text = os.pread(file, 1 << 20, 0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # One that is empty has just been made, and claims nothing yet.
            claim = _decoded(text, path) if text else None
            return claim and msgspec.structs.replace(claim, alive=abs(now - claim.at) < STALE_S)
        with suppress(ClaimUnreadableError):
            claim = _decoded(text, path)
            if _keeper_lives(Path(claim.keeper)):
                return msgspec.structs.replace(claim, alive=False)
        path.unlink(missing_ok=True)
        return None
    finally:
        os.close(file)


def _decoded(text: bytes, path: Path) -> Claim:
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ClaimUnreadableError(f"'{path}' cannot be read: {error}") from error


def _keeper_lives(folder: Path) -> bool:
    return bool(folder.name) and any(map(_is_held, folder.glob("*.jsonl")))


def _is_held(path: Path) -> bool:
    try:
        return is_locked(path)
    except OSError:
        return False


def _open_locked(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock_patiently(file)
            # Somebody may have removed it as dead in between.
            there = path.stat()
            mine = os.fstat(file)
        except FileNotFoundError:
            os.close(file)
            continue
        except OSError:
            os.close(file)
            raise
        if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
            return file
        os.close(file)


def _lock_patiently(file: int) -> None:
    """Lock a claim that somebody may be looking at this very moment."""
    for _ in range(50):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
