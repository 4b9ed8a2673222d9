"""Claims of output files: one small file in the state folder per run of this user, with keys of the files it writes.

A key is a checksum of a file's identity, so that the claims of a million jobs take 8 MB and are compared in a moment.
Equal keys are a reason to compare the paths themselves, which the workflow of a run has. Whoever submits holds the lock
of its claim until the run is live or refused, and the lock of all claims while it compares and writes its own: of two
that begin at once, one sees the other.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import DECODE_ERRORS
from longshore.model.file_identity import FileIdentity
from longshore.model.tasks import is_remote
from longshore.rundir.registry import state_folder
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, remove_file
from longshore.system.reading import read_file
from longshore.system.sharing import is_locked, take_lock

_FOLDER: Final = "outputs"
_FORMAT: Final = 1
_SUFFIX: Final = ".claim"
_LOCK: Final = "lock"
_LOCK_S: Final = 120.0


class OutputKeys(msgspec.Struct, frozen=True):
    """Keys of the files that a run writes outside of its own directory, and of all folders above these."""

    outputs: AbstractSet[int] = frozenset()
    folders: AbstractSet[int] = frozenset()

    def common(self, other: OutputKeys) -> AbstractSet[int]:
        """Return the own keys of files that another run may write too: as files, or as parts of folders."""
        return self.outputs & other.outputs | self.outputs & other.folders | self.folders & other.outputs


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: a run, its directory, the runs in whose jobs it was submitted, and its keys.

    `is_held` says that the process that submits, restarts or resumes it is still at it.
    """

    id: str
    path: str
    ancestors: tuple[str, ...] = ()
    keys: OutputKeys = OutputKeys()
    is_held: bool = False


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of a claim; the keys follow, eight bytes each."""

    v: int
    id: str
    path: str
    ancestors: tuple[str, ...]
    outputs: int
    folders: int


def output_key(identity: str) -> int:
    """Return the key of a file's identity."""
    text = identity.encode("utf-8", "surrogateescape")
    return zlib.crc32(text) | zlib.adler32(text) << 32


def make_output_keys(paths: Iterable[str], identity: FileIdentity) -> OutputKeys:
    """Return the keys of outputs; those in the run directory, at which `identity` starts, are the run's alone."""
    own = identity.folder("")
    outputs: set[int] = set()
    folders: set[str] = set()
    for path in paths:
        whole = identity.of(path)
        if not whole.startswith(own):
            outputs.add(output_key(whole))
            if not is_remote(whole):
                folders.add(whole[: whole.rfind("/")])
    above = _folders_above(f"{folder}/" for folder in folders)
    return OutputKeys(outputs, {*map(output_key, above)})


class RunOutputs(msgspec.Struct, frozen=True):
    """Outputs of a run that is to be live: their paths, what identifies them, and their keys."""

    run_id: str
    paths: Iterable[str]
    """May be iterated more than once."""
    identity: FileIdentity
    keys: OutputKeys
    ancestors: tuple[str, ...]

    def path_among(self, others: Iterable[str]) -> str | None:
        """Return an output whose file, or a part of it, is among the outputs of another run; ``None`` without one."""
        mine: dict[str, str] = {}
        for path in self.paths:
            mine.setdefault(self.identity.of(path), path)
        above = {*_folders_above(mine)}
        for other in others:
            whole = self.identity.of(other)
            if whole in mine:
                return mine[whole]
            if whole in above:
                return next(path for each, path in mine.items() if each.startswith(f"{whole}/"))
            if (folder := next((each for each in _folders_above((whole,)) if each in mine), None)) is not None:
                return mine[folder]
        return None


@contextmanager
def hold_claims() -> Iterator[None]:
    """Hold the lock of all claims in the body."""
    path = _claims_folder() / _LOCK
    with ExitStack() as stack:
        # Without a state folder that can be written, or without locks there, nobody sees the other. A holder that waits
        # for an answer of its workload manager must not stop all others for good.
        with suppress(OSError):
            make_folders(path.parent)
            stack.enter_context(take_lock(path, wait_s=_LOCK_S))
        yield


def write_claim(claim: Claim) -> ExitStack:
    """Write a claim, and hold its lock until the returned stack is closed; raises `OSError` if it cannot be written."""
    keys = claim.keys
    header = _Header(
        v=_FORMAT,
        id=claim.id,
        path=claim.path,
        ancestors=claim.ancestors,
        outputs=len(keys.outputs),
        folders=len(keys.folders),
    )
    path = claim_path(claim.id)
    make_folders(path.parent)
    content = array("Q", keys.outputs).tobytes() + array("Q", keys.folders).tobytes()
    write_atomically(path, msgspec.json.encode(header) + b"\n" + content)
    held = ExitStack()
    with suppress(OSError):
        held.enter_context(take_lock(path, wait_s=1.0))
    return held


def read_claim(run_id: str) -> Claim | None:
    """Read the claim of a run; ``None`` if there is none, or none that can be read."""
    path = claim_path(run_id)
    try:
        line, _, content = read_file(path).partition(b"\n")
        header = msgspec.json.decode(line, type=_Header)
        keys = array("Q")
        keys.frombytes(content)
    except (OSError, ValueError, *DECODE_ERRORS):
        return None
    if header.v != _FORMAT or len(keys) != header.outputs + header.folders:
        return None
    is_held = False
    with suppress(OSError):
        is_held = is_locked(path)
    outputs, folders = keys[: header.outputs], keys[header.outputs :]
    return Claim(
        id=header.id,
        path=header.path,
        ancestors=header.ancestors,
        keys=OutputKeys({*outputs}, {*folders}),
        is_held=is_held,
    )


def claimed_runs() -> list[str]:
    """Return the ids of all runs with a claim."""
    try:
        return sorted(path.name.removesuffix(_SUFFIX) for path in _claims_folder().iterdir() if path.suffix == _SUFFIX)
    except OSError:
        return []


def claim_path(run_id: str) -> Path:
    """Return the path of a run's claim."""
    return _claims_folder() / f"{run_id}{_SUFFIX}"


def remove_claim(run_id: str) -> None:
    """Remove the claim of a run that is over."""
    with suppress(OSError):
        remove_file(claim_path(run_id))


def _claims_folder() -> Path:
    return state_folder() / _FOLDER


def _folders_above(paths: Iterable[str]) -> Iterator[str]:
    """Yield the folders above some files, each once."""
    seen: set[str] = set()
    for path in paths:
        folder = path[: path.rfind("/")]
        while folder and folder not in seen:
            seen.add(folder)
            yield folder
            folder = folder[: folder.rfind("/")]
