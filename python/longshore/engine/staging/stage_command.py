"""Command of a job in a scratch directory: ``longshore-stage``, the table of the job's files, and the job's command.

The reason is in decision 0118.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Final

from longshore.contract.service import Context, RenderedFile
from longshore.graphs.wfformat import ROOT
from longshore.jobs.commands import SHELL, command_argv, full_command, substitute_files
from longshore.jobs.scripts import StageStep
from longshore.jobs.stage_table import ScratchLayout, stage_table, staged_outputs
from longshore.model.tasks import Command, is_pattern, is_remote
from longshore.model.workflow import JobSettings, StagingRules, SuccessIf, Workflow
from longshore.model.workflow_lines import StoredJob
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card
from longshore.system.atomic import write_atomically
from longshore.system.folder import make_folders
from longshore.system.reading import can_see

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
