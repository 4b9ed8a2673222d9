"""Checks of this user's processes of runs: those whose run is gone, and temporary files that killed ones left."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from longshore.app.maintain.diagnosis import Diagnosis, DiagnosisState
from longshore.app.runs.open_run import is_missing
from longshore.engine.keeper_io.scratch_folders import temporary_prefix
from longshore.model.wording import count_noun
from longshore.world.host import process_command, process_folder
from longshore.world.process_system import processes

_AREA: Final = "processes"
_COMMANDS: Final = {"drive": "engine", "notify": "notifier"}
_PROGRAMS: Final = {"guard.py": "keeper or guard", "keeper.py": "keeper"}
_MODULE: Final = "longshore"
_STANDBY: Final = "--standby"
_GONE: Final = " (deleted)"
"""End of the name that the kernel gives to a folder that was removed."""
_OLD_S: Final = 86_400.0
"""Age below which a folder may have been made by a process that is being started."""


def check_processes() -> Iterator[Diagnosis]:
    """Find processes of this user's runs whose run directory is gone."""
    count = 0
    for pid in _own_processes():
        known = run_of_process(process_command(pid), process_folder(pid))
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


def check_scratch(folder: Path, *, now: float) -> Iterator[Diagnosis]:
    """Find temporary directories of attempts that no process of this user uses, and in which nothing is new."""
    found = [path for path, changed_at in _temporary_folders(folder) if changed_at < now - _OLD_S]
    used = b"\0".join(_used_paths()) if found else b""
    left = [path for path in found if os.fsencode(path) not in used]
    if left:
        number = count_noun(len(left), "folder")
        yield Diagnosis(
            area=_AREA,
            state=DiagnosisState.NOTE,
            message=f"temporary files that killed processes left in '{folder}': {number}, such as '{left[0].name}'",
            hint="Those of runs that are over: longshore clean --what temporary. Remove others by hand.",
        )


def _temporary_folders(folder: Path) -> list[tuple[Path, float]]:
    """Return the temporary directories of this user's attempts, and when each was changed."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # One of a job that ends may go at any time.
                with suppress(FileNotFoundError):
                    if entry.name.startswith(temporary_prefix()) and entry.is_dir(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_uid == os.geteuid():
                            found.append((Path(entry.path), status.st_mtime))
    except OSError:
        # Another check tells of folders that cannot be read.
        return []
    return sorted(found)


def _used_paths() -> Iterator[bytes]:
    """Yield the arguments, environments and working directories of this user's processes."""
    for pid in _own_processes():
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                yield processes.read_proc(f"{pid}/{name}")
        with suppress(OSError):
            yield os.fsencode(Path(f"/proc/{pid}/cwd").readlink())


def run_of_process(command: Sequence[str], folder: str) -> tuple[str, Path] | None:
    """Return what a process is to a run, and the directory of the run; ``None`` for others.

    The command line names the run, except that of an engine that was on standby: it works in the run directory,
    `folder`.
    """
    for word in command[1:]:
        path = Path(word)
        if path.name in _PROGRAMS and path.parent.name == "keeper" and path.is_absolute():
            return _PROGRAMS[path.name], path.parent.parent
    if _MODULE not in command[1:]:
        return None
    words = command[command.index(_MODULE, 1) + 1 :]
    if _STANDBY in words:
        root = Path(folder.removesuffix(_GONE))
        return (_COMMANDS["drive"], root) if folder.endswith(_GONE) or (root / "run.json").exists() else None
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
