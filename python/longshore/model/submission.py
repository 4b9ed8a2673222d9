"""The record of a submission: identity of the run, manifest of its files, inputs, and fingerprint of its sources."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import FileStamp
from longshore.model.json_lines import is_intact

# A submission of a run, and the identity of a run (``run.json``).


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transfer of a run to its workload manager; a restart adds another."""

    id: str
    """The run's id for users: Longshore's, or the workload manager's."""
    by: str
    """``submit`` or ``restart``."""
    at: float
    """Seconds since the epoch (UTC)."""
    user: str
    host: str
    notes: tuple[str, ...] = ()
    """Notes for the user, such as how the engine was detached."""
    global_id: str = ""
    """The workload manager's globally unique id, where it has such ids."""


class RunIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``run.json``: the identity of a run; other facts are in the files beside it."""

    format: int
    """Version of the run directory's layout."""
    id: str
    name: str
    service: str
    longshore: str
    created_at: float
    expected: int
    """Number of jobs, the final one included."""
    labels: Mapping[str, int]
    """Number of jobs per label, in the order of the pipeline."""
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    key: str = ""
    """Distinguishes it from other runs with the same id: ids are unique per state directory only."""
    submissions: tuple[Submission, ...] = ()
    submitted_from: str = ""
    """Working directory of the command that submitted it, without symbolic links; empty if unknown."""
    submitted_in: str = ""
    """Directory of the run whose job submitted it; empty if a person did."""
    submitted_by_job: str = ""
    """Name of that job."""
    id_links: str | None = None
    """Directory with a link named by the id of each submission."""

    @property
    def shown_id(self) -> str:
        """Id shown to people: the workload manager's newest, where it assigns ids."""
        return self.submissions[-1].id if self.submissions else self.id

    @property
    def other_ids(self) -> tuple[str, ...]:
        """Ids that the workload manager assigned to the run, beside Longshore's."""
        ids = (name for each in self.submissions for name in (each.id, each.global_id))
        return tuple(dict.fromkeys(name for name in ids if name and name != self.id))

    @property
    def run_token(self) -> str:
        """Run token, which is unique, even if the run is moved; identifies its processes and batches."""
        return f"{self.id}-{self.key}" if self.key else self.id


# What a run begins with: the state of input files when it was prepared, and results of another run.


INPUT_FILES_FORMAT: Final = 1
"""Version of the file's format."""


class InputFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """State of a file."""

    size: int
    mtime_ns: int
    sha256: str = ""
    """Empty if the content was not read."""


class InputFiles(msgspec.Struct, frozen=True, kw_only=True):
    """``input-files.json``: the state of each file, by path."""

    v: int = INPUT_FILES_FORMAT
    files: Mapping[str, InputFile] = msgspec.field(default_factory=dict)


def describe_input_change(path: str, before: InputFile | None, now: InputFile | None) -> str:
    """Describe how a file differs from its record; empty if it does not."""
    if before is None:
        return f"'{path}' was not recorded"
    if now is None:
        return f"'{path}' is not there any more"
    if now.size != before.size:
        return f"'{path}' has another size now: {now.size:,} bytes, and {before.size:,} then"
    if before.sha256 and now.sha256:
        return "" if now.sha256 == before.sha256 else f"'{path}' has another content now"
    if now.mtime_ns == before.mtime_ns:
        return ""
    unknown = ", and the earlier run recorded no hash of its content" if now.sha256 else ""
    return f"'{path}' was written since{unknown}"


REUSED_JOBS: Final = "reused-jobs.json"
REUSED_JOBS_FORMAT: Final = 1
"""Version of the file's format."""
REUSED_BATCH: Final = "reused"
"""Id of the batch of all attempts that another run made."""
REUSED_FROM: Final = "reused_from"
"""Field of the end of such an attempt: the id of that run."""


class ReusedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs whose results an earlier run made."""

    v: int = REUSED_JOBS_FORMAT
    run: str
    """Id of the earlier run."""
    path: str
    """Its directory."""
    jobs: tuple[int, ...]
    """Numbers of the jobs in the workflow of the first submission."""
    links: tuple[str, ...] = ()
    """Outputs that are links to those of the earlier run, relative to the run directory."""
    stamps: Mapping[int, tuple[FileStamp, ...]] = msgspec.field(default_factory=dict)
    """Stamps of the outputs per job, as in `longshore.model.event.Ended`; older records have none."""


# The fingerprint of a prepared run's sources, to find changes between ``prepare`` and ``submit``.


class FileFingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Size, modification time and hash of a file, to detect a change."""

    path: str
    """Absolute, or relative to the run directory."""
    size: int
    mtime_ns: int
    sha256: str


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``made-from.json``: the sources of a prepared run."""

    v: int
    """Version of this file's format."""
    root: str
    """Original path of the run directory; paths in it may refer to it."""
    folder: str
    """Current directory of the ``prepare`` command."""
    file: str
    """The user's file, as named there."""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values of named options of the command line, per key of ``bps_cmdline``."""
    sets: tuple[str, ...] = ()
    """``KEY=VALUE`` of the option ``--set``."""
    site: str = ""
    umask: int | None = None
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Maximums of the site, as written, by name."""
    payload: tuple[FileFingerprint, ...] = ()
    """Files beside the configuration: sources of the payload, and the site's own templates."""
    programs: tuple[FileFingerprint, ...] = ()
    """Programs that jobs start."""
    own: tuple[FileFingerprint, ...] = ()
    """Files of the run directory; newer runs have them in their manifest."""


class SubmissionStart(msgspec.Struct, frozen=True, kw_only=True):
    """``submitting.json``: a submission has begun; removed when it is complete."""

    at: float
    """Seconds since the epoch (UTC)."""
    user: str
    host: str


# The manifest of a submission: digests of the files that it relies on, ``submissions/NNNN.json``.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


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


# Encodes and decodes the manifest of a submission.


def decode_manifest(text: bytes, *, path: str, run: str) -> Manifest:
    """Decode a manifest; `run` is how a command names the run.

    Raises
    ------
    RunUnreadableError
        It does not fit its checksum, or has a newer format.
    """
    if not is_intact(text):
        raise RunUnreadableError(
            f"'{path}' is damaged: its content does not fit its checksum",
            hint=f"Restore the file from a copy; 'longshore verify {run}' names what else is damaged.",
        )
    try:
        version = _decode_format(text).v
        if version > MANIFEST_FORMAT:
            raise RunUnreadableError(
                f"'{path}' has format {version}; this Longshore reads up to {MANIFEST_FORMAT}",
                hint="Use the version that wrote it, or a newer one.",
            )
        return _decode(text)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error


class _ManifestFormat(msgspec.Struct):
    v: int


_decode = msgspec.json.Decoder(Manifest).decode
_decode_format = msgspec.json.Decoder(_ManifestFormat).decode


# Checks that may refuse a run before it is submitted.


class SubmissionChecks(msgspec.Struct, frozen=True, kw_only=True):
    """Checks of a configuration before its submission.

    With `strict`, any warning refuses the run. With `with_probe`, the workload manager is asked first, and a run that
    it does not take is refused. With `shares_outputs`, a live run of this user may write the same files.
    """

    strict: bool = False
    with_probe: bool = True
    shares_outputs: bool = False
