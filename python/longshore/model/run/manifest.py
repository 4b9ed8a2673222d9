"""The manifest of a submission: digests of the files that it relies on, ``submissions/NNNN.json``."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from longshore.model.run.submission import RunIdentity

MANIFEST_FORMAT: Final = 2
"""Version of the format of a manifest; one without a folder of its own has version 1."""
PLAIN_MANIFEST_FORMAT: Final = 1
"""Version of a manifest whose files have their usual places in the run directory."""


_FOLDER: Final = re.compile(r"submissions/[0-9]+/")
_SOURCES: Final = frozenset({"origins.json", "made-from.json", "input-files.json"})


class FileDigest(msgspec.Struct, frozen=True, gc=False):
    """Size and hash of a file."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files that a submission relies on; paths are relative to the run directory."""

    v: int
    """Version of this file's format."""
    number: int
    """Number of the submission, from 1; the name of this file."""
    run: str
    """Run token: tells this run from others."""
    card: str
    """SHA-256 of the identity in ``run.json``, without its submissions."""
    workflow: str
    """File with the jobs."""
    job_map: str | None = None
    """File with pairs of job numbers, in the submission before and in this one; ``None`` if the numbers are equal."""
    folder: str = ""
    """Folder of a submission with another workflow: it has the files that `prepare` writes into a run directory."""
    expected: int | None = None
    """Number of jobs, if the submission has another workflow than the first."""
    labels: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Number of jobs per label, likewise."""
    files: Mapping[str, FileDigest]
    """Files that never change: compared before each use."""
    inputs: Mapping[str, FileDigest] = msgspec.field(default_factory=dict)
    """Inputs of jobs, which jobs may change: compared only when the run is handed over."""


class FileChange(msgspec.Struct, frozen=True):
    """A file that differs from its manifest."""

    path: str
    """Relative to the run directory."""
    what: str
    """Difference: the rest of a sentence that begins with the file."""


def is_source(name: str) -> bool:
    """Return whether a file only tells people what the run was made from: no engine or service reads it."""
    # A later submission has them in a folder of its own.
    name = _FOLDER.sub("", name)
    is_configuration = "/" not in name and name.endswith("_config.yaml")
    return name.startswith("inputs/") or name in _SOURCES or is_configuration


def hash_identity(card: RunIdentity) -> str:
    """Return the SHA-256 of a run's identity; what its submission adds does not count."""
    # Commands that look hash nothing.
    from hashlib import sha256

    prepared = msgspec.structs.replace(card, submissions=(), submitted_from="", submitted_in="", submitted_by_job="")
    return sha256(msgspec.json.encode(prepared)).hexdigest()


def describe_difference(size: int, before: FileDigest) -> str:
    """Describe how the content of a changed file differs from its digest."""
    if size != before.size:
        return f"has another content now: {size:,} bytes, and {before.size:,} then"
    return "has another content now, as long as before"
