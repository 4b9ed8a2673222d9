"""Submissions of a run on disk: their manifests, input files, and how their job numbers relate."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunNotFoundError, RunUnreadableError, SubmissionRefusedError
from longshore.model.event import JobMap
from longshore.model.json_lines import encode_document, is_intact
from longshore.model.submission import (
    INPUT_FILES_FORMAT,
    PLAIN_MANIFEST_FORMAT,
    FileChange,
    FileDigest,
    InputFile,
    InputFiles,
    Manifest,
    RunIdentity,
    decode_manifest,
    describe_difference,
    hash_identity,
    is_source,
)
from longshore.rundir.run_directory import MANIFESTS_SINCE, read_card, write_card
from longshore.system.atomic import create_atomically, create_file, write_atomically
from longshore.system.folder import make_folders, remove_file, remove_tree
from longshore.system.reading import open_stream, read_file

# Manifests in a run directory: writes one per submission, reads the newest, and finds files that changed since. The
# reason is in decision 0062.


_SUFFIX: Final = ".json"
_DAMAGED_HINT: Final = (
    "Bring the file back from a copy of the run; 'longshore verify {run}' shows all that is damaged. Without a copy, "
    "submit the configuration as a new run with another 'submitPath': it is '{run}/*_config.yaml', and what was "
    "submitted is in '{run}/inputs'."
)
_CARD_HINT: Final = (
    "Bring the file back from a copy. Its manifest confirms all but the list of submissions; to keep that list as it "
    "is: longshore resume {run} --accept-loss"
)


def take_manifest(
    run: RunPaths,
    card: RunIdentity,
    *,
    moved: Iterable[Path] = (),
    left_out: Collection[str] = (),
    inputs: Collection[str] = (),
) -> Manifest:
    """Return the manifest of the first submission: all files below the directory of a run.

    `moved` are files elsewhere that will be moved into it. `left_out` names files that may change, or that nothing
    relies on. `inputs` names files that jobs may change.
    """
    digests = {name: hash_file(run.root / name) for name in _file_names(run) if name not in left_out}
    digests |= {path.name: hash_file(path) for path in moved}
    return Manifest(
        v=PLAIN_MANIFEST_FORMAT,
        number=1,
        run=card.run_token,
        card=hash_identity(card),
        workflow=run.workflow.name,
        files={name: digest for name, digest in digests.items() if name not in inputs},
        inputs={name: digest for name, digest in digests.items() if name in inputs},
    )


def create_manifest(run: RunPaths, manifest: Manifest) -> None:
    """Write the manifest of a new submission, durably; raises `FileExistsError` if that submission has one."""
    make_folders(run.submissions, below=run.root, durable=True)
    create_atomically(manifest_path(run, manifest.number), encode_document(manifest), below=run.root)


def accept_changes(run: RunPaths, manifest: Manifest) -> Manifest:
    """Write and return a manifest with the files as they are now, without a new submission."""
    manifest = with_present_digests(run, manifest)
    path = manifest_path(run, manifest.number)
    write_atomically(path, encode_document(manifest), below=run.root, durable=True)
    return manifest


def with_present_digests(run: RunPaths, manifest: Manifest) -> Manifest:
    """Return a manifest of the same files as they are now, without those that are gone."""
    return msgspec.structs.replace(
        manifest,
        card=hash_identity(read_card(run)),
        files=_present_digests(run, manifest.files),
        inputs=_present_digests(run, manifest.inputs),
    )


def begin_submission(run: RunPaths) -> Manifest | None:
    """Write the manifest of another submission with the workflow and files of the last; return it.

    Raises `SubmissionRefusedError` if a file changed. A run of an older format has no manifests; ``None`` then.
    """
    last = refuse_changed_files(run)
    if last is None:
        return None
    inputs = _present_digests(run, last.inputs)
    manifest = msgspec.structs.replace(last, number=last.number + 1, job_map=None, inputs=inputs)
    create_manifest(run, manifest)
    return manifest


def withdraw_submission(run: RunPaths, manifest: Manifest) -> None:
    """Remove the manifest of a submission that was refused, so that nothing relies on it, and its own files."""
    with suppress(OSError):
        remove_file(manifest_path(run, manifest.number), below=run.root, durable=True)
        remove_tree(run.submissions / f"{manifest.number:04}", below=run.root)


def newest_submission(run: RunPaths) -> tuple[int, str]:
    """Return the number of the newest submission, and the SHA-256 of its manifest; 0 and empty without a manifest."""
    numbers = manifest_numbers(run)
    if not numbers:
        return 0, ""
    return numbers[-1], hash_file(manifest_path(run, numbers[-1])).sha256


def workflow_path(run: RunPaths) -> Path:
    """Return the workflow of the newest submission; the first one has the file of every run."""
    manifest = _later_manifest(run)
    return run.root / manifest.workflow if manifest else run.workflow


def recorded_workflow(run: RunPaths, path: Path | None = None) -> tuple[Path, FileDigest | None]:
    """Return a workflow and its digest, which the manifest of its submission has; by default the newest.

    There is no digest for a run of an older format, for a workflow that is not in a run yet, and for a file that no
    submission lists.

    Raises
    ------
    RunUnreadableError
        The manifest cannot be read, or it or ``run.json`` is of another run.
    """
    try:
        manifest = read_manifest(run)
    except RunNotFoundError:
        manifest = None
    if manifest is None:
        return path or run.workflow, None
    if manifest.card and not is_identity_intact(run, manifest):
        what = "it is not as it was written"
        if manifest.run != read_card(run).run_token:
            what = f"it is of another run than '{manifest_path(run, manifest.number)}'"
        raise RunUnreadableError(f"'{run.card}': {what}", hint=_DAMAGED_HINT.format(run=shlex.quote(str(run.root))))
    while path not in {None, run.root / manifest.workflow} and manifest.number > 1:
        earlier = read_manifest(run, manifest.number - 1)
        assert earlier is not None  # `None` is only for runs without any
        manifest = earlier
    path = path or run.root / manifest.workflow
    return path, manifest.files.get(path.relative_to(run.root).as_posix())


def refuse_other_workflow(path: Path, found: FileDigest, expected: FileDigest, run: str) -> None:
    """Refuse a workflow with another digest than its manifest has; `run` is how a command names the run.

    Raises
    ------
    RunUnreadableError
        The digests differ.
    """
    if found != expected:
        raise RunUnreadableError(
            f"'{path}' {describe_difference(found.size, expected)}: it is not as it was written",
            hint=f"Nothing is told or started from it. 'longshore verify {run}' shows all that is damaged; restore it "
            "from a copy.",
        )


def earlier_workflows(run: RunPaths) -> list[Path]:
    """Return the workflows of earlier submissions that the newest replaced, newest first."""
    if _later_manifest(run) is None:
        return []
    manifests = (read_manifest(run, number) for number in reversed(manifest_numbers(run)))
    return list(dict.fromkeys(run.root / manifest.workflow for manifest in manifests if manifest))[1:]


def submission_paths(run: RunPaths) -> RunPaths:
    """Return the paths of the files that the newest submission was prepared with: its folder, or the run directory."""
    manifest = _later_manifest(run)
    return RunPaths(run.root / manifest.folder) if manifest else run


def with_newest_counts(run: RunPaths, card: RunIdentity) -> RunIdentity:
    """Return the identity of a run with the numbers of jobs of its newest submission."""
    try:
        manifest = _later_manifest(run)
    except RunUnreadableError:
        # Whoever relies on the manifest reports the error.
        return card
    if manifest is None or manifest.expected is None:
        return card
    return msgspec.structs.replace(card, expected=manifest.expected, labels=manifest.labels)


def _later_manifest(run: RunPaths) -> Manifest | None:
    """Read the manifest of the newest submission if that is not the first."""
    numbers = manifest_numbers(run)
    return read_manifest(run, numbers[-1]) if numbers and numbers[-1] > 1 else None


def manifest_path(run: RunPaths, number: int) -> Path:
    """Return the path of a submission's manifest."""
    return run.submissions / f"{number:04}{_SUFFIX}"


