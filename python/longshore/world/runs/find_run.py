"""Finds the directory of a run by its id, the beginning of its id, a path, or ``@last``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from longshore.contract.context import RunPaths
from longshore.errors import RunNotFoundError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.world.runs.registry import read_entries, read_entry

LAST_RUN: Final = "@last"
"""Reference to the last submitted run."""
_REFERENCE_HINT: Final = (
    "A run is named by its id, the beginning of its id, the path of its submit directory, or @last."
)


def find_run(reference: str) -> RunPaths:
    """Find the directory of a run by its id, a unique prefix of the id, a path, or ``@last``.

    Raises `RunNotFoundError` when no run, or more than one, matches.
    """
    by_id = read_entry(reference) if reference.isalnum() else None
    if by_id:
        return RunPaths(Path(by_id.path))
    # `os.path`, unlike `Path`, gives an answer for names that are too long and for circular links.
    if "/" in reference or (reference and os.path.isdir(reference)):  # noqa: PTH112
        return RunPaths(Path(os.path.realpath(reference)))
    known = list(read_entries())
    if reference == LAST_RUN:
        if known:
            return RunPaths(Path(max(known, key=lambda entry: (entry.created_at, entry.id)).path))
        raise RunNotFoundError("there is no last run: the registry is empty", hint=_REFERENCE_HINT)
    if by_other_id := [entry for entry in known if not {reference, f"{reference}.0"}.isdisjoint(entry.other_ids)]:
        # A workload manager that was reinstalled counts its ids from the beginning again.
        return RunPaths(Path(max(by_other_id, key=lambda entry: (entry.created_at, entry.id)).path))
    by_prefix = [entry for entry in known if reference and entry.id.startswith(reference)]
    if len(by_prefix) == 1:
        return RunPaths(Path(by_prefix[0].path))
    if by_prefix:
        ids = ", ".join(entry.id for entry in by_prefix[:8])
        raise RunNotFoundError(
            f"'{reference}' is the beginning of {len(by_prefix)} run ids: {ids}", hint="Give more of the id."
        )
    hint = did_you_mean(reference, (entry.id for entry in known), likeness=NAME_LIKENESS) or _REFERENCE_HINT
    raise RunNotFoundError(f"no run '{reference}' is known", hint=hint)
