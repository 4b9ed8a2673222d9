"""Record of what ``longshore clean`` removed from a run, so that a missing log is explained: ``cleaned.json``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.contract.context import RunPaths
from longshore.world.files.atomic import write_atomically
from longshore.world.files.read_file import read_record


class Cleaning(msgspec.Struct, frozen=True, kw_only=True):
    """One removal of files: its time in seconds since the epoch, its user, and the number of files per kind."""

    at: float
    user: str
    files: Mapping[str, int]


class CleaningRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All removals from a run, oldest first."""

    v: int = 1
    cleanings: tuple[Cleaning, ...] = ()


def read_cleanings(run: RunPaths) -> tuple[Cleaning, ...]:
    """Return the removals from a run; none if there is no record, or it cannot be read."""
    record = read_record(run.cleaned, CleaningRecord)
    return record.cleanings if record else ()


def record_cleaning(run: RunPaths, cleaning: Cleaning) -> None:
    """Record a removal durably before it begins, so that missing files are explained after a crash.

    Raises `OSError` if the record cannot be written.
    """
    record = CleaningRecord(cleanings=(*read_cleanings(run), cleaning))
    write_atomically(run.cleaned, msgspec.json.encode(record) + b"\n", below=run.root, durable=True)
