"""Checks of this machine: room on disks, clocks, folders that are written, and the umask."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Final

from longshore.app.maintain.diagnosis import Diagnosis, DiagnosisState
from longshore.errors import FilesError
from longshore.model.text_format import format_size
from longshore.model.wording import count_noun
from longshore.world.files.atomic import file_system_time
from longshore.world.files.disk_space import mount_point
from longshore.world.files.permissions import CLOSED_ERRORS
from longshore.world.files.presence import can_see_folder, current_directory
from longshore.world.process_system import processes
from longshore.world.runs.registry import state_folder

_LITTLE_B: Final = 1 << 30
_FULL_B: Final = 1 << 20
_LITTLE_SHARE: Final = 0.02
_FULL_SHARE: Final = 0.001
_NOTED_S: Final = 2.0
_WRONG_S: Final = 60.0


def check_disks(folders: Iterable[Path]) -> Iterator[Diagnosis]:
    """Check space, inodes and clock of the file system of each folder, once per file system."""
    for folder in _one_per_device(folders):
        try:
            space = os.statvfs(folder)
        except OSError as error:
            message = f"the file system of '{folder}' cannot be looked at: {error.strerror}"
            yield _diagnosis("disk", DiagnosisState.WARNING, message)
            continue
        mount = mount_point(folder)
        free_b, size_b = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        yield judge_space(mount, free_b=free_b, size_b=size_b)
        if space.f_files:
            yield judge_inodes(mount, free=space.f_favail, total=space.f_files)


def judge_space(mount: Path, *, free_b: int, size_b: int) -> Diagnosis:
    """Judge the free space of a file system; a part of it or an amount may be too little."""
    message = f"'{mount}' has {format_size(free_b)} of {format_size(size_b)} free"
    state = DiagnosisState.OK
    if size_b and free_b < _FULL_B:
        state = DiagnosisState.ERROR
    elif size_b and free_b < min(_LITTLE_B, _LITTLE_SHARE * size_b):
        state = DiagnosisState.WARNING
    hint = "Make room there; 'longshore clean' shows what of runs may go." if state is not DiagnosisState.OK else ""
    return _diagnosis("disk", state, message, hint)


def judge_inodes(mount: Path, *, free: int, total: int) -> Diagnosis:
    """Judge how many files a file system can still have."""
    message = f"'{mount}' has room for {count_noun(free, 'more file')}"
    state = DiagnosisState.OK
    if free == 0:
        state = DiagnosisState.ERROR
    elif free < _LITTLE_SHARE * total:
        state = DiagnosisState.ERROR if free < _FULL_SHARE * total else DiagnosisState.WARNING
    hint = "Remove files there; 'longshore clean' shows what of runs may go." if state is not DiagnosisState.OK else ""
    return _diagnosis("disk", state, message, hint)


def check_clocks(folders: Iterable[Path]) -> Iterator[Diagnosis]:
    """Compare the clock of this machine with those that date files, by a file that is made and removed."""
    for folder in _one_per_device(folders):
        if not os.access(folder, os.W_OK | os.X_OK):
            continue
        before = time.time()
        try:
            dated = file_system_time(folder)
        except OSError as error:
            message = f"'{folder}' cannot be written: {error.strerror}"
            yield _diagnosis("clock", DiagnosisState.WARNING, message, "Make room there, or correct its permissions.")
            continue
        yield judge_clock(mount_point(folder), difference_s=_distance(dated, before, time.time()))


def judge_clock(mount: Path, *, difference_s: float) -> Diagnosis:
    """Judge by how much the clock of a file system differs from that of this machine."""
    way = "ahead of" if difference_s > 0 else "behind"
    message = f"the clock of '{mount}' is {abs(difference_s):.1f} s {way} that of this machine"
    if abs(difference_s) < _NOTED_S:
        return _diagnosis("clock", DiagnosisState.OK, f"the clock of '{mount}' agrees with that of this machine")
    state = DiagnosisState.WARNING if abs(difference_s) >= _WRONG_S else DiagnosisState.NOTE
    return _diagnosis("clock", state, message, "Tell the administrator: one of the two is not synchronised.")


def check_folders(env: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Check that the user's home and the folder of Longshore's state can be written, by a file made and removed."""
    try:
        current_directory()
    except FilesError as error:
        message = f"{error.message}; so workload managers were not asked"
        yield _diagnosis("folders", DiagnosisState.ERROR, message, error.hint)
    home = Path(env.get("HOME") or "~").expanduser()
    for what, folder, state in (
        ("the home", home, DiagnosisState.WARNING),
        ("the folder of Longshore's state", state_folder(), DiagnosisState.ERROR),
    ):
        why, chmod = _why_not_written(folder)
        if not why:
            yield _diagnosis("folders", DiagnosisState.OK, f"{what} '{folder}' can be written")
            continue
        message, hint = f"{what} '{folder}' cannot be written: {why}", chmod
        if state is DiagnosisState.ERROR:
            message = f"{what} '{folder}' cannot be written, so runs are not registered and have no ids: {why}"
            hint = f"{chmod}{', or let' if chmod else 'Let'} XDG_STATE_HOME name a folder that you may write to."
        yield _diagnosis("folders", state, message, hint)


def _why_not_written(folder: Path) -> tuple[str, str]:
    """Return why a folder cannot be made or written, and the `chmod` that opens an own one; empty if it can be."""
    place = existing_folder(folder)
    if place != folder and os.path.lexists(other := place / folder.relative_to(place).parts[0]):
        return f"'{other}' is not a directory", ""
    try:
        # The permissions of a folder do not tell: those of /proc let root write, and a file system may be read-only.
        file_system_time(place)
    except OSError as error:
        is_own = error.errno in CLOSED_ERRORS and place.stat().st_uid == os.geteuid()
        chmod = f"chmod u+rwx {quote(str(place))}" if is_own else ""
        return f"no file can be made in '{place}': {error.strerror or error}", chmod
    return "", ""


def check_umask() -> Iterator[Diagnosis]:
    """Check that files of this user are not writable by all users."""
    # To read it by a call means to change it for a moment.
    lines = processes.read_proc("self/status").decode().splitlines()
    text = next((line.split()[1] for line in lines if line.startswith("Umask:")), "")
    if text:
        yield judge_umask(int(text, 8))


def judge_umask(umask: int) -> Diagnosis:
    """Judge a umask: with some, all users can write to new runs, or their own user cannot."""
    if umask & 0o700:
        message = f"the umask is {umask:04o}: you cannot use the files that you make"
        return _diagnosis("umask", DiagnosisState.ERROR, message, "umask 022")
    if not umask & 0o002:
        message = f"the umask is {umask:04o}: all users of this machine can write to your runs"
        return _diagnosis("umask", DiagnosisState.WARNING, message, "umask 022")
    return _diagnosis("umask", DiagnosisState.OK, f"the umask is {umask:04o}")


def existing_folder(path: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    while not can_see_folder(path) and path.parent != path:
        path = path.parent
    return path


def _one_per_device(folders: Iterable[Path]) -> Iterator[Path]:
    seen = set()
    for folder in folders:
        place = existing_folder(folder)
        try:
            device = place.stat().st_dev
        except OSError:
            continue
        if device not in seen:
            seen.add(device)
            yield place


def _distance(value: float, first: float, last: float) -> float:
    """Return how far a value is outside of an interval, negative before it; clocks of files tick in milliseconds."""
    if value > last:
        return value - last
    return min(0.0, value - first)


def _diagnosis(area: str, state: DiagnosisState, message: str, hint: str = "") -> Diagnosis:
    return Diagnosis(area=area, state=state, message=message, hint=hint)