def manifest_numbers(run: RunPaths) -> list[int]:
    """Return the numbers of the submissions that have a manifest, oldest first."""
    try:
        names = os.listdir(run.submissions)
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdecimal() and stem.isascii())


def read_manifest(run: RunPaths, number: int | None = None) -> Manifest | None:
    """Read the manifest of a submission, by default the newest; ``None`` for a run of an older format.

    Raises `RunUnreadableError` if it is damaged, missing or of a newer format.
    """
    numbers = manifest_numbers(run)
    if number is None and not numbers:
        if read_card(run).format < MANIFESTS_SINCE:
            return None
        number = 1
    path = manifest_path(run, numbers[-1] if number is None else number)
    try:
        text = read_file(path)
    except OSError as error:
        raise RunUnreadableError(
            f"'{path}' cannot be read: {error.strerror}", hint=_DAMAGED_HINT.format(run=shlex.quote(str(run.root)))
        ) from error
    return decode_manifest(text, path=str(path), run=shlex.quote(str(run.root)))


def find_changed_files(
    run: RunPaths, manifest: Manifest, *, with_inputs: bool = False, with_workflow: bool = True
) -> Iterator[FileChange]:
    """Yield the files of a run that differ from its manifest.

    `with_inputs` also compares inputs of jobs. Without `with_workflow`, the workflow is left out.
    """
    if is_card_damaged(run) or not is_identity_intact(run, manifest):
        yield FileChange(run.card.name, "has another content now")
    listed = {**manifest.files, **manifest.inputs} if with_inputs else manifest.files
    for name, before in listed.items():
        is_compared = with_workflow or name != manifest.workflow
        if is_compared and (what := _describe_change(run.root, name, before)):
            yield FileChange(name, what)


