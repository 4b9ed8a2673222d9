"""Ends of staged attempts: sizes and times of transfers, failed ones, and what killed attempts left beside targets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.rundir.log_locator import job_log_path
from longshore.engine.staging.stage_command import StageCommands, is_staged, record_path
from longshore.errors import DECODE_ERRORS
from longshore.model.event import Ended, StagedFiles
from longshore.model.states import Cause
from longshore.model.tasks import is_pattern, is_remote
from longshore.model.workflow import OutputCheck
from longshore.model.workflow_lines import StoredJob
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card
from longshore.system.folder import move, remove_file, remove_tree
from longshore.system.reading import open_stream, read_file

_MISSING: Final = 66
_STATUSES: Final = {_MISSING: Cause.INPUT_MISSING, 74: Cause.TRANSFER}
"""Cause by the exit status of the program; a command may end with these as well."""
_ENDS: Final = {"missing": Cause.INPUT_MISSING, "transfer": Cause.TRANSFER}
"""Cause by the word for the end in a record."""
_SAYS: Final = re.compile(r"^longshore-stage: (.+)$", re.MULTILINE)
_LOG_TAIL_B: Final = 4096
_DRAFTS: Final = ".longshore-stage."
"""Beginning of the names of temporary directories beside the targets of outputs."""
_DRAFT_NAME: Final = re.compile(r"(\.longshore-stage\..+?\.\d+)\.(\d+)\.\d+(?:\.old)*")
"""Name of such a directory: that of the job, the attempt and the process; and that it is being removed."""
_REMOVED: Final = ".old"


class _StageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of the program; times are in hundredths of a second."""

    end: str
    status: int
    files_in: int
    bytes_in: int
    time_in: int
    files_out: int
    bytes_out: int
    time_out: int
    kept: int
    missing: tuple[int, ...]


