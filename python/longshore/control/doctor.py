"""What `longshore doctor` checks: the installation, the configuration, workload managers, runs and this machine.

Nothing is changed. To compare clocks, a file is made and removed.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from importlib import metadata
from itertools import islice
from pathlib import Path
from shlex import quote
from tempfile import gettempdir
from typing import Final, NamedTuple, TypeAlias

import msgspec

import longshore
from longshore.config.includes import load_layers
from longshore.config.layers import FILE_NAME, configured_service, read_base_layers
from longshore.config.plugins import (
    ADAPTERS,
    CLUSTERING,
    GRAPH_SOURCES,
    SERVICES,
    SITE_GRAPHS,
    SITE_MATCH,
    SITE_SELECTION,
    Plugin,
    all_plugins,
)
from longshore.config.service_lookup import (
    SERVICE_VARIABLE,
    default_service,
    environment_service,
    service_names,
    short_name,
)
from longshore.contract.service import RunPaths
from longshore.errors import ConfigError, FilesError, LongshoreError
from longshore.keeper.scratch_folders import temporary_prefix
from longshore.model.report import format_size
from longshore.model.wording import count_noun
from longshore.plan.ping import ping
from longshore.reports.state import END_STATES
from longshore.reports.status import status_run
from longshore.rundir.archive_names import archive_suffix
from longshore.rundir.registry import (
    RegistryContent,
    RegistryEntry,
    journal_stamp,
    read_registry,
    registry_folder,
    state_folder,
)
from longshore.rundir.run_directory import is_own_run, read_card
from longshore.rundir.submissions import with_newest_counts
from longshore.runstate.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing
from longshore.sites.site import list_sites
from longshore.system.atomic import file_system_time
from longshore.system.host import process_command, process_folder, system_folders, user_folder, working_directory
from longshore.system.processes import processes
from longshore.system.programs import BackgroundCall, call_in_parallel
from longshore.system.reading import can_see_folder, current_directory
from longshore.system.room import CLOSED_ERRORS, closed_hint, mount_point

# Results of the checks of ``longshore doctor``, and the limit in time under which checks run.


class DiagnosisState(StrEnum):
    """How serious a diagnosis is, from the least to the most."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a check: a sentence, and the way out where one is needed."""

    area: str
    state: DiagnosisState
    message: str
    hint: str = ""


Check: TypeAlias = Callable[[], Iterable[Diagnosis]]


def run_checks(checks: Mapping[str, Check], *, limit_s: float) -> Iterator[Diagnosis]:
    """Run checks side by side, and yield their results in the order of the checks.

    A check that fails or takes longer than `limit_s` yields what it found until then, and one diagnosis that says so.
    Its name is its area, up to a colon.
    """
    calls: dict[str, BackgroundCall[None]] = {}
    found: dict[str, list[Diagnosis]] = {name: [] for name in checks}
    for name, check in checks.items():
        calls[name] = BackgroundCall()
        calls[name].start(partial(_collect, check, found[name]))
    deadline = time.monotonic() + limit_s
    for name, call in calls.items():
        area, _, what = name.partition(":")
        failure: Exception | None = None
        is_over = False
        try:
            is_over = bool(call.take_result(timeout_s=max(0.001, deadline - time.monotonic())))
        except Exception as error:  # noqa: BLE001 - one check that fails must not hide the results of the others
            failure = error
        # A check that is not over may find more at any time.
        results = tuple(found[name])
        yield from results
        if failure is not None:
            yield _failed_check(area, what, failure)
        elif not is_over:
            yield _late_check(area, what, limit_s, has_results=bool(results))


def _collect(check: Check, found: list[Diagnosis]) -> None:
    """Add the results of a check to a list, each as soon as it is known."""
    for diagnosis in check():
        found.append(diagnosis)  # noqa: PERF402 - `extend` does not promise to show results at once


def _late_check(area: str, what: str, limit_s: float, *, has_results: bool) -> Diagnosis:
    subject = f"'{what}'" if what else "the check"
    verb = "is not over after" if has_results else "does not answer within"
    return Diagnosis(
        area=area,
        state=DiagnosisState.WARNING,
        message=f"{subject} {verb} {limit_s:g} s",
        hint="A file server or a workload manager may hang: run the command again later.",
    )


def _failed_check(area: str, what: str, error: Exception) -> Diagnosis:
    hint = error.hint if isinstance(error, LongshoreError) else ""
    subject = f"the check of '{what}'" if what else "the check"
    message = f"{subject} failed: {describe_read_error(error)}"
    return Diagnosis(area=area, state=DiagnosisState.WARNING, message=message, hint=hint)