def refuse_changed_files(run: RunPaths, *, with_inputs: bool = False, with_workflow: bool = True) -> Manifest | None:
    """Check the files of a run against its newest manifest and return it; ``None`` for a run of an older format.

    Parameters are those of `find_changed_files`. Files that only tell what the run was made from are compared
    `with_inputs`, at the hand-over. Raises `SubmissionRefusedError` if a file changed, `RunUnreadableError` if the
    manifest is damaged.
    """
    manifest = read_manifest(run)
    if manifest is None:
        return None
    changes = [
        change
        for change in find_changed_files(run, manifest, with_inputs=with_inputs, with_workflow=with_workflow)
        if with_inputs or not is_source(change.path) or _is_named_by_jobs(run, manifest, change.path)
    ]
    if changes:
        others = f" (and {len(changes) - 1} more)" if changes[1:] else ""
        only_card = [change.path for change in changes] == [run.card.name] and is_identity_intact(run, manifest)
        raise SubmissionRefusedError(
            f"'{run.root / changes[0].path}' {changes[0].what}{others}: nothing was started from it",
            hint=(_CARD_HINT if only_card else _DAMAGED_HINT).format(run=shlex.quote(str(run.root))),
        )
    return manifest


def find_changed_sources(run: RunPaths) -> list[FileChange]:
    """Return the changed files that only tell what a run was made from; it continues all the same."""
    manifest = read_manifest(run)
    if manifest is None:
        return []
    sources = {name: digest for name, digest in manifest.files.items() if is_source(name)}
    changes = find_changed_files(run, msgspec.structs.replace(manifest, files=sources))
    return [change for change in changes if change.path != run.card.name]


