"""Job maps in a run directory: how the job numbers of each submission relate to those of the newest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.run.job_map import JobMap
from longshore.model.run.manifest import Manifest
from longshore.world.files.atomic import create_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.read_file import open_stream, read_file
from longshore.world.runs.manifests import manifest_numbers, read_manifest


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
    from longshore.model.lines.workflow_codec import decode_header

    try:
        with open_stream(workflow) as file:
            header = decode_header(file.readline(), path=str(workflow))
    except OSError as error:
        raise RunUnreadableError(f"'{workflow}' cannot be read: {error.strerror}") from error
    return list(dict.fromkeys(settings.label for settings in header.settings))
