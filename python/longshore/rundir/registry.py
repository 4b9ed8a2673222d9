"""The user's state folder: which runs there are, whose services may be used, and which runs of others are trusted."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, FilesError
from longshore.model.report import RunReport
from longshore.model.submission import RunIdentity
from longshore.system.atomic import create_file, write_atomically
from longshore.system.folder import make_folders, remove_file
from longshore.system.reading import open_stream, read_file, read_with_status

# Registry of the user's runs: one small file per run in the state directory; can be deleted and rebuilt.


_LETTERS: Final = "abcdefghjkmnpqrstvwxyz"
_DIGITS: Final = "0123456789" + _LETTERS
"""Digits of an id, in sort order, without i, l, o and u, which are easily misread (Crockford's base 32)."""
_EPOCH_S: Final = 1_735_689_600
"""2025-01-01, the start of the ids' time scale."""


class RegistryEntry(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"other_ids": "others", "is_found": "found"}
):
    """A registry entry: id, directory, ids at the workload manager, and result of a run."""

    id: str
    path: str
    name: str
    service: str
    created_at: float
    report: RunReport | None = None
    """The final report of a finished run, so that its directory need not be read."""
    other_ids: tuple[str, ...] = ()
    """The workload manager's ids of the run."""
    stamp: int = 0
    """Stamp of the journal when the report was stored; another stamp means that the run was restarted or resumed."""
    submitted_from: str = ""
    """Working directory of the command that submitted the run; empty if unknown."""
    submitted_in: str = ""
    """Directory of the run whose job submitted it; empty if a person did."""
    is_found: bool = False
    """Whether a command that named the directory registered the run, rather than `submit` or `adopt`."""

    @classmethod
    def of(cls, card: RunIdentity, path: str, *, is_found: bool = False) -> RegistryEntry:
        """Make an entry from a run's card and directory."""
        return cls(
            id=card.id,
            path=path,
            name=card.name,
            service=card.service,
            created_at=card.created_at,
            other_ids=card.other_ids,
            submitted_from=card.submitted_from,
            submitted_in=card.submitted_in,
            is_found=is_found,
        )


class RegistryContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the registry.

    `entries` are ordered oldest first. `unreadable` lists the ids of unreadable files, oldest first, without ids that
    are only reserved. `problem` says why the registry could not be read; empty when it could.
    """

    entries: tuple[RegistryEntry, ...]
    unreadable: tuple[str, ...]
    problem: str = ""


def state_folder() -> Path:
    """Return the folder of Longshore's state for this user (``XDG_STATE_HOME``)."""
    given = os.environ.get("XDG_STATE_HOME", "")
    # The specification ignores relative paths.
    base = Path(given) if given.startswith("/") else Path("~/.local/state").expanduser()
    return base / "longshore"


def registry_folder() -> Path:
    """Return the folder of the registry, which has a file for each run."""
    return state_folder() / "runs"


