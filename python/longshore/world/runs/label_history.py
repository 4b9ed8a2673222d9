"""Keeps what successes took in the user's state directory: one small file per label, folded in under a lock.

A history can be deleted at any time. Nothing depends on one, so what cannot be read or written is done without.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.context import file_name
from longshore.model.run.label_history import FORMAT, LabelHistory, Success, learned
from longshore.world.files.atomic import read_record, write_atomically
from longshore.world.files.locks import take_lock
from longshore.world.runs.registry import state_folder

_LOCK: Final = "lock"


class BusyError(OSError):
    """Somebody else is writing the same history right now."""


def history_folder(identity: str) -> Path:
    """The folder of a payload's histories, named so that people recognize it."""
    plain = re.sub(r"[^\w.-]+", "_", identity).strip("_.")[-60:]
    return state_folder() / "history" / f"{plain}-{sha256(identity.encode()).hexdigest()[:10]}"


def read_history(identity: str, labels: Iterable[str]) -> dict[str, LabelHistory]:
    """What is remembered, per label of which anything is."""
    folder = history_folder(identity)
    found = {label: _read(_path(folder, label)) for label in labels}
    return {label: history for label, history in found.items() if history is not None and history.label == label}


def add_to_history(identity: str, successes: Sequence[Success]) -> None:
    """Fold successes in, oldest first.

    Raises
    ------
    OSError
        It cannot be written (as `BusyError`, because somebody else is writing it).
    """
    folder = history_folder(identity)
    folder.mkdir(parents=True, exist_ok=True)
    by_label: dict[str, list[Success]] = {}
    for success in successes:
        by_label.setdefault(success.label, []).append(success)
    # Never waited for: whoever holds it may be stopped, and a run does not stop for its history.
    try:
        lock = take_lock(folder / _LOCK)
    except BlockingIOError:
        raise BusyError from None
    with lock:
        _replace(folder, by_label)


def _replace(folder: Path, by_label: Mapping[str, Sequence[Success]]) -> None:
    for label, successes in by_label.items():
        path = _path(folder, label)
        before = _read(path)
        if before is None or before.label != label:
            before = LabelHistory(label=label)
        write_atomically(path, msgspec.json.encode(learned(before, successes)) + b"\n")


def _path(folder: Path, label: str) -> Path:
    return folder / f"{file_name(label)}.json"


def _read(path: Path) -> LabelHistory | None:
    history = read_record(path, LabelHistory)
    return history if history is not None and history.v <= FORMAT else None
