"""Staging of jobs' files: the command that stages a job, what its attempts left, and checks before a run.

Decision 0118 has the reason.

"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from longshore.contract.service import Context, Problem, RenderedFile, RunPaths
from longshore.engine.log_locator import job_log_path
from longshore.errors import DECODE_ERRORS, PreparationError
from longshore.graphs.wfformat import ROOT
from longshore.jobs.commands import SHELL, command_argv, command_program, full_command, shell_program, substitute_files
from longshore.jobs.scripts import StageStep
from longshore.jobs.stage_table import ScratchLayout, stage_table, staged_outputs
from longshore.model.event import Ended, StagedFiles
from longshore.model.states import Cause
from longshore.model.tasks import Command, File, is_pattern, is_remote
from longshore.model.wording import count_noun
from longshore.model.workflow import Job, JobSettings, OutputCheck, StagingRules, SuccessIf, Workflow
from longshore.model.workflow_lines import StoredJob
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders, move, remove_file, remove_tree
from longshore.system.reading import can_see, open_stream, read_file

# The command.


PROGRAM: Final = PurePosixPath("wms", "longshore-stage")
"""Path of the program in a run directory."""
STAGE_DIR: Final = "<ENV:LONGSHORE_JOB_STAGE_DIR>"
"""Directory of a job's files, which the program tells the command."""
_RECORDS: Final = "stage"
"""Folder of the run directory for records of staged attempts, and for long tables."""
_BY_HAND: Final = "hand"
"""First part of the key of a job that a person runs."""
_IN_A_FOLDER: Final = 1000
_MOST_LOOKED_AT: Final = 16
"""Most files of a job that an engine looks at: it waits meanwhile, perhaps for a file server."""
_MAX_ARGUMENT_B: Final = 16 * 1024
"""Longest table in an argument: a kernel takes 128 KiB, and the lines of orders for pilots are bounded."""