def is_identity_intact(run: RunPaths, manifest: Manifest) -> bool:
    """Return whether all of ``run.json`` but its submissions is as the manifest says."""
    return hash_identity(read_card(run)) == manifest.card


def restate_card(run: RunPaths) -> bool:
    """Write a damaged ``run.json`` again if its manifest confirms its identity; return whether it did.

    The list of submissions, which no manifest has, stays as it reads.
    """
    manifest = read_manifest(run)
    if manifest is None or not is_card_damaged(run) or not is_identity_intact(run, manifest):
        return False
    write_card(run, read_card(run))
    return True


def is_card_damaged(run: RunPaths) -> bool:
    """Return whether ``run.json`` does not fit its checksum; a card of an older format has none."""
    return read_card(run).format >= MANIFESTS_SINCE and not is_intact(read_file(run.card))


def hash_file(path: Path) -> FileDigest:
    """Return size and hash of a file; raises `OSError` if it cannot be read or is no regular file."""
    # Commands that look hash nothing.
    from hashlib import file_digest

    with open_stream(path) as file:
        digest = file_digest(file, "sha256").hexdigest()
        return FileDigest(os.fstat(file.fileno()).st_size, digest)


def _is_named_by_jobs(run: RunPaths, manifest: Manifest, name: str) -> bool:
    """Return whether the workflow names a file, so that a job may use it."""
    try:
        return name.encode() in read_file(run.root / manifest.workflow)
    except OSError:
        return True