# Checks of the installation: versions, dependencies, and plug-ins that cannot be imported.


_INSTALLATION: Final = "installation"
_GROUPS: Final = (SERVICES, GRAPH_SOURCES, ADAPTERS, CLUSTERING, SITE_GRAPHS, SITE_MATCH, SITE_SELECTION)
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)[^;>]*(?:>=\s*([0-9.]+))?[^;]*(;.*extra\s*==.*)?")
_OLDEST_PYTHON: Final = (3, 11)


def check_installation() -> Iterator[Diagnosis]:
    """Check Python, the dependencies and the place of the installation."""
    folder = Path(longshore.__file__).resolve().parent
    python = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(
        area=_INSTALLATION,
        state=DiagnosisState.OK,
        message=f"Longshore {longshore.__version__} in '{folder}', Python {python} in '{sys.prefix}'",
    )
    if sys.version_info < _OLDEST_PYTHON:
        yield _problem(f"Python {python} is too old", "Install Longshore with Python 3.11 or later.")
    try:
        requirements = metadata.requires("longshore") or []
    except metadata.PackageNotFoundError:
        yield Diagnosis(
            area=_INSTALLATION,
            state=DiagnosisState.NOTE,
            message="it is a checkout that is not installed: versions of dependencies are not checked",
            hint="To install it: pip install -e .",
        )
        return
    yield from _check_requirements(requirements)


def check_plugins() -> Iterator[Diagnosis]:
    """Import every entry point, and name those that cannot be imported."""
    count = 0
    for group in _GROUPS:
        for plugin in all_plugins(group).values():
            try:
                plugin.load()
            except Exception as error:  # noqa: BLE001 - the module of a package may raise anything
                if group != ADAPTERS or not isinstance(error, ImportError):
                    yield _broken_plugin(group, plugin, error)
                # Without the packages of another system, nothing of it can be adapted.
            else:
                count += 1
    yield Diagnosis(area=_INSTALLATION, state=DiagnosisState.OK, message=f"{count} entry points were imported")


def _check_requirements(requirements: list[str]) -> Iterator[Diagnosis]:
    found = []
    for text in requirements:
        requirement = _REQUIREMENT.match(text)
        if requirement is None or requirement[3]:
            continue
        name, least = requirement[1], requirement[2]
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield _problem(f"the package '{name}' is missing", f"Install it: pip install '{name}'")
            continue
        if least and version_numbers(version) < version_numbers(least):
            yield _problem(
                f"the package '{name}' {version} is older than {least}", f"Install it: pip install '{name}>={least}'"
            )
            continue
        found.append(f"{name} {version}")
    yield Diagnosis(area=_INSTALLATION, state=DiagnosisState.OK, message=f"dependencies: {', '.join(found)}")


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, without zeros at the end."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _broken_plugin(group: str, plugin: Plugin, error: Exception) -> Diagnosis:
    package = plugin.module.partition(".")[0]
    hint = "Install Longshore anew." if plugin.is_built_in else f"Repair or remove the package that has '{package}'."
    return Diagnosis(
        area=_INSTALLATION,
        state=DiagnosisState.ERROR if plugin.is_built_in else DiagnosisState.WARNING,
        message=f"the entry point '{plugin.name}' of '{group}' cannot be imported: {type(error).__name__}: {error}",
        hint=hint,
    )


def _problem(message: str, hint: str) -> Diagnosis:
    return Diagnosis(area=_INSTALLATION, state=DiagnosisState.ERROR, message=message, hint=hint)


# Checks of the configuration of this machine and user, which every run reads, and of site profiles.


_CONFIGURATION: Final = "configuration"


def check_layers() -> Iterator[Diagnosis]:
    """Check each file of the configuration, the environment, and the profiles of all sites."""
    read, is_broken = [], False
    for path in _configuration_files():
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield _warning(f"'{path}' cannot be reached: {error.strerror}", "It is not read.")
            continue
        try:
            load_layers(path, env=os.environ)
        except ConfigError as error:
            is_broken = True
            place = f"{error.origin}: " if error.origin else ""
            message = f"{place}{error.message}"
            yield Diagnosis(
                area=_CONFIGURATION, state=DiagnosisState.ERROR, message=message, hint=error.hint or "Correct it."
            )
            continue
        read.append(f"'{path}'")
    files = f"read after the defaults: {', '.join(read)}" if read else "no file of this machine or user is there"
    yield Diagnosis(area=_CONFIGURATION, state=DiagnosisState.OK, message=files)
    if is_broken:
        return
    for finding in read_base_layers(os.environ)[2]:
        yield _warning(finding.message, finding.hint)
    yield from _check_sites()


