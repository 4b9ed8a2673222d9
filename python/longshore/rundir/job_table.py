"""Job table: the jobs of ``workflow.jsonl`` as columns in memory, with whole records read from disk on demand.

The file is compared with its manifest, so that a changed command is never started, and no reader shows it. The whole
file is hashed while it is read. Later, each record that is read again must still have the checksum that it had then: a
file may change while its engine runs.

"""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
import weakref
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from io import BytesIO
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol, TypeAlias
from zlib import crc32

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.submission import FileDigest
from longshore.model.tasks import Adjacency, DataId, File, collection_paused, is_pattern, is_remote
from longshore.model.wording import count_noun
from longshore.model.workflow import Barrier, JobSettings, OutputCheck, Request, find_barriers
from longshore.model.workflow_lines import StoredJob, WorkflowHeader, decode_file, decode_header, decode_job
from longshore.rundir.submissions import hash_file, recorded_workflow, refuse_other_workflow, workflow_path
from longshore.system.reading import full_stamp, open_stream, open_to_read

# Check of the file while it is read, and of records that are read again.


_CHUNK_B: Final = 1 << 20


class WorkflowCheck:
    """Digest of a workflow file that is being read, and a checksum per job afterwards.

    Parameters
    ----------
    path
        The file, for messages.
    expected
        Its digest in the manifest.
    run
        How a command names the run.
    """

    def __init__(self, path: Path, expected: FileDigest, run: str) -> None:
        self._path = path
        self._run = run
        self._hint = (
            f"No job is started from it. 'longshore verify {run}' shows all that is damaged; restore it from a copy."
        )
        from hashlib import sha256

        self._expected = expected
        self._digest = sha256()
        self._size = 0
        self._jobs = array("I")
        self._rest = 0
        """Checksum of what follows the jobs."""

    def add_jobs(self, lines: Iterable[bytes], text: bytes) -> None:
        """Add the lines of some jobs, and the same as one text."""
        self._jobs.extend(map(crc32, lines))
        self.add(text)

    def add_rest(self, text: bytes) -> None:
        """Add a part of what follows the jobs."""
        self._rest = crc32(text, self._rest)
        self.add(text)

    def finish(self, file: BinaryIO) -> None:
        """Add the rest of the file.

        Raises
        ------
        RunUnreadableError
            The content is not the expected one.
        """
        while chunk := file.read(_CHUNK_B):
            self.add_rest(chunk)
        refuse_other_workflow(self._path, FileDigest(self._size, self._digest.hexdigest()), self._expected, self._run)

    def refuse_changed_job(self, job: int, line: bytes) -> None:
        """Check the line of a job that was read again.

        Raises
        ------
        RunUnreadableError
            It is not the line that was checked.
        """
        if crc32(line) != self._jobs[job]:
            raise RunUnreadableError(f"'{self._path}' changed after it was checked, in line {job + 2}", hint=self._hint)

    def refuse_changed_rest(self, text: bytes) -> None:
        """Check what follows the jobs, read again; raises `RunUnreadableError` as `refuse_changed_job`."""
        if crc32(text) != self._rest:
            raise RunUnreadableError(f"'{self._path}' changed after it was checked, behind its jobs", hint=self._hint)

    def add(self, text: bytes) -> None:
        """Add a part of the file, such as its first line."""
        self._size += len(text)
        self._digest.update(text)


# Columns of the jobs.


Column: TypeAlias = Literal["names", "numbers", "outputs", "parents", "tags"]


_Values: TypeAlias = list[Any] | Adjacency
"""Values of a column, one per job."""


class _Row(Protocol):
    """Decoded columns of a job's line; only selected columns exist."""

    s: int
    name: str


_CLOSED_HINT: Final = "Its owner can read it: a file with secrets is its owner's alone."
_BLOCK_B: Final = 1 << 18
"""Bytes decoded together: several times as fast as line by line."""
_LINES_PER_LOOK: Final = 1000
"""Lines of files that are read between two looks at the clock."""
_FIELDS: Final[Mapping[Column, tuple[str, object] | tuple[str, object, object]]] = {
    "names": ("name", str),
    "numbers": ("n", int, 0),
    "outputs": ("outputs", tuple[str, ...], ()),
    "parents": ("p", tuple[int, ...], ()),
    "tags": ("tags", DataId, msgspec.field(default_factory=dict)),
}
"""Name, type and default of each column, as in `StoredJob`."""


