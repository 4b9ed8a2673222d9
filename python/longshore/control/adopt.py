"""How a run directory gets into the registry and out of it, and whose runs a user trusts: adopt and forget.

The runs themselves are not changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs
from msgspec.structs import replace

from longshore.config.service_lookup import find_service_plugin
from longshore.contract.service import RunPaths
from longshore.errors import FilesError, LongshoreError, RunNotFoundError, RunUnreadableError, SubmissionRefusedError
from longshore.jobs.commands import full_command, shell_line
from longshore.model.submission import RunIdentity
from longshore.reports.status import status_run
from longshore.rundir.archive_names import is_archive
from longshore.rundir.find_run import LAST_RUN, find_run
from longshore.rundir.job_table import JobTable
from longshore.rundir.registry import (
    RegistryEntry,
    TrustRecord,
    file_stamp,
    has_entry,
    manifest_digests,
    read_entries,
    read_entry,
    record_trust,
    registered_path,
    remove_entry,
    workflow_digest,
    write_entry,
)
from longshore.rundir.run_directory import Access, read_card, read_made_from, read_owner, require_access, user_name_of
from longshore.runstate.open_run import is_missing, is_same_run, mirror_directory, open_run

# Trust in runs of other users: what such a run would start, and the record of the user's consent.


_MAX_COMMANDS: Final = 10
_MAX_PROGRAMS: Final = 20


class RunContents(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of another user would start as this user.

    `plug_in` is the class of its service, empty for a service of Longshore. `commands` has the first job of each label,
    with its command, and `workflow` is the file with all jobs. `programs` are those that the run was prepared with.
    """

    card: RunIdentity
    record: TrustRecord
    plug_in: str
    jobs: int
    commands: tuple[tuple[str, str], ...]
    workflow: Path
    programs: tuple[str, ...]

    @property
    def owner(self) -> str:
        """Name of the owner."""
        return user_name_of(self.record.uid)


def read_contents(path: Path) -> RunContents | None:
    """Read what a run would start; ``None`` for a run of this user, which needs no trust.

    Raises `LongshoreError` if it cannot be read.
    """
    run = RunPaths(Path(os.path.realpath(path)))
    if not run.card.exists() and (mirror := mirror_directory(run.root)) is not None:
        # No manifest has digests of its files, so nothing could be trusted.
        require_access(mirror, Access.ACT)
        return None
    card = read_card(run)
    try:
        owner = read_owner(run.root)
    except OSError as error:
        raise RunUnreadableError(f"'{run.root}' cannot be read: {error.strerror}") from error
    if owner.uid == os.geteuid():
        return None
    # The digests come first: a workflow that changes while it is read is not the trusted one.
    digests = workflow_digest(run), tuple(sorted(manifest_digests(run)))
    jobs = JobTable(run)
    plug_in = find_service_plugin(card.service)
    return RunContents(
        card=card,
        record=TrustRecord(
            path=str(run.root),
            uid=owner.uid,
            device=owner.device,
            inode=owner.inode,
            workflow=digests[0],
            manifests=digests[1],
            at=time.time(),
        ),
        plug_in=plug_in.import_path if plug_in and not plug_in.is_built_in else "",
        jobs=len(jobs),
        commands=tuple(_commands(jobs)),
        workflow=jobs.path,
        programs=_programs(run),
    )


def trust_run(contents: RunContents) -> None:
    """Record that this user trusts a run; raises `FilesError` if the record cannot be written."""
    record_trust(RunPaths(Path(contents.record.path)), contents.record)


def _commands(jobs: JobTable) -> Iterator[tuple[str, str]]:
    first = {label: job for job, label in reversed(list(enumerate(jobs.label_of)))}
    for job in sorted(first.values())[:_MAX_COMMANDS]:
        stored = jobs[job]
        yield stored.name, shell_line(full_command(stored.c, jobs.settings(job)))


def _programs(run: RunPaths) -> tuple[str, ...]:
    try:
        made_from = read_made_from(run)
    except LongshoreError:
        return ()
    return tuple(islice((file.path for file in made_from.programs), _MAX_PROGRAMS)) if made_from else ()


class AdoptResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of adopting a directory.

    `card` is the run if it is registered now, `former_path` the id's other directory before, `error` why it is not
    registered. `owner` is the run's owner, `trusted` what the run would start if this user trusts it from now on.
    """

    path: Path
    card: RunIdentity | None = None
    former_path: str | None = None
    owner: str = ""
    trusted: RunContents | None = None
    error: LongshoreError | None = None


class ForgottenRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run removed from the registry, and its directory; an empty path is unknown."""

    id: str
    path: str


def adopt(paths: Iterable[Path]) -> list[AdoptResult]:
    """Register runs from run directories or archives, or from all run directories below the given folders."""
    return [outcome for path in paths for outcome in _adopt_below(_path_to_adopt(path))]


def _path_to_adopt(path: Path) -> Path:
    if str(path) == LAST_RUN and not os.path.lexists(path):
        return find_run(LAST_RUN, acts=True).root
    return Path(os.path.realpath(path))