class StagedEnds:
    """Reads what the program recorded of the attempts of a run."""

    def __init__(self, run: RunPaths, jobs: JobTable) -> None:
        self._run = run
        self._jobs = jobs
        self._commands = StageCommands(jobs)
        self._read: list[Path] = []
        """Records whose ends are not durable yet."""

    def complete(self, end: Ended) -> Ended:
        """Return an end with the sizes and times of its transfers; one that failed is its cause."""
        stored = self._jobs[end.j]
        if not is_staged(self._jobs.settings(end.j), stored):
            return end
        path = record_path(self._run.root, self._jobs.file_number(end.j, stored), end.a)
        record = _read_record(path)
        if record is not None:
            self._read.append(path)
            end = msgspec.structs.replace(end, staged=self._staged_files(end.j, stored, record))
        cause = _STATUSES.get(end.exit) if end.exit is not None and end.cause is Cause.EXIT else None
        if cause is not None and (record is None or _ENDS.get(record.end) is cause):
            message = self._message(end, stored)
            if message or record is not None:
                return msgspec.structs.replace(end, cause=cause, reason=message or None)
        elif record is not None and end.cause is None:
            return self._check_outputs(end, stored, record)
        return end

    def is_cut_off(self, end: Ended) -> bool:
        """Whether an attempt failed without a record of its transfers: its outputs were not published."""
        return end.cause is not None and end.staged is None and is_staged(self._jobs.settings(end.j), self._jobs[end.j])

    def clean_up(self, jobs: Iterable[int], attempt: int | None = None) -> None:
        """Remove the temporary directories that attempts left beside the targets of their outputs.

        Without `attempt`, those of all attempts of the jobs. One that still runs then fails, and publishes no half
        output: the directories lose their names before their content.
        """
        for path in self.find_drafts(jobs, attempt):
            remove_draft(path)

    def find_drafts(self, jobs: Iterable[int], attempt: int | None = None) -> Iterator[Path]:
        """Yield the temporary directories that attempts left beside the targets of their outputs."""
        run_token = read_card(self._run).run_token
        owners: dict[str, set[str]] = {}
        """Beginnings of the names to remove, per folder."""
        for job in jobs:
            stored = self._jobs[job]
            if is_staged(self._jobs.settings(job), stored):
                prefix = f"{_DRAFTS}{run_token}.{self._jobs.file_number(job, stored)}"
                for path in self._targets(stored):
                    owners.setdefault(os.path.dirname(path), set()).add(prefix)  # noqa: PTH120 - a text is what there is
        for folder, prefixes in owners.items():
            with suppress(OSError):
                # What is being removed comes first: its name may be wanted.
                for name in sorted(os.listdir(folder), reverse=True):
                    found = _DRAFT_NAME.fullmatch(name)
                    if found and found[1] in prefixes and attempt in {None, int(found[2])}:
                        yield Path(folder, name)

    def discard_read(self) -> None:
        """Remove the records that were read; only once their ends are durable."""
        paths, self._read = self._read, []
        for path in paths:
            with suppress(OSError):
                remove_file(path, below=self._run.root)

    def _staged_files(self, job: int, stored: StoredJob, record: _StageRecord) -> StagedFiles:
        bytes_in, bytes_out = record.bytes_in, record.bytes_out
        if bytes_in < 0:
            bytes_in = _total_size(self._commands.inputs(stored)) if record.files_in else 0
            bytes_out = _total_size(self._commands.outputs(job, stored)) if record.files_out else 0
        return StagedFiles(
            files_in=record.files_in,
            bytes_in=bytes_in,
            in_s=record.time_in / 100,
            files_out=record.files_out,
            bytes_out=bytes_out,
            out_s=record.time_out / 100,
            kept=record.kept,
        )

    def _targets(self, stored: StoredJob) -> Iterator[str]:
        paths = self._jobs.file_paths
        for name in stored.outputs:
            if name in paths and not is_remote(paths[name]):
                yield str(self._run.root / paths[name])

    def _check_outputs(self, end: Ended, stored: StoredJob, record: _StageRecord) -> Ended:
        """Return the end of a success, as a failure if the outputs that its host cannot check are missing."""
        if not record.missing or self._jobs.settings(end.j).rules.check_outputs is OutputCheck.NONE:
            return end
        outputs = self._commands.outputs(end.j, stored)
        missing = [outputs[number] for number in record.missing if number < len(outputs)]
        unchecked = [path for path in missing if is_remote(path) or is_pattern(path)]
        if not unchecked:
            return end
        words = [
            f"no file matches the output '{path}'" if is_pattern(path) else f"the output '{path}' is missing"
            for path in unchecked
        ]
        return msgspec.structs.replace(end, cause=Cause.OUTPUT_MISSING, reason="; ".join(words))

    def _message(self, end: Ended, stored: StoredJob) -> str:
        """Return what the program says of a failed transfer at the end of the log, behind what its command said."""
        try:
            with open_stream(self._run.root / job_log_path(self._jobs, end.j, stored, end.a)) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LOG_TAIL_B))
                text = file.read(_LOG_TAIL_B).decode("utf-8", "replace")
        except OSError:
            return ""
        found = list(_SAYS.finditer(text))
        if not found:
            return ""
        before = text[: found[-1].start()].rstrip("\n").rpartition("\n")[2].strip()
        return found[-1][1] if end.exit == _MISSING or not before else f"{found[-1][1]}: {before}"


def _read_record(path: Path) -> _StageRecord | None:
    """Return a record; ``None`` if it is missing, or not as the program wrote it."""
    try:
        content = read_file(path)
    except FileNotFoundError:
        try:
            # Reading the directory makes a network file system look again.
            os.listdir(path.parent)
            content = read_file(path)
        except OSError:
            return None
    except OSError:
        return None
    try:
        values: dict[str, Any] = msgspec.json.decode(content, type=dict)
        # The values stand twice: a record that was written in part, or damaged, is not used.
        if values.pop("again", None) != values:
            return None
        return msgspec.convert(values, _StageRecord)
    except DECODE_ERRORS:
        return None


def remove_draft(path: Path) -> None:
    """Remove a temporary directory; it loses its name first, because its process may still publish its content."""
    removed = path.with_name(path.name + _REMOVED)
    with suppress(OSError):
        move(path, removed, below=path.parent)
        remove_tree(removed, below=path.parent)


def _total_size(paths: Iterable[str]) -> int:
    """Return the bytes of those files that are there."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += os.stat(path).st_size  # noqa: PTH116 - a text is what there is
    return total