class JobTable:
    """Jobs of a run by index: the line of each in ``workflow.jsonl``, counted from 0.

    Columns in `columns` are read at once with the profiles, any other when it is first used. All that is read must fit
    the digest in the manifest of its submission, also later: no engine starts a job from a changed record, nobody
    shows it. `workflow` is the file of an earlier submission; by default that of the newest.

    Raises
    ------
    RunUnreadableError
        The workflow is missing, torn, of a newer format, or not as it was submitted.
    """

    def __init__(self, run: RunPaths, *columns: Column, workflow: Path | None = None) -> None:
        self.run = run
        self.path, self._digest = recorded_workflow(run, workflow)
        self._check = self._make_check()
        self.profile_of = array("i")
        """Index of the profile per job."""
        self._offsets = array("q")
        """Offset of each job's line, and the end of the last one."""
        self._columns: dict[Column, _Values] = {column: _no_values(column) for column in columns}
        self._are_parents_checked = False
        with _open_workflow(self.path, self._check) as (header, file):
            self.header = header
            self._offsets.append(file.tell())
            for rows, lengths in _blocks(file, header, columns, self._check):
                self.profile_of.extend([row.s for row in rows])
                self._offsets.extend(accumulate(lengths, initial=self._offsets.pop()))
                for column, values in self._columns.items():
                    values.extend(_values(rows, column))
            if self._check:
                self._check.finish(file)
        if self.profile_of and not 0 <= min(self.profile_of) <= max(self.profile_of) < len(header.settings):
            raise RunUnreadableError(f"'{self.path}' has a job whose profile is not in its header")

    def __len__(self) -> int:
        return len(self.profile_of)

    def __getitem__(self, job: int) -> StoredJob:
        """Return the whole record of a job.

        Raises
        ------
        RunUnreadableError
            The record cannot be read, or is not a job any more.
        """
        begin, end = self._offsets[job], self._offsets[job + 1]
        try:
            line = os.pread(self._file, end - begin, begin)
            if self._check:
                self._check.refuse_changed_job(job, line)
            return decode_job(line)
        except OSError as error:
            raise RunUnreadableError(f"'{self.path}' cannot be read: {error.strerror}") from error
        except DECODE_ERRORS as error:
            raise RunUnreadableError(f"'{self.path}' changed while it was read: {error}") from error

    @property
    def names(self) -> list[str]:
        """Name per job."""
        names: list[str] = self._column("names")
        return names

    @property
    def outputs(self) -> list[tuple[str, ...]]:
        """Names of output files per job."""
        outputs: list[tuple[str, ...]] = self._column("outputs")
        return outputs

    @property
    def parents(self) -> Adjacency:
        """Indices of the parents per job, each less than the job's own.

        Raises
        ------
        RunUnreadableError
            That is not so.
        """
        parents: Adjacency = self._column("parents")
        if not self._are_parents_checked:
            # A stranger's archive may have a manifest that fits anything.
            for job, of_job in enumerate(parents):
                if of_job and not 0 <= min(of_job) <= max(of_job) < job:
                    raise RunUnreadableError(f"'{self.path}' has a job whose parent is not before it: job {job}")
            self._are_parents_checked = True
        return parents

    @property
    def tags(self) -> list[DataId]:
        """Data ID per job."""
        tags: list[DataId] = self._column("tags")
        return tags

    @cached_property
    def labels(self) -> list[str]:
        """Labels, in the order of their first profiles."""
        return list(dict.fromkeys(settings.label for settings in self.header.settings))

    @cached_property
    def label_of(self) -> Sequence[int]:
        """Index of the label per job."""
        index = {label: number for number, label in enumerate(self.labels)}
        label_of_profile = [index[settings.label] for settings in self.header.settings]
        return array("i", [label_of_profile[profile] for profile in self.profile_of])

    @cached_property
    def requests_of_labels(self) -> Mapping[str, Sequence[Request]]:
        """What the first attempts of each label request: the requests of its profiles, in their order."""
        requests: dict[str, list[Request]] = {label: [] for label in self.labels}
        for settings in self.header.settings:
            requests[settings.label].append(settings.request)
        return requests

    @property
    def final(self) -> int | None:
        """Index of the final job; ``None`` without one."""
        return len(self) - 1 if self.header.final else None

    def settings(self, job: int) -> JobSettings:
        """Return the profile of a job, which other jobs share."""
        return self.header.settings[self.profile_of[job]]

    def label(self, job: int) -> str:
        """Return the label of a job."""
        return self.settings(job).label

    def file_number(self, job: int, stored: StoredJob | None = None) -> int:
        """Return the number of a job in names of files, which stays when a later submission has other indices."""
        if not self.header.numbers:
            return job
        return self._column("numbers")[job] if stored is None else stored.n

    def names_of(self, jobs: Iterable[int]) -> dict[int, str]:
        """Return names of some jobs by index, without reading those of all."""
        if "names" in self._columns:
            return {job: self.names[job] for job in jobs}
        return {job: self[job].name for job in jobs}

    def select(self, *, names: Collection[str] = (), labels: Collection[str] = ()) -> list[int]:
        """Return the indices of jobs with one of the names or labels."""
        names, labels = frozenset(names), frozenset(labels)
        wanted = [settings.label in labels for settings in self.header.settings]
        chosen = {job for job, profile in enumerate(self.profile_of) if wanted[profile]}
        if names:
            known = self._columns.get("names") or self._read("names")
            chosen.update(job for job, name in enumerate(known) if name in names)
        return sorted(chosen)

    @cached_property
    def barriers(self) -> list[Barrier]:
        """Barriers between groups of jobs that run one after another."""
        return list(find_barriers(self.header.orderings, self.parents))

    @cached_property
    def _barriers_before(self) -> dict[int, list[Barrier]]:
        found: dict[int, list[Barrier]] = {}
        for barrier in self.barriers:
            for job in barrier.before:
                found.setdefault(job, []).append(barrier)
        return found

    def barriers_before(self, job: int) -> Sequence[Barrier]:
        """Return the barriers that a job waits for."""
        return self._barriers_before.get(job, ())

    def ancestors(self, *jobs: int, most: int | None = None) -> list[int]:
        """Return jobs with all their ancestors, including those before barriers, in the order of the workflow.

        The ancestors of the final job are all jobs. The search ends when it has found more than `most`.
        """
        if self.final in jobs:
            return list(range(len(self)))
        seen = set(jobs)
        stack = list(seen)
        parents = self.parents
        while stack and (most is None or len(seen) <= most):
            job = stack.pop()
            for parent in chain(parents[job], *(barrier.after for barrier in self.barriers_before(job))):
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        return sorted(seen)

    def children(self, job: int) -> list[int]:
        """Return the children of a job, without the final job, which waits for all."""
        return [child for child, parents in enumerate(self.parents) if job in parents]

    def files(self) -> Iterator[File]:
        """Yield the files of the workflow."""
        if not self.header.files:
            return
        try:
            with open_stream(self.path) as file:
                file.seek(self._offsets[-1])
                if self._check:
                    text = file.read()
                    self._check.refuse_changed_rest(text)
                    yield from map(decode_file, BytesIO(text))
                else:
                    yield from map(decode_file, file)
        except OSError as error:
            raise RunUnreadableError(f"'{self.path}' cannot be read: {error.strerror}") from error
        except DECODE_ERRORS as error:
            raise RunUnreadableError(f"'{self.path}' has a line that is no file: {error}") from error

    def checked_outputs(self, job: int, stored: StoredJob) -> list[str]:
        """Return the absolute paths of a job's outputs that are checked at its end; those at URLs are not."""
        if not stored.outputs or self.settings(job).rules.check_outputs is OutputCheck.NONE:
            return []
        paths = [self.file_paths.get(name, name) for name in stored.outputs]
        if self.settings(job).rules.staging is not None:
            # What matches a pattern is known where the files are staged.
            paths = [path for path in paths if not is_pattern(path)]
        return [path if path.startswith("/") else self._root + path for path in paths if not is_remote(path)]

    @cached_property
    def file_paths(self) -> dict[str, str]:
        """Path per name of a file."""
        return {file.name: file.path for file in self.files()}

    @cached_property
    def outputs_with(self) -> dict[str, str]:
        """Name of the output, a folder, that each file is in; files that are in none are absent."""
        return {file.name: file.part_of for file in self.files() if file.part_of}

    @cached_property
    def _root(self) -> str:
        return f"{self.run.root}/"

    @cached_property
    def _file(self) -> int:
        # Kept open: an engine reads a record per start.
        file = open_to_read(self.path)
        weakref.finalize(self, os.close, file)
        return file

    def _column(self, column: Column) -> Any:
        if column not in self._columns:
            self._columns[column] = self._read(column)
        return self._columns[column]

    def _read(self, column: Column) -> _Values:
        values = _no_values(column)
        check = self._make_check()
        with _open_workflow(self.path, check) as (header, file):
            for rows, _ in _blocks(file, header, (column,), check):
                values.extend(_values(rows, column))
            if check:
                check.finish(file)
        return values

    def _make_check(self) -> WorkflowCheck | None:
        if self._digest is None:
            return None
        return WorkflowCheck(self.path, self._digest, shlex.quote(str(self.run.root)))