def forget_run(reference: str, *, force: bool) -> ForgottenRun:
    """Remove a run from the registry, by a reference of `open_run` or the id of an unreadable run.

    `force` also removes a live run. Raises `RunNotFoundError` if the run is unknown, `SubmissionRefusedError` if it
    is live.
    """
    name, root = _registered_run(reference)
    if root and not force and _is_live(root, name):
        raise SubmissionRefusedError(
            f"run '{name}' is still running in '{root}'",
            hint=f"Cancel it first: longshore cancel {name}. Or forget it with --force; it goes on.",
        )
    remove_entry(name)
    if has_entry(name):
        raise FilesError(f"the entry of run '{name}' cannot be removed")
    return ForgottenRun(id=name, path=root)


def forget_missing_runs() -> list[ForgottenRun]:
    """Remove the runs whose directories are gone from the registry, oldest first."""
    forgotten = []
    for entry in list(read_entries()):
        if is_missing(entry.path):
            remove_entry(entry.id)
            forgotten.append(ForgottenRun(id=entry.id, path=entry.path))
    return forgotten


def _adopt_below(path: Path) -> Iterator[AdoptResult]:
    if is_archive(path):
        yield _adopt_archive(path)
        return
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        yield AdoptResult(
            path=path, error=RunNotFoundError(f"'{path}' {what}", hint="Give the directory or the archive of a run.")
        )
        return
    has_run = False
    for folder, below, files in os.walk(path):
        is_run = "run.json" in files
        outcome = _adopt_run(Path(folder)) if is_run else _adopt_mirrored(Path(folder), files)
        if outcome is not None:
            has_run = True
            yield outcome
            # Runs do not nest, and a run may have hundreds of thousands of logs.
            below.clear()
        # A draft is no run yet.
        below[:] = sorted(name for name in below if not name.startswith("."))
    if not has_run:
        error = RunNotFoundError(
            f"there is no run in '{path}'",
            hint="A run directory has a file 'run.json' in it; give one, a submit directory of BPS, or one above them.",
        )
        yield AdoptResult(path=path, error=error)


def _adopt_mirrored(folder: Path, files: Iterable[str]) -> AdoptResult | None:
    """Register a directory that another tool made; ``None`` if no tool that is known made it."""
    # Where there is no graph of jobs, no service need be asked.
    if not any(name.endswith(".dag") for name in files):
        return None
    try:
        run = mirror_directory(folder)
    except LongshoreError as error:
        return AdoptResult(path=folder, error=error)
    if run is None:
        return None
    owner = user_name_of(folder.stat().st_uid)
    return replace(_adopt_run(run.root), path=folder, owner=owner)


def _adopt_run(path: Path) -> AdoptResult:
    run = RunPaths(path)
    try:
        card = read_card(run)
        former = _former_path(card, path)
        _register(RegistryEntry.of(card, str(path)))
    except LongshoreError as error:
        return AdoptResult(path=path, error=error)
    return AdoptResult(path=path, card=card, former_path=former, owner=user_name_of(path.stat().st_uid))


def _adopt_archive(path: Path) -> AdoptResult:
    """Register the run of an archive, so that its id leads there, as after ``archive --remove``."""
    try:
        opened = open_run(str(path))
        if str(path) != os.fsencode(path).decode(errors="replace"):
            raise FilesError(f"'{path}' is not UTF-8 text, so no id can lead to it", hint="Rename it.")
        former = _former_path(opened.card, path)
        if former is not None and Path(former).is_dir():
            raise SubmissionRefusedError(
                f"run '{opened.card.id}' is in '{former}' as well, and its id leads there",
                hint=f"The archive is named by its path. To let the id lead to it: longshore forget {opened.card.id}",
            )
        report = structs.replace(status_run(opened), specifics=(), summary=None)
        entry = structs.replace(RegistryEntry.of(opened.card, str(path)), report=report, stamp=file_stamp(str(path)))
        _register(entry)
    except LongshoreError as error:
        return AdoptResult(path=path, error=error)
    return AdoptResult(path=path, card=opened.card, former_path=former, owner=user_name_of(path.stat().st_uid))


def _former_path(card: RunIdentity, path: Path) -> str | None:
    """Return the other path that an id leads to; raises `SubmissionRefusedError` if another run is there."""
    was = registered_path(card.id)
    if was is not None and was != str(path) and is_same_run(was, card) is False:
        raise SubmissionRefusedError(
            f"run '{card.id}' in '{path}' is not the '{card.id}' in '{was}'",
            hint=f"Name it by its path, or forget the other one first: longshore forget {card.id}",
        )
    return was if was != str(path) else None


def _register(entry: RegistryEntry) -> None:
    if not write_entry(entry):
        raise FilesError(f"the entry of run '{entry.id}' cannot be written", hint="It can be named by its path.")


def _registered_run(reference: str) -> tuple[str, str]:
    """Return id and path of a registered run, even if it cannot be read."""
    if has_entry(reference):
        entry = read_entry(reference)
        return reference, entry.path if entry else ""
    root = find_run(reference, acts=True).root
    try:
        name = read_card(RunPaths(root)).id
    except LongshoreError:
        # An unreadable run may still be found by its id in the registry.
        name = next((entry.id for entry in read_entries() if entry.path == str(root)), "")
    if not has_entry(name):
        raise RunNotFoundError(f"no run '{reference}' is known", hint="There is nothing to forget.")
    return name, str(root)


def _is_live(root: str, name: str) -> bool:
    try:
        opened = open_run(root)
        return opened.card.id == name and opened.is_alive() is True
    except LongshoreError:
        return False