def stage_files(workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
    """Yield the program as a file of the run, if jobs are staged."""
    if any(job.settings.rules.staging is not None for job in workflow):
        yield RenderedFile.from_text(PROGRAM, ctx.templates[PROGRAM.name], mode=0o755)


def is_staged(settings: JobSettings, stored: StoredJob) -> bool:
    """Whether a job is staged: it declares files, and its site stages them."""
    return settings.rules.staging is not None and bool(stored.inputs or stored.outputs)


def is_recorded(path: str) -> bool:
    """Whether a path is that of a file of a recorded workflow, whose inputs were not recorded with it."""
    return path.startswith(f"{ROOT}/")


def success_codes(rules: SuccessIf | None) -> str:
    """Return the exit codes after which outputs are published, as the program takes them."""
    if rules is None:
        return "0"
    if rules.any_of or rules.state is not None:
        # An end with any exit code may be a success.
        return "any"
    return " ".join(map(str, rules.exit or (0,)))


class StageCommands:
    """Stages the jobs of a run."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs
        self._root = str(jobs.run.root)

    def build(self, job: int, attempt: int, stored: StoredJob, command: Command) -> Command:
        """Return the words that stage an attempt of a job, with the setup and the launcher of its command."""
        settings = self._jobs.settings(job)
        number = self._jobs.file_number(job, stored)
        table = self.table(job, stored)
        words = [*self._program_words(settings), *(["-b"] if self._has_few_files(stored) else [])]
        words += ["-k", f"{self._token}.{number}", "-n", f"{number}.{attempt}"]
        words += ["-r", str(record_path(self._jobs.run.root, number, attempt)), *self._table_words(number, table)]
        return (*words, *command_argv(full_command(command, settings)))

    def by_hand(self, job: int, stored: StoredJob) -> StageStep:
        """Return what stages a job that a person runs: without a record, and beside no temporary directory of a run."""
        number = self._jobs.file_number(job, stored)
        # As a first attempt of another key, it removes nothing of an attempt that runs meanwhile, nor is it removed.
        key = f"{_BY_HAND}.{self._token}.{number}"
        words = (*self._program_words(self._jobs.settings(job)), "-b", "-k", key, "-n", f"{number}.1")
        return StageStep(words=words, table=self.table(job, stored))

    def substitute_files(self, job: int, stored: StoredJob) -> Command:
        """Return the command of a job with the paths of its files in the scratch directory."""
        # Words go to no shell: they are relative to the scratch directory, where the command starts.
        folder = STAGE_DIR if isinstance(stored.c, str) else "."
        return substitute_files(stored.c, _StagedPaths(self._jobs, self._layout(job), stored), folder=folder)

    def table(self, job: int, stored: StoredJob) -> str:
        """Return the table of a job's files."""
        inputs = [name for name in stored.inputs if name not in self._absent]
        rules = self._jobs.settings(job).rules.staging or StagingRules()
        return stage_table(self._paths(inputs), self._paths(stored.outputs), self._layout(job), rules)

    def outputs(self, job: int, stored: StoredJob) -> list[str]:
        """Return the outputs of a job in the order of its table."""
        return staged_outputs(self._paths(stored.outputs), self._layout(job))

    def inputs(self, stored: StoredJob) -> list[str]:
        """Return the absolute paths of the inputs in a job's table, without those at URLs."""
        paths = self._paths(name for name in stored.inputs if name not in self._absent)
        return [str(self._jobs.run.root / path) for path in paths if not is_remote(path)]

    def _program_words(self, settings: JobSettings) -> list[str]:
        return [SHELL, f"{self._root}/{PROGRAM}", "-g", success_codes(settings.rules.success_if)]

    def _has_few_files(self, stored: StoredJob) -> bool:
        """Whether the engine looks at the sizes of a job's files, which saves the job a program."""
        paths = self._paths((*stored.inputs, *stored.outputs))
        return len(paths) <= _MOST_LOOKED_AT and not any(is_remote(path) or is_pattern(path) for path in paths)

    def _paths(self, names: Iterable[str]) -> list[str]:
        paths = self._jobs.file_paths
        return [paths[name] for name in names if name in paths]

    def _layout(self, job: int) -> ScratchLayout:
        return ScratchLayout.of(self._jobs.settings(job), self._root)

    def _table_words(self, number: int, table: str) -> list[str]:
        if len(table.encode()) > _MAX_ARGUMENT_B:
            path = self._jobs.run.root / _RECORDS / "tables" / str(number // _IN_A_FOLDER) / str(number)
            try:
                make_folders(path.parent, below=self._jobs.run.root)
                write_atomically(path, table, below=self._jobs.run.root)
            except OSError:
                # A full disk: most tables still fit into an argument.
                pass
            else:
                return [str(path)]
        return ["-t", table]

    @cached_property
    def _token(self) -> str:
        return read_card(self._jobs.run).run_token

    @cached_property
    def _absent(self) -> frozenset[str]:
        """Names of inputs of a recorded workflow that no job makes and that are not there: nothing reads them."""
        made = frozenset(chain.from_iterable(self._jobs.outputs))
        recorded = ((name, path) for name, path in self._jobs.file_paths.items() if is_recorded(path))
        return frozenset(name for name, path in recorded if name not in made and not can_see(Path(self._root, path)))


class _StagedPaths(Mapping[str, str]):
    """Path per name of a file for a command in the scratch directory; that of files the job does not declare stays."""

    def __init__(self, jobs: JobTable, layout: ScratchLayout, stored: StoredJob) -> None:
        self._paths = jobs.file_paths
        self._layout = layout
        self._declared = frozenset((*stored.inputs, *stored.outputs))

    def __getitem__(self, name: str) -> str:
        path = self._paths[name]
        if name in self._declared:
            return self._layout.place(path)
        return self._layout.absolute(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def record_path(root: Path, number: int, attempt: int) -> Path:
    """Return the path of the record of an attempt."""
    return root / _RECORDS / "ends" / str(number // _IN_A_FOLDER) / f"{number}.{attempt}"


# Ends of staged attempts: sizes and times of transfers, failed ones, and what killed attempts left beside targets.


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


# Checks of a workflow whose files are staged, before a run is written.


_MAX_NAMES: Final = 3
_SCRATCH: Final = "with 'fileSystem: scratch', jobs start in a scratch directory"


def refuse_transfer(ctx: Context, title: str) -> Iterator[Problem]:
    """Refuse ``fileSystem: transfer`` on a service that transfers no files."""
    if ctx.site.settings.get("fileSystem") == "transfer":
        yield Problem(
            message=f"{title} transfers no files, as 'fileSystem: transfer' wants",
            origin=ctx.site.origin,
            hint="Set 'fileSystem: scratch': jobs copy their files themselves, by 'transferCommand' if not by cp.",
        )


def check_staging(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Yield the problems of jobs whose files are staged."""
    jobs = [job for job in workflow if job.settings.rules.staging is not None and (job.inputs or job.outputs)]
    if jobs:
        yield from _shared_paths(jobs, workflow, str(ctx.paths.root))
        yield from _relative_programs(jobs, workflow, str(ctx.paths.root))
        yield from _undeclared_outputs(jobs)
        yield from _unstaged_urls(jobs, workflow)
        yield from _absent_inputs(jobs, workflow, ctx.paths.root)


def _shared_paths(jobs: list[Job], workflow: Workflow, root: str) -> Iterator[Problem]:
    """Refuse two files of a job that would be one in its scratch directory."""
    layouts = {id(job.settings): ScratchLayout.of(job.settings, root) for job in jobs}
    shared = {
        key
        for key, layout in layouts.items()
        if len({layout.place(file.path) for file in workflow.files.values()}) < len(workflow.files)
    }
    for job in jobs:
        if id(job.settings) not in shared:
            continue
        inputs, outputs = (
            [workflow.files[name].path for name in names if name in workflow.files]
            for names in (job.inputs, job.outputs)
        )
        try:
            stage_table(inputs, outputs, layouts[id(job.settings)], job.settings.rules.staging or StagingRules())
        except PreparationError as error:
            yield Problem(message=f"files of job '{job.name}': {error.message}", job=job.name, hint=error.hint)
            return


def _relative_programs(jobs: list[Job], workflow: Workflow, root: str) -> Iterator[Problem]:
    """Refuse programs by relative paths that are no inputs: they are not in the scratch directory."""
    seen: set[tuple[str, str]] = set()
    for job in jobs:
        program = command_program(job.command) or shell_program(job.command)
        if program is None or "/" not in program or program.startswith("/") or "<" in program:
            continue
        if (job.label, program) in seen:
            continue
        seen.add((job.label, program))
        inputs = (workflow.files[name].path for name in job.inputs if name in workflow.files)
        layout = ScratchLayout.of(job.settings, root)
        if posixpath.normpath(program) not in {layout.place(path) for path in inputs}:
            yield Problem(
                message=f"job '{job.name}' runs '{program}', and {_SCRATCH} without it",
                job=job.name,
                key="runQuantumCommand",
                hint="Write its absolute path, or declare it as an input.",
            )


def _undeclared_outputs(jobs: list[Job]) -> Iterator[Problem]:
    """Note labels whose jobs declare inputs and no output."""
    labels = {job.label for job in jobs if job.outputs}
    first = {job.label: job for job in reversed(jobs) if job.label not in labels}
    for job in reversed(first.values()):
        yield Problem(
            message=f"job '{job.name}' declares no outputs: what it writes to its scratch directory is removed",
            job=job.name,
            jobs=sum(each.label == job.label for each in jobs),
            hint="Declare its outputs, unless it writes elsewhere.",
            fatal=False,
        )


def _unstaged_urls(jobs: list[Job], workflow: Workflow) -> Iterator[Problem]:
    """Note schemes of URLs without a command, where there are commands for others."""
    first = {
        path.partition("://")[0]: job
        for job in reversed(jobs)
        for name in (*job.inputs, *job.outputs)
        if is_remote(path := workflow.files[name].path if name in workflow.files else "")
    }
    for scheme, job in first.items():
        rules = job.settings.rules.staging
        if rules is not None and scheme not in rules.urls:
            yield Problem(
                message=f"files at '{scheme}://' are not staged: the commands of jobs get their URLs",
                job=job.name,
                key="transferCommand",
                hint=f"To stage them, set 'transferCommand: {{urls: {{{scheme}: COMMAND}}}}'.",
                fatal=False,
            )


def _absent_inputs(jobs: list[Job], workflow: Workflow, root: Path) -> Iterator[Problem]:
    """Note inputs in the run directory that no job makes and that nothing puts there."""
    made = {name for job in workflow for name in job.outputs}
    awaited: dict[str, Job] = {}
    for job in jobs:
        for name in job.inputs:
            if name not in made and name in workflow.files and _is_awaited(workflow.files[name]):
                awaited.setdefault(workflow.files[name].path, job)
    absent = [path for path in awaited if not can_see(root / path)]
    if absent:
        names = ", ".join(f"'{path}'" for path in absent[:_MAX_NAMES])
        more = f" and {len(absent) - _MAX_NAMES:,} more" if len(absent) > _MAX_NAMES else ""
        verb, them = ("is", "it") if len(absent) == 1 else ("are", "them")
        yield Problem(
            message=f"{count_noun(len(absent), 'input')} {verb} not in the run directory, and no job makes {them}: "
            f"{names}{more}",
            job=awaited[absent[0]].name,
            jobs=1,
            hint="Write absolute paths, or jobs that read these end with INPUT_MISSING.",
            fatal=False,
        )


def _is_awaited(file: File) -> bool:
    """Whether a file must be in the run directory before its job; those to transfer are copied there."""
    path = file.path
    is_inside = not path.startswith("/") and not is_remote(path) and not is_pattern(path)
    return is_inside and not file.transfer and not is_recorded(path)