def _configuration_files() -> list[Path]:
    folders = [*reversed(system_folders(os.environ)), user_folder(os.environ)]
    return [folder / FILE_NAME for folder in folders]


def _check_sites() -> Iterator[Diagnosis]:
    sites = list_sites(())
    broken = [site for site in sites if site.error]
    for site in broken:
        message = f"{site.origin}: the site '{site.name}' cannot be used: {site.error}"
        yield _warning(message, f"To see it: longshore site show {site.name}")
    yield Diagnosis(
        area=_CONFIGURATION,
        state=DiagnosisState.OK,
        message=f"{len(sites) - len(broken)} of {len(sites)} sites can be used",
    )


def _warning(message: str, hint: str) -> Diagnosis:
    return Diagnosis(area=_CONFIGURATION, state=DiagnosisState.WARNING, message=message, hint=hint)


# Checks of workload managers: what each answers that is chosen, or that is there.


_SERVICES: Final = "services"


def service_checks(used: Iterable[str], is_used: Callable[[str], bool]) -> dict[str, Check]:
    """Return a check per service, by name.

    `used` are services that runs may use; `is_used` looks at the runs themselves, when a service cannot be used.
    """
    chosen = {short_name(name) for name in (_configured_service(), environment_service()) if name}
    installed = service_names()
    names = dict.fromkeys([*sorted(chosen | {short_name(name) for name in used}), *installed])
    return {
        f"{_SERVICES}:{name}": partial(
            _check_service, name, is_installed=name in installed, is_used=_always if name in chosen else is_used
        )
        for name in names
    }


def _always(_: str) -> bool:
    return True


def _configured_service() -> str:
    """Return the service of runs that name none; the default where that cannot be read."""
    try:
        return configured_service(os.environ)
    except LongshoreError:
        return default_service()


def _check_service(name: str, *, is_installed: bool, is_used: Callable[[str], bool]) -> Iterator[Diagnosis]:
    try:
        report = ping(name)
    except LongshoreError as error:
        message, hint, is_ok = error.message, error.hint, False
    else:
        message, hint, is_ok = report.message, "", report.ok
    if is_ok:
        yield Diagnosis(area=_SERVICES, state=DiagnosisState.OK, message=f"'{name}': {message}")
    elif is_used(name):
        state = DiagnosisState.ERROR
        hint = hint or (
            f"To see more: longshore ping --wms-service-class {name}, or, in the environment that a site sets: "
            "longshore ping --compute-site SITE"
        )
        if environment_service() == name:
            hint += f". ${SERVICE_VARIABLE} names it."
        yield Diagnosis(area=_SERVICES, state=state, message=f"'{name}' cannot be used: {message}", hint=hint)
    elif is_installed:
        why = message.partition(". ")[0].partition("; ")[0]
        message = f"'{name}' is not available here, and nothing uses it: {why}"
        yield Diagnosis(area=_SERVICES, state=DiagnosisState.NOTE, message=message)


# Checks of this machine: room on disks, clocks, folders that are written, and the umask.


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


# Checks of this user's processes of runs: those whose run is gone, and temporary files that killed ones left.


_PROCESSES: Final = "processes"
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
                area=_PROCESSES,
                state=DiagnosisState.WARNING,
                message=f"process {pid} is the {kind} of a run whose directory '{root}' is gone",
                hint=f"If the run was not moved: kill {pid}",
            )
    message = f"processes of runs on this host: {count}"
    yield Diagnosis(area=_PROCESSES, state=DiagnosisState.OK, message=message)


