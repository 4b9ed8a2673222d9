"""Check of this user's processes of runs: engines, keepers, guards and notifiers whose run is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from longshore.app.maintain.diagnosis import Diagnosis, DiagnosisState
from longshore.app.runs.open_run import is_missing
from longshore.world.host import process_command
from longshore.world.process_system import processes

_AREA: Final = "processes"
_COMMANDS: Final = {"drive": "engine", "notify": "notifier"}
_PROGRAMS: Final = {"guard.py": "keeper or guard", "keeper.py": "keeper"}
_MODULE: Final = "longshore"


def check_processes() -> Iterator[Diagnosis]:
    """Find processes of this user's runs whose run directory is gone."""
    count = 0
    for pid in _own_processes():
        known = run_of_process(process_command(pid))
        if known is None:
            continue
        count += 1
        kind, root = known
        if is_missing(root / "run.json"):
            yield Diagnosis(
                area=_AREA,
                state=DiagnosisState.WARNING,
                message=f"process {pid} is the {kind} of a run whose directory '{root}' is gone",
                hint=f"If the run was not moved: kill {pid}",
            )
    message = f"processes of runs on this host: {count}"
    yield Diagnosis(area=_AREA, state=DiagnosisState.OK, message=message)


def run_of_process(command: Sequence[str]) -> tuple[str, Path] | None:
    """Return what a process is to a run, and the directory of the run, by its command line; ``None`` for others."""
    for word in command[1:]:
        path = Path(word)
        if path.name in _PROGRAMS and path.parent.name == "keeper" and path.is_absolute():
            return _PROGRAMS[path.name], path.parent.parent
    if _MODULE not in command[1:]:
        return None
    words = command[command.index(_MODULE, 1) + 1 :]
    for name, kind in _COMMANDS.items():
        if name in words:
            place = next((word for word in reversed(words) if word.startswith("/")), "")
            return (kind, Path(place)) if place else None
    return None


def _own_processes() -> Iterator[int]:
    uid = os.geteuid()
    for name in processes.list_proc():
        if name.isdigit():
            try:
                owner = os.stat(f"/proc/{name}").st_uid  # noqa: PTH116 - there may be thousands
            except OSError:
                continue
            if owner == uid:
                yield int(name)
