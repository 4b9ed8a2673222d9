"""What the user's state folder keeps between runs: what labels used, and the states of sites."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import file_name
from longshore.errors import FilesError
from longshore.model.measurements import FORMAT, AttemptUsage, LabelHistory, update_history
from longshore.model.sites import SiteClaim, SiteState
from longshore.rundir.registry import state_folder
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.reading import read_record
from longshore.system.sharing import take_lock

# Resource histories of successful attempts: one small file per label in the state directory, updated under a lock. A
# history can be deleted at any time, and no run depends on one: histories that cannot be read or written are skipped.


_LOCK: Final = "lock"


class HistoryBusyError(OSError):
    """Another process is writing the same history."""


def history_folder(identity: str) -> Path:
    """Return the folder of a payload's histories, with a name that people recognize."""
    from hashlib import sha256

    readable = re.sub(r"[^\w.-]+", "_", identity).strip("_.")[-60:]
    return state_folder() / "history" / f"{readable}-{sha256(identity.encode()).hexdigest()[:10]}"


def read_history(identity: str, labels: Iterable[str]) -> dict[str, LabelHistory]:
    """Read the stored history of each label; labels without any are left out."""
    folder = history_folder(identity)
    found = {label: _read_file(_history_path(folder, label)) for label in labels}
    return {label: history for label, history in found.items() if history is not None and history.label == label}


def add_to_history(identity: str, successes: Sequence[AttemptUsage]) -> None:
    """Add successes to the histories, oldest first.

    Raises `HistoryBusyError` when another process is writing, and `OSError` when writing fails.
    """
    folder = history_folder(identity)
    make_folders(folder)
    by_label: dict[str, list[AttemptUsage]] = {}
    for success in successes:
        by_label.setdefault(success.label, []).append(success)
    # Never waits: the holder may be suspended, and a run does not stop for its history.
    try:
        lock = take_lock(folder / _LOCK)
    except BlockingIOError:
        raise HistoryBusyError from None
    with lock:
        _update_files(folder, by_label)


def _update_files(folder: Path, by_label: Mapping[str, Sequence[AttemptUsage]]) -> None:
    for label, successes in by_label.items():
        path = _history_path(folder, label)
        history = _read_file(path)
        if history is None or history.label != label:
            history = LabelHistory(label=label)
        write_atomically(path, msgspec.json.encode(update_history(history, successes)) + b"\n")


def _history_path(folder: Path, label: str) -> Path:
    return folder / f"{file_name(label)}.json"


def _read_file(path: Path) -> LabelHistory | None:
    history = read_record(path, LabelHistory)
    return history if history is not None and history.v <= FORMAT else None


# States of sites in the user's state directory, a file each, which one process changes at a time.


_LOCK_WAIT_S: Final = 10.0


def read_site_states(names: Iterable[str]) -> dict[str, SiteState]:
    """Return the stored state of each site; an empty one where nothing is stored or it cannot be read."""
    return {name: read_record(_path(name), SiteState) or SiteState() for name in names}


@contextmanager
def changing_states() -> Iterator[Callable[[str, SiteState], None]]:
    """Hold the lock of all states, and yield a function that writes one.

    Raises `FilesError` if they cannot be written.
    """
    folder = _folder()
    try:
        make_folders(folder)
        lock = take_lock(folder / "lock", wait_s=_LOCK_WAIT_S)
    except OSError as error:
        raise FilesError(f"the states of sites in '{folder}' cannot be changed: {error.strerror or error}") from error
    with lock:
        yield _write


def claim_site(name: str, claim: SiteClaim) -> None:
    """Count a run that is sent to a site; the caller holds the lock."""
    state = read_site_states([name])[name]
    kept = tuple(each for each in state.counted_claims(claim.at) if each.run != claim.run)
    _write(name, msgspec.structs.replace(state, claims=(*kept, claim)))


def withdraw_claims(name: str, runs: Collection[str]) -> None:
    """Count runs no more: they were not submitted, or ended."""
    with changing_states() as write:
        state = read_site_states([name])[name]
        kept = tuple(claim for claim in state.claims if claim.run not in runs)
        write(name, msgspec.structs.replace(state, claims=kept))


def set_site_values(name: str, change: Callable[[SiteState], SiteState]) -> SiteState:
    """Change the state of a site, and return the new one."""
    with changing_states() as write:
        state = change(read_site_states([name])[name])
        write(name, state)
    return state


def _write(name: str, state: SiteState) -> None:
    try:
        write_atomically(_path(name), msgspec.json.encode(state))
    except OSError as error:
        raise FilesError(f"the state of the site '{name}' cannot be written: {error.strerror}") from error


def _folder() -> Path:
    return state_folder() / "sites"


def _path(name: str) -> Path:
    return _folder() / f"{file_name(name)}.json"