def check_scratch(folder: Path, *, now: float) -> Iterator[Diagnosis]:
    """Find temporary directories of attempts that no process of this user uses, and in which nothing is new."""
    found = [path for path, changed_at in _temporary_folders(folder) if changed_at < now - _OLD_S]
    used = b"\0".join(_used_paths()) if found else b""
    left = [path for path in found if os.fsencode(path) not in used]
    if left:
        number = count_noun(len(left), "folder")
        yield Diagnosis(
            area=_PROCESSES,
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


# Checks of the registry and of runs: entries without directory, runs without entry, dead engines.


_REGISTRY: Final = "registry"
_RUNS: Final = "runs"
_MOST_NAMES: Final = 8
_MOST_ENTRIES: Final = 20_000
"""Names of files that a search for unregistered runs reads at most."""
_LOOK_S: Final = 4.0
"""Seconds for a look at all unfinished runs, within those of `doctor`."""
_LOOKS_AT_ONCE: Final = 8
_MOST_RUNS: Final = 500
"""Unfinished runs whose engines are looked for at most, the newest."""


def check_registry(known: RegistryContent) -> Iterator[Diagnosis]:
    """Check that the entries of the registry and the run directories fit each other."""
    if known.problem:
        hint = closed_hint(registry_folder()) or "Let XDG_STATE_HOME name a folder that you may read and write."
        yield _diagnosis(_REGISTRY, DiagnosisState.ERROR, known.problem, hint)
        return
    if known.unreadable:
        message = f"files of the registry that cannot be read: {_names(known.unreadable)}"
        yield _diagnosis(_REGISTRY, DiagnosisState.WARNING, message, "longshore adopt DIRECTORY_OF_THE_RUN")
    gone = [entry.id for entry in known.entries if is_missing(entry.path)]
    if gone:
        message = f"{count_noun(len(gone), 'registered run')} without directory: {_names(gone)}"
        yield _diagnosis(_REGISTRY, DiagnosisState.NOTE, message, "longshore forget --missing")
    closed = [entry for entry in known.entries if _is_closed(entry)]
    if closed:
        message = f"{count_noun(len(closed), 'registered run')} that cannot be read: {_names([e.id for e in closed])}"
        hint = closed_hint(Path(closed[-1].path))
        yield _diagnosis(_REGISTRY, DiagnosisState.WARNING, message, hint)
    unregistered = find_unregistered_runs(known.entries)
    for path in unregistered[:_MOST_NAMES]:
        message = f"the run '{path}' is not in the registry"
        yield _diagnosis(_REGISTRY, DiagnosisState.NOTE, message, f"longshore adopt {quote(str(path))}")
    if more := unregistered[_MOST_NAMES:]:
        message = f"{count_noun(len(more), 'more run')}: not in the registry either"
        yield _diagnosis(
            _REGISTRY, DiagnosisState.NOTE, message, f"longshore adopt {quote(str(unregistered[0].parent))}"
        )
    message = f"{count_noun(len(known.entries) - len(gone), 'registered run')} with directory"
    yield _diagnosis(_REGISTRY, DiagnosisState.OK, message)


def _is_closed(entry: RegistryEntry) -> bool:
    """Whether the directory or archive of a registered run is there, and closed to this user."""
    if is_missing(entry.path):
        return False
    needed = os.R_OK if archive_suffix(entry.path) else os.R_OK | os.X_OK
    return not os.access(entry.path, needed, effective_ids=True)


def find_unregistered_runs(entries: Sequence[RegistryEntry]) -> list[Path]:
    """Find submitted runs of this user beside registered ones, and beside their folders, that are not registered."""
    paths, ids = {entry.path for entry in entries}, {entry.id for entry in entries}
    places = dict.fromkeys(
        folder for entry in reversed(entries) for folder in (Path(entry.path).parent, Path(entry.path).parent.parent)
    )
    budget = iter(range(_MOST_ENTRIES))
    found = {}
    for folder in places:
        for path in _folders_in(folder, budget):
            if path in paths or path in found or not os.path.lexists(f"{path}/run.json"):
                continue
            run = RunPaths(Path(path))
            try:
                card = read_card(run)
            except (LongshoreError, OSError):
                continue
            if card.submissions and card.id not in ids and is_own_run(run.root):
                found[path] = run.root
    return sorted(found.values())


def _folders_in(folder: Path, budget: Iterator[int]) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, budget, strict=False):
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield entry.path
    except OSError:
        return


def unfinished_services(entries: Sequence[RegistryEntry]) -> set[str]:
    """Return the services of runs that may be unfinished; only entries are looked at, so that no file server hangs."""
    return {entry.service for entry in entries if entry.report is None}


def uses_service(entries: Sequence[RegistryEntry], service: str) -> bool:
    """Whether an unfinished run uses a service, by its short name."""
    return any(map(_may_go_on, _unfinished([entry for entry in entries if short_name(entry.service) == service])))


def _may_go_on(opened: OpenRun) -> bool:
    """Tell whether a run is not over, or cannot be read; the registry learns of an end only from some commands."""
    try:
        return status_run(opened).state not in END_STATES
    except READ_ERRORS:
        return True


