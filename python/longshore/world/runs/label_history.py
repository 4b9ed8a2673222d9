"""Resource histories of successful attempts: one small file per label in the state directory, updated under a lock.

A history can be deleted at any time, and no run depends on one: histories that cannot be read or written are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import file_name
from longshore.model.run.label_history import FORMAT, AttemptUsage, LabelHistory, update_history
from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.locks import take_lock
from longshore.world.files.read_file import read_record
from longshore.world.runs.registry import state_folder

_LOCK: Final = "lock"


class HistoryBusyError(OSError):
    """Another process is writing the same history."""


def history_folder(identity: str) -> Path:
    """Return the folder of a payload's histories, with a name that people recognize."""
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