def read_header(run: RunPaths, *, workflow: Path | None = None, checked: bool = True) -> WorkflowHeader:
    """Read the first line of ``workflow.jsonl``: profiles, labels and other data that jobs share.

    `workflow` is the file of an earlier submission; by default that of the newest. It is not `checked` where the caller
    compares all files of the run.

    Raises
    ------
    RunUnreadableError
        The workflow is missing, torn, of a newer format, or not as it was submitted.
    """
    path = check_workflow(run, workflow) if checked else workflow or workflow_path(run)
    with _open_workflow(path) as (header, _):
        return header


def check_workflow(run: RunPaths, workflow: Path | None = None) -> Path:
    """Compare a workflow with the manifest of its submission, and return its path.

    Raises
    ------
    RunUnreadableError
        It cannot be read, or is not as it was submitted.
    """
    path, expected = recorded_workflow(run, workflow)
    if expected is not None:
        try:
            found = _hash_once(path, full_stamp(path))
        except OSError as error:
            raise _read_error(path, error) from error
        refuse_other_workflow(path, found, expected, shlex.quote(str(run.root)))
    return path


@lru_cache(maxsize=16)
def _hash_once(path: Path, stamp: tuple[int, ...]) -> FileDigest:
    """Return the digest of a file; it is hashed once as long as it has the same stamp."""
    del stamp
    return hash_file(path)