def _unfinished(entries: Sequence[RegistryEntry]) -> Iterator[OpenRun]:
    """Yield own runs that have no final state in the registry, newest first; unreadable ones are left out."""
    for entry in reversed(entries):
        root = Path(entry.path)
        try:
            if entry.report is not None and journal_stamp(entry.path) == entry.stamp:
                continue
            run = RunPaths(root)
            card = read_card(run)
        except (LongshoreError, OSError):
            continue
        if card.id == entry.id and is_own_run(root):
            yield OpenRun(run=run, card=with_newest_counts(run, card))


def check_engines(entries: Sequence[RegistryEntry], *, limit_s: float = _LOOK_S) -> Iterator[Diagnosis]:
    """Find runs that nothing drives any more, and submissions that were killed; many are looked at side by side."""
    unfinished = _unfinished(entries)
    looks, is_whole = call_in_parallel(
        _look_at_run, islice(unfinished, _MOST_RUNS), threads=_LOOKS_AT_ONCE, limit_s=limit_s
    )
    yield from (look.diagnosis for look in looks if look.diagnosis is not None)
    if not is_whole:
        message = f"only {count_noun(len(looks), 'unfinished run')} of yours could be looked at within {limit_s:g} s"
        hint = "A file server or a workload manager may hang. The list of runs: longshore report"
        yield _diagnosis(_RUNS, DiagnosisState.WARNING, message, hint)
    elif len(looks) == _MOST_RUNS and next(unfinished, None):
        message = f"only the newest {_MOST_RUNS} unfinished runs were looked at"
        yield _diagnosis(_RUNS, DiagnosisState.NOTE, message, "The list of runs: longshore report")
    live = sum(look.is_live for look in looks)
    yield _diagnosis(_RUNS, DiagnosisState.OK, f"{count_noun(live, 'run')} in progress")


class _Look(NamedTuple):
    """What one look at an unfinished run found."""

    diagnosis: Diagnosis | None = None
    is_live: bool = False


def _look_at_run(opened: OpenRun) -> _Look:
    name = f"run '{opened.card.id}' in '{opened.run.root}'"
    if opened.run.submitting.exists():
        hint = f"longshore submit {quote(str(opened.run.root))}"
        return _Look(_diagnosis(_RUNS, DiagnosisState.WARNING, f"the submission of {name} did not end", hint))
    try:
        # In this order: a run that ends in between is over, and not one whose engine died.
        alive = opened.is_alive()
        state = status_run(opened).state
    except READ_ERRORS as error:
        message = f"{name} cannot be read: {describe_read_error(error)}"
        hint = f"longshore verify {opened.reference}"
        return _Look(_diagnosis(_RUNS, DiagnosisState.WARNING, message, hint))
    if state in END_STATES or not opened.card.submissions:
        return _Look()
    if alive is False:
        message = f"nothing drives {name} any more: its engine died"
        return _Look(_diagnosis(_RUNS, DiagnosisState.WARNING, message, f"longshore resume {opened.reference}"))
    return _Look(is_live=True)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else ""
    return f"{', '.join(names[-_MOST_NAMES:])}{more}"


# All checks, in the order of their areas.


LIMIT_S: Final = 5.0
"""Seconds after which a check that has not ended is reported as such."""
_MOST_FOLDERS: Final = 100
"""Folders of runs whose file systems are looked at, those of the newest runs."""


def diagnose(*, limit_s: float = LIMIT_S) -> Iterator[Diagnosis]:
    """Look at everything that runs of this user need; yields results in the order of areas."""
    known = read_registry()
    folders = _folders(known)
    return run_checks(
        {
            "installation": check_installation,
            "installation:entry points": check_plugins,
            "configuration": check_layers,
            **_service_checks(known),
            "registry": partial(check_registry, known),
            "runs": partial(check_engines, known.entries),
            "processes": check_processes,
            "processes:temporary files": lambda: check_scratch(Path(gettempdir()), now=time.time()),
            "folders": partial(check_folders, os.environ),
            "disk": partial(check_disks, folders),
            "clock": partial(check_clocks, folders),
            "umask": check_umask,
        },
        limit_s=limit_s,
    )


def _service_checks(known: RegistryContent) -> dict[str, Check]:
    """Return a check per service; none if the current directory was removed, which another check tells."""
    if not working_directory():
        return {}
    return service_checks(unfinished_services(known.entries), partial(uses_service, known.entries))


def _folders(known: RegistryContent) -> list[Path]:
    newest = islice(reversed(known.entries), _MOST_FOLDERS)
    here = working_directory()
    # Another check tells of a current directory that was removed.
    places = [state_folder(), *([Path(here)] if here else ()), *(Path(entry.path).parent for entry in newest)]
    return list(dict.fromkeys(places))
