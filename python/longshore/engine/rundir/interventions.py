"""Interventions: files by which the user's processes ask a run's engine to act, taken in order of names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders, move, remove_file
from longshore.world.files.read_file import read_file
from longshore.world.files.system import files

_SUFFIX: Final = ".json"
InterventionKind = Literal["cancel", "pause", "unpause", "throttle", "hold", "release", "set", "restart"]
"""Kind of intervention."""


class InterventionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Intervention by a user; an empty selection means the whole run."""

    who: str
    act: InterventionKind
    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()
    """For a restart: labels whose jobs run again even if they succeeded."""


def write_intervention(run: RunPaths, record: InterventionRecord) -> Path:
    """Write an intervention for the engine, atomically, and return its path, which exists until the engine takes it.

    Raises
    ------
    SubmissionRefusedError
        The run directory belongs to another user, or its disk is full.
    """
    try:
        make_folders(run.steer, below=run.root, durable=True)
        path = run.steer / f"{_next_number(run):020}-{os.getpid()}{_SUFFIX}"
        write_atomically(path, msgspec.json.encode(record), below=run.root, durable=True)
    except OSError as error:
        raise SubmissionRefusedError(
            f"no intervention can be written to '{run.root}': {error.strerror}",
            hint="Only users with write access to a run can steer it.",
        ) from error
    return path


def _next_number(run: RunPaths) -> int:
    """Return a number above those of all pending interventions, even if the clock was set back in between."""
    newest = max((name.partition("-")[0] for name in files.listdir(run.steer)), default="")
    return max(time.time_ns(), int(newest) + 1 if newest.isdigit() else 0)


def discard_interventions(run: RunPaths) -> None:
    """Remove all pending interventions."""
    for path, _ in read_interventions(run):
        remove_file(path, below=run.root)


def read_interventions(run: RunPaths) -> list[tuple[Path, InterventionRecord]]:
    """Return the pending interventions, oldest first; set an unreadable one aside instead of carrying it out."""
    try:
        names = sorted(name for name in files.listdir(run.steer) if name.endswith(_SUFFIX))
    except OSError:
        # The folder is missing, or unreadable for now: its interventions are taken once it can be read.
        return []
    pending = []
    for name in names:
        path = run.steer / name
        try:
            pending.append((path, msgspec.json.decode(read_file(path), type=InterventionRecord)))
        except OSError:
            # Another engine has taken over the run and this intervention, or the file is unreadable for now.
            continue
        except DECODE_ERRORS:
            with suppress(OSError):
                move(path, path.with_suffix(".unreadable"), below=run.root)
    return pending
