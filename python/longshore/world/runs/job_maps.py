"""Job maps in a run directory: how the job numbers of each submission relate to those of the newest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.codec import decode_header
from longshore.model.run.job_map import JobMap
from longshore.model.run.manifest import Manifest
from longshore.world.files.atomic import create_atomically
from longshore.world.files.read_file import open_stream, read_file
from longshore.world.runs.manifests import manifest_numbers, read_manifest


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
            step = JobMap(_read_pairs(run, later.job_map), _label_map(run, earlier, later))
            newer = step if newer is None else step.then(newer)
        if newer is not None:
            maps[number] = newer
        later = earlier
    return maps


def write_job_map(run: RunPaths, number: int, jobs: Mapping[int, int]) -> str:
    """Write the map from the submission before to the given one; return its name for the manifest."""
    path = run.submissions / f"{number:04}-jobs.json"
    create_atomically(path, msgspec.json.encode(sorted(jobs.items())) + b"\n", below=run.root)
    return path.relative_to(run.root).as_posix()


def _read(run: RunPaths, number: int) -> Manifest:
    manifest = read_manifest(run, number)
    assert manifest is not None  # `None` is only for runs without any
    return manifest


def _read_pairs(run: RunPaths, name: str) -> dict[int, int]:
    path = run.root / name
    try:
        return dict(msgspec.json.decode(read_file(path), type=list[tuple[int, int]]))
    except OSError as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error.strerror}") from error
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error


def _label_map(run: RunPaths, earlier: Manifest, later: Manifest) -> dict[int, int]:
    known = {label: number for number, label in enumerate(_labels(run.root / later.workflow))}
    return {number: known[label] for number, label in enumerate(_labels(run.root / earlier.workflow)) if label in known}


def _labels(workflow: Path) -> list[str]:
    """Return the labels of a workflow, in the order of their first profiles."""
    try:
        with open_stream(workflow) as file:
            header = decode_header(file.readline(), path=str(workflow))
    except OSError as error:
        raise RunUnreadableError(f"'{workflow}' cannot be read: {error.strerror}") from error
    return list(dict.fromkeys(settings.label for settings in header.settings))