def job_names(run: RunPaths) -> Iterator[tuple[str, str]]:
    """Yield name and label of every job in order, as a stream that keeps none in memory.

    Raises
    ------
    RunUnreadableError
        The workflow is missing, torn or of a newer format.
    """
    with _open_workflow(workflow_path(run)) as (header, file):
        for rows, _ in _blocks(file, header, ("names",)):
            for row in rows:
                yield row.name, header.settings[row.s].label


def output_paths(run: RunPaths, *, most: int = sys.maxsize, deadline: float = math.inf) -> Iterator[str]:
    """Yield the absolute paths and URLs of outputs as a stream, up to a time of the monotonic clock.

    At most `most` names are kept in memory; outputs beyond are left out.

    Raises
    ------
    RunUnreadableError
        The workflow is missing, torn or of a newer format.
    """
    with _open_workflow(workflow_path(run)) as (header, file):
        end, names = file.tell(), set[str]()
        for rows, lengths in _blocks(file, header, ("outputs",)):
            end += sum(lengths)
            if len(names) < most and header.files:
                names.update(chain.from_iterable(_values(rows, "outputs")))
            if time.monotonic() > deadline:
                return
        file.seek(end)
        for number, line in enumerate(file):
            if number % _LINES_PER_LOOK == 0 and time.monotonic() > deadline:
                return
            found = decode_file(line)
            if found.name in names and (found.path.startswith("/") or is_remote(found.path)):
                yield found.path


@contextmanager
def _open_workflow(path: Path, check: WorkflowCheck | None = None) -> Iterator[tuple[WorkflowHeader, BinaryIO]]:
    """Open the workflow; yield its header, and the file positioned at the first job's line."""
    try:
        with collection_paused(), open_stream(path) as file:
            line = file.readline()
            if check:
                check.add(line)
            yield decode_header(line, path=str(path)), file
    except OSError as error:
        raise _read_error(path, error) from error
    except OverflowError as error:
        message = f"'{path}' has a job whose parent is not before it: its number has more than 31 bits"
        raise RunUnreadableError(message) from error
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' has a line that is no job: {error}") from error


def _read_error(path: Path, error: OSError) -> RunUnreadableError:
    hint = _CLOSED_HINT if isinstance(error, PermissionError) else ""
    return RunUnreadableError(f"'{path}' cannot be read: {error.strerror}", hint=hint)


@lru_cache
def _decoder(columns: tuple[Column, ...]) -> msgspec.json.Decoder[_Row]:
    """Return a decoder of selected columns of a job's line and of its profile, which skips all other fields."""
    row = msgspec.defstruct("Row", [("s", int), *(_FIELDS[column] for column in columns)], gc=False, kw_only=True)
    return msgspec.json.Decoder(row)


def _blocks(
    file: BinaryIO, header: WorkflowHeader, columns: tuple[Column, ...], check: WorkflowCheck | None = None
) -> Iterator[tuple[list[_Row], list[int]]]:
    """Yield decoded jobs and the lengths of their lines, a block of the file at a time."""
    remaining = header.jobs
    decode = _decoder(columns).decode_lines
    while remaining:
        read = file.readlines(_BLOCK_B)
        lines = read[:remaining]
        if not lines or not lines[-1].endswith(b"\n"):
            complete = header.jobs - remaining + len(lines[:-1])
            raise RunUnreadableError(
                f"the workflow '{header.name}' is torn: it has {complete} of its {count_noun(header.jobs, 'job')}"
            )
        text = b"".join(lines)
        if check:
            check.add_jobs(lines, text)
            check.add_rest(b"".join(read[remaining:]))
        remaining -= len(lines)
        rows = decode(text)
        if len(rows) != len(lines):
            raise RunUnreadableError(f"the workflow '{header.name}' has a line that is no job: it is empty")
        yield rows, list(map(len, lines))


def _no_values(column: Column) -> _Values:
    return Adjacency() if column == "parents" else []


def _values(rows: list[_Row], column: Column) -> list[Any]:
    attribute = _FIELDS[column][0]
    return [getattr(row, attribute) for row in rows]
