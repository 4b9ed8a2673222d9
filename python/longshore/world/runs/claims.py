"""What the runs of one user on one host claim of it: a small file per run, locked as long as its engine lives.

A free lock is a dead claim. A run whose engine is gone and whose keeper still waits for jobs keeps what these hold: the
keeper's file is locked as well.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import file_name
from longshore.model.run.claim import Claim
from longshore.world.files.locks import Lock, is_locked, take_lock
from longshore.world.host import host_name
from longshore.world.runs.registry import state_folder

_SUFFIX: Final = ".claim"
_TABLE: Final = "lock"
_BLOCK: Final = 4096
_LOOK_S: Final = 1.0
"""How long another run may look at a claim, which locks it."""
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
        self._lock = take_lock(self.path, wait_s=_LOOK_S)
        self._length = os.fstat(self._lock.file).st_size

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
        os.pwrite(self._lock.file, text.ljust(self._length), 0)

    def release(self) -> None:
        """Claim nothing any more."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            # The lock is what counts, and that goes with the file.
            pass
        finally:
            self._lock.release()


def lock_claims(folder: Path) -> Lock:
    """Keep all others from claiming anything.

    Raises
    ------
    BlockingIOError
        Another run does that now.
    """
    return take_lock(folder / _TABLE)


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
        text = path.read_bytes()
        lock = take_lock(path, create=False)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        # One that is empty has just been made, and claims nothing yet.
        claim = _decoded(text, path) if text else None
        return claim and msgspec.structs.replace(claim, alive=abs(now - claim.at) < STALE_S)
    with lock:
        with suppress(ClaimUnreadableError):
            claim = _decoded(text, path)
            if _keeper_lives(Path(claim.keeper)):
                return msgspec.structs.replace(claim, alive=False)
        path.unlink(missing_ok=True)
    return None


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