def make_run_id(seconds: float) -> str:
    """Make the id of a run that begins at a time: six characters, a letter first, sorted by time."""
    seconds_left = max(0, int(seconds) - _EPOCH_S)
    digits = ""
    for _ in range(5):
        seconds_left, digit = divmod(seconds_left, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return _LETTERS[seconds_left % len(_LETTERS)] + digits


def reserve_id(now: float) -> tuple[str, float]:
    """Reserve an unused id, with its time; of two runs in one second, the later gets the next second.

    A time before the first id counts as that of the first id. When the state directory is not writable, the run is not
    registered but goes on; its path then names it.
    """
    folder = state_folder() / "runs"
    time_s = max(now, float(_EPOCH_S))
    while True:
        name = make_run_id(time_s)
        try:
            make_folders(folder)
            create_file(folder / f"{name}.json", ())
        except FileExistsError:
            time_s += 1
        except OSError:
            return name, time_s
        else:
            return name, time_s


@contextmanager
def reserved_id() -> Iterator[tuple[str, float]]:
    """Reserve an id for a run, with its time; release it if the body fails."""
    # The time comes from the id, so that two runs of one second differ in name and directory.
    run_id, now = reserve_id(time.time())
    try:
        yield run_id, now
    except KeyboardInterrupt as interrupt:
        remove_entry(run_id)
        raise KeyboardInterrupt(str(interrupt) or "nothing was submitted") from None
    except BaseException:
        remove_entry(run_id)
        raise


def write_entry(entry: RegistryEntry) -> bool:
    """Write a run's entry; return whether that was possible."""
    path = state_folder() / "runs" / f"{entry.id}.json"
    try:
        make_folders(path.parent)
        write_atomically(path, msgspec.json.encode(entry) + b"\n", durable=True)
    except OSError:
        # Removes the reservation too: a full disk allows new names, but no content.
        remove_entry(entry.id)
        return False
    return True


def store_report(entry: RegistryEntry) -> None:
    """Store a run's result in its entry; if that fails, the result is computed again later."""
    path = state_folder() / "runs" / f"{entry.id}.json"
    with suppress(OSError, UnicodeEncodeError):
        write_atomically(path, msgspec.json.encode(entry) + b"\n")


def journal_stamp(root: str) -> int:
    """Return a number that changes at each restart or resume: each engine's life adds a journal file.

    Raises `OSError` when the journal is missing or unreadable.
    """
    status = os.stat(f"{root}/journal")  # noqa: PTH116 - a thousand of them are read
    return status.st_mtime_ns ^ status.st_ino


def file_stamp(path: str) -> int:
    """Return a number that changes with a file, for the archive of a run; raises `OSError` when it is missing."""
    status = os.stat(path)  # noqa: PTH116 - a thousand of them are read
    return status.st_mtime_ns ^ status.st_ino


def has_entry(run: str) -> bool:
    """Whether the registry has a file for an id, readable or not."""
    return bool(run) and "/" not in run and "\0" not in run and os.path.lexists(state_folder() / "runs" / f"{run}.json")


def read_entry(run: str) -> RegistryEntry | None:
    """Read a run's entry; ``None`` when it is missing or unreadable."""
    if not run or "/" in run:
        # A path is no id, and must not lead out of the folder.
        return None
    return _read_file(state_folder() / "runs" / f"{run}.json")


def registered_path(run: str) -> str | None:
    """Return a run's path by the registry; ``None`` for an unknown run."""
    entry = read_entry(run)
    return entry.path if entry else None


def remove_entry(run: str) -> None:
    """Remove a run's entry."""
    _remove_file(state_folder() / "runs" / f"{run}.json")


def read_entries() -> Iterator[RegistryEntry]:
    """Iterate over all registered runs, oldest first."""
    return iter(read_registry().entries)


def read_registry() -> RegistryContent:
    """Read the whole registry, each file once."""
    folder = registry_folder()
    found: list[RegistryEntry] = []
    unreadable = []
    names, problem = _list_names(folder)
    for name in names:
        path = f"{folder}/{name}"
        text = _read_bytes(path)
        entry = _decode_entry(text)
        if entry:
            found.append(entry)
        elif text != b"":
            unreadable.append(name.removesuffix(".json"))
    return RegistryContent(entries=tuple(found), unreadable=tuple(unreadable), problem=problem)


def newest_entries() -> Iterator[RegistryEntry]:
    """Iterate over registered runs, newest first; files are read one by one."""
    folder = registry_folder()
    for name in reversed(_list_names(folder)[0]):
        if entry := _decode_entry(_read_bytes(f"{folder}/{name}")):
            yield entry


_decode = msgspec.json.Decoder(RegistryEntry).decode


def _list_names(folder: Path) -> tuple[list[str], str]:
    """List the names of the registry's files, and the reason when that fails."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return [], ""
    except OSError as error:
        return [], f"the registry '{folder}' cannot be read: {error.strerror}"
    return sorted(name for name in names if name.endswith(".json") and not name.startswith(".")), ""


def _remove_file(path: Path) -> None:
    try:
        remove_file(path)
    except OSError:
        return


def _read_file(path: Path) -> RegistryEntry | None:
    return _decode_entry(_read_bytes(str(path)))


def _read_bytes(path: str) -> bytes | None:
    try:
        # `Path` is too slow for a thousand files.
        return read_file(path)
    except (OSError, ValueError):
        return None


def _decode_entry(text: bytes | None) -> RegistryEntry | None:
    try:
        return _decode(text) if text else None
    except DECODE_ERRORS:
        # Only reserved, or damaged: the run directory itself remains authoritative.
        return None


# Services by class path that the user's own configuration named: a file per service in the state folder. A run
# directory may name any class. Only classes that the user chose before are imported for it.


_CLASS_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def remember_service(name: str) -> None:
    """Record a class that the configuration of this user names as a service, if the state folder can be written."""
    if not _CLASS_PATH.fullmatch(name):
        return
    path = _service_path(name)
    with suppress(OSError):
        make_folders(path.parent)
        create_file(path, ())


def is_remembered_service(name: str) -> bool:
    """Whether this user's configuration named a class as a service."""
    if not _CLASS_PATH.fullmatch(name):
        return False
    try:
        return _service_path(name).lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _service_path(name: str) -> Path:
    return state_folder() / "services" / name


# Trust of a user in runs of other users: a record per run in the user's own state folder.


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
    path = _trust_path(run)
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
        from hashlib import sha256

        digest = sha256(text).hexdigest()
        record_trust(run, msgspec.structs.replace(record, manifests=(*record.manifests, digest)))


def _read_record(run: RunPaths) -> TrustRecord | None:
    try:
        text, status = read_with_status(_trust_path(run))
        record = msgspec.json.decode(text, type=TrustRecord)
    except (OSError, *DECODE_ERRORS):
        return None
    # A record that another user could leave there is no consent of this one.
    return record if status.st_uid == os.geteuid() else None


def _digest(path: Path) -> str:
    from hashlib import sha256

    try:
        with open_stream(path) as file:
            digest = sha256()
            while block := file.read(_BLOCK_B):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _trust_path(run: RunPaths) -> Path:
    from hashlib import sha256

    name = sha256(os.fsencode(run.root)).hexdigest()[:32]
    return state_folder() / "trusted" / f"{name}.json"
