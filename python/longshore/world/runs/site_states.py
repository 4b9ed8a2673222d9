"""States of sites in the user's state directory, a file each, which one process changes at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import file_name
from longshore.errors import FilesError
from longshore.model.sites.site_state import SiteClaim, SiteState
from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.locks import take_lock
from longshore.world.files.read_file import read_record
from longshore.world.runs.registry import state_folder

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