def _describe_change(root: Path, name: str, before: FileDigest) -> str:
    """Describe how a file differs from its digest; empty if it does not."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return "is not in the run directory"
    try:
        now = hash_file(root / path)
    except (FileNotFoundError, NotADirectoryError):
        return "is not there any more"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if now == before else describe_difference(now.size, before)


def _present_digests(run: RunPaths, names: Iterable[str]) -> dict[str, FileDigest]:
    return {name: hash_file(run.root / name) for name in names if (run.root / name).is_file()}


def _file_names(run: RunPaths) -> Iterator[str]:
    """Yield the names of all files below a run directory, relative to it, except its card."""
    for folder, _, names in os.walk(run.root):
        for name in names:
            path = Path(folder, name)
            if path != run.card:
                yield path.relative_to(run.root).as_posix()


# Records the state of input files in a run directory, and reads it.


INPUT_FILES: Final = "input-files.json"


def look_at_inputs(paths: Iterable[str], *, with_content: bool = False) -> dict[str, InputFile]:
    """Return the state of each file that is there; `with_content` reads it whole for its hash."""
    found: dict[str, InputFile] = {}
    for path in paths:
        try:
            status = Path(path).stat()
            digest = ""
            if with_content:
                from hashlib import file_digest

                with open_stream(path) as file:
                    digest = file_digest(file, "sha256").hexdigest()
        except OSError:
            continue
        found[path] = InputFile(status.st_size, status.st_mtime_ns, digest)
    return found


def write_input_files(draft: RunPaths, found: dict[str, InputFile]) -> None:
    """Write the record into the folder of a submission."""
    text = msgspec.json.encode(InputFiles(files=found)) + b"\n"
    create_file(draft.root / INPUT_FILES, [text], below=draft.root)


def read_input_files(submission: RunPaths) -> InputFiles:
    """Read the record of a submission; empty where an older Longshore wrote none, or it cannot be read."""
    try:
        record = msgspec.json.decode(read_file(submission.root / INPUT_FILES), type=InputFiles)
    except (OSError, *DECODE_ERRORS):
        return InputFiles()
    return record if record.v <= INPUT_FILES_FORMAT else InputFiles()


# Job maps in a run directory: how the job numbers of each submission relate to those of the newest.


class _StoredMap(msgspec.Struct, frozen=True, kw_only=True):
    """``jobs.json`` in the folder of a submission."""

    jobs: tuple[tuple[int, int], ...]
    """Pairs of job numbers, in the submission before and in this one."""
    changed: tuple[int, ...]
    """Jobs of this submission whose earlier results are void."""


def read_job_maps(run: RunPaths) -> dict[int, JobMap]:
    """Return the map from each earlier submission to the newest, without those whose job numbers are the same.

    Raises `RunUnreadableError` if a file is missing or damaged.
    """
    numbers = manifest_numbers(run)
    if len(numbers) < 2:
        return {}
    maps: dict[int, JobMap] = {}
    newer: JobMap | None = None
    later = _read(run, numbers[-1])
    for number in reversed(numbers[:-1]):
        earlier = _read(run, number)
        if later.job_map is not None:
            step = JobMap(dict(_read_map(run, later.job_map).jobs), _label_map(run, earlier, later))
            newer = step if newer is None else step.then(newer)
        if newer is not None:
            maps[number] = newer
        later = earlier
    return maps


def write_job_map(run: RunPaths, number: int, jobs: Mapping[int, int], changed: Sequence[int] = ()) -> str:
    """Write the map from the submission before to the given one; return its name for the manifest.

    `changed` has the numbers, in the given submission, of jobs whose earlier results are void.
    """
    folder = run.submissions / f"{number:04}"
    make_folders(folder, below=run.root)
    path = folder / "jobs.json"
    stored = _StoredMap(jobs=tuple(sorted(jobs.items())), changed=tuple(changed))
    create_atomically(path, msgspec.json.encode(stored) + b"\n", below=run.root)
    return path.relative_to(run.root).as_posix()


def read_changed_jobs(run: RunPaths, *, after: int = 1) -> dict[str, list[int]]:
    """Return the jobs whose earlier results a submission voids, with the job numbers of the newest submission.

    Only submissions after the one with the number `after` count.

    The keys are names of orders: an event `Restarted` with that order says that these jobs were told to run again.
    """
    found: dict[str, list[int]] = {}
    numbers = manifest_numbers(run)
    # Only submissions after the first may have a map.
    later = [number for number in numbers if number > max(1, after)]
    maps = read_job_maps(run) if later else {}
    for number in later:
        if name := _read(run, number).job_map:
            changed: Iterable[int] = _read_map(run, name).changed
            if number in maps:
                known = maps[number].jobs
                changed = [known[job] for job in changed if job in known]
            if changed := sorted(changed):
                found[f"submission-{number:04}"] = changed
    return found


def newest_changed_submission(run: RunPaths) -> int:
    """Return the number of the newest submission with job numbers of its own; 0 if all have the same."""
    later = (number for number in reversed(manifest_numbers(run)) if number > 1)
    return next((number for number in later if _read(run, number).job_map), 0)


def _read(run: RunPaths, number: int) -> Manifest:
    manifest = read_manifest(run, number)
    assert manifest is not None  # `None` is only for runs without any
    return manifest


def _read_map(run: RunPaths, name: str) -> _StoredMap:
    path = run.root / name
    try:
        return msgspec.json.decode(read_file(path), type=_StoredMap)
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error


def _label_map(run: RunPaths, earlier: Manifest, later: Manifest) -> dict[int, int]:
    known = {label: number for number, label in enumerate(_labels(run.root / later.workflow))}
    return {number: known[label] for number, label in enumerate(_labels(run.root / earlier.workflow)) if label in known}


def _labels(workflow: Path) -> list[str]:
    """Return the labels of a workflow, in the order of their first profiles."""
    # Imported late: few runs have maps, and all commands ask whether theirs has.
    from longshore.model.workflow_lines import decode_header

    try:
        with open_stream(workflow) as file:
            header = decode_header(file.readline(), path=str(workflow))
    except OSError as error:
        raise RunUnreadableError(f"'{workflow}' cannot be read: {error.strerror}") from error
    return list(dict.fromkeys(settings.label for settings in header.settings))
