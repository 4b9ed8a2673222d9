"""Finds the directory of a run by its id, the beginning of its id, a path, or ``@last``."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from longshore.contract.context import RunPaths
from longshore.errors import LongshoreError, RunNotFoundError, UnknownRunError
from longshore.model.run.submission import RunIdentity
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.world.archives.archive_names import archive_suffix
from longshore.world.files.presence import real_path
from longshore.world.host import working_directory
from longshore.world.runs.mirrors import shown_directory
from longshore.world.runs.registry import RegistryEntry, read_entries, read_entry, registered_path
from longshore.world.runs.run_directory import read_card

LOG: Final = logging.getLogger(__name__)
LAST_RUN: Final = "@last"
"""Reference to the last run that was submitted from the working directory, else to the last of all."""
_MOST_IDS: Final = 8
"""Ids that an error names at most."""
_REFERENCE_HINT: Final = (
    "A run is named by its id, the beginning of its id, the path of its submit directory, or @last."
)


def newest_runs(entries: Iterable[RegistryEntry]) -> list[RegistryEntry]:
    """Return the runs that `LAST_RUN` may mean, the best first: those submitted from here, then all, newest first."""
    here = working_directory()
    return sorted(entries, key=lambda entry: (_is_from(entry, here), entry.created_at, entry.id), reverse=True)


def run_reference(run: RunPaths, card: RunIdentity) -> str:
    """Return how a command names this very directory: the id, or the path if the id is unknown or leads elsewhere."""
    return card.id if registered_path(card.id) == str(run.root) else str(shown_directory(run))


def hint_reference(run: RunPaths) -> str:
    """Return how a hint names a run in a command for the shell."""
    try:
        return shlex.quote(run_reference(run, read_card(run)))
    except (LongshoreError, OSError):
        return shlex.quote(str(run.root))


def find_run(reference: str) -> RunPaths:
    """Find the directory of a run by its id, a unique prefix of the id, a path, or ``@last``.

    Raises `RunNotFoundError` when no run, or more than one, matches.
    """
    by_id = read_entry(reference) if reference.isalnum() else None
    if by_id:
        return RunPaths(Path(by_id.path))
    # `os.path`, unlike `Path`, gives an answer for names that are too long and for circular links.
    is_file = bool(archive_suffix(reference)) and os.path.isfile(reference)  # noqa: PTH113
    if "/" in reference or is_file or (reference and os.path.isdir(reference)):  # noqa: PTH112
        return RunPaths(real_path(reference))
    known = list(read_entries())
    if reference == LAST_RUN:
        return _find_last(known)
    if by_other_id := [entry for entry in known if not {reference, f"{reference}.0"}.isdisjoint(entry.other_ids)]:
        # A workload manager that was reinstalled counts its ids from the beginning again.
        return RunPaths(Path(max(by_other_id, key=lambda entry: (entry.created_at, entry.id)).path))
    by_prefix = [entry for entry in known if reference and entry.id.startswith(reference)]
    if len(by_prefix) == 1:
        return RunPaths(Path(by_prefix[0].path))
    if by_prefix:
        ids = ", ".join(entry.id for entry in by_prefix[:_MOST_IDS])
        more = f" and {len(by_prefix) - _MOST_IDS} more" if by_prefix[_MOST_IDS:] else ""
        raise RunNotFoundError(
            f"'{reference}' is the beginning of {len(by_prefix)} run ids: {ids}{more}", hint="Give more of the id."
        )
    names = [LAST_RUN, *(entry.id for entry in known)]
    hint = did_you_mean(reference, names, likeness=NAME_LIKENESS) or _REFERENCE_HINT
    raise UnknownRunError(f"no run '{reference}' is known", hint=hint)


def _find_last(known: Sequence[RegistryEntry]) -> RunPaths:
    if not known:
        raise RunNotFoundError("there is no last run: the registry is empty", hint=_REFERENCE_HINT)
    last = newest_runs(known)[0]
    if not _is_from(last, working_directory()):
        _tell_elsewhere(last.id, last.submitted_from)
    return RunPaths(Path(last.path))


def _is_from(entry: RegistryEntry, folder: str) -> bool:
    return bool(folder) and entry.submitted_from == folder


@lru_cache(maxsize=64)
def _tell_elsewhere(run: str, folder: str) -> None:
    """Log that `LAST_RUN` is a run of another directory, once."""
    place = f", submitted from '{folder}'" if folder else ""
    LOG.warning("no run was submitted from this directory: '%s' is '%s', the newest of all%s", LAST_RUN, run, place)
