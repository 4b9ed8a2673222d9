"""Programs that jobs start: checks that they and their interpreters exist, without running them."""

from __future__ import annotations

import os
import posixpath
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.configure.configuration import Configuration
from longshore.contract.service import Problem
from longshore.model.file_identity import FileIdentity
from longshore.model.tasks import File
from longshore.model.workflow import Job
from longshore.plan.job_commands import command_program, shell_program, substitute_inherited
from longshore.system.reading import can_see, can_see_file, can_see_folder

COMMAND_KEY: Final = "runQuantumCommand"
_COMMAND_HINT: Final = "Correct 'runQuantumCommand', or begin it with 'sh -c' if an earlier job makes the program."
_LINE_HINT: Final = "Correct 'runQuantumCommand', unless its shell knows the program or does without."
_NOT_FOUND: Final = "is not on the PATH"
_LONGEST_FIRST_LINE: Final = 256
"""Bytes of a script in which Linux looks for its interpreter."""


class JobProgram(msgspec.Struct, frozen=True, kw_only=True):
    """Program that jobs of one label start, themselves or at the beginning of a line for the shell.

    `job` is the first of these jobs, `jobs` their number. `folder` is the working folder, empty for the run
    directory. `program` is a name or path, ``None`` if unknown. `written` is the ``PATH`` of configuration or
    environment, `path` the ``PATH`` of the jobs. `in_line` says that a shell starts the program.
    """

    job: Job
    jobs: int
    folder: str
    program: str | None
    written: str | None
    path: str | None
    in_line: bool = False

    @property
    def is_set_by_job(self) -> bool:
        """Whether the program can only be determined where the job runs: a container has programs of its own."""
        settings = self.job.settings
        set_later = bool(settings.setup) or "<ENV:LONGSHORE_JOB_" in (self.written or "")
        if self.program is None or settings.launcher:
            return True
        return "<ENV:" in self.program or (set_later and "/" not in self.program)


class _Use:
    """The first of the jobs that start one program, and their number."""

    __slots__ = ("first", "jobs")

    def __init__(self, first: Job) -> None:
        self.first = first
        self.jobs = 0


def job_programs(jobs: Iterable[Job], configuration: Configuration) -> list[JobProgram]:
    """Return the programs that jobs start, each once per label and folder."""
    uses: dict[tuple[str, str | None, str, str | None, bool], _Use] = {}
    inherited = configuration.env.get("PATH")
    for job in jobs:
        settings = job.settings
        written = job.environment.get("PATH", settings.environment.get("PATH", inherited))
        program = command_program(job.command)
        in_line = program is None
        program = shell_program(job.command) if in_line else program
        key = (job.label, program, settings.working_directory or "", written, in_line)
        if (use := uses.get(key)) is None:
            use = uses[key] = _Use(job)
        use.jobs += 1
    return [
        JobProgram(
            job=use.first,
            jobs=use.jobs,
            program=key[1],
            folder=key[2],
            written=key[3],
            path=substitute_inherited({"PATH": key[3]}, configuration.env)["PATH"] if key[3] else key[3],
            in_line=key[4],
        )
        for key, use in uses.items()
    ]


def existing_programs(programs: Iterable[JobProgram]) -> list[Path]:
    """Return the paths of those that exist outside of the run directory, each once."""
    found: dict[Path, None] = {}
    for use in programs:
        name = use.program
        if (
            name is None
            or use.in_line
            or use.is_set_by_job
            or ("/" in name and not f"{use.folder}{name}".startswith("/"))
        ):
            continue
        target = Path(use.folder, name) if "/" in name else Path(shutil.which(name, path=use.path) or "")
        if can_see_file(target):
            found[target] = None
    return list(found)


def missing_programs(
    programs: Iterable[JobProgram], files: Mapping[str, File], configuration: Configuration, identity: FileIdentity
) -> Iterator[Problem]:
    """Yield problems for missing programs, interpreters and working folders; job files may be programs."""
    job_files = {file.path for file in files.values()}
    whole_paths = cache(lambda: {identity.of(path) for path in job_files})
    missing = cache(_find_fault)
    for use in programs:
        job, program = use.job, use.program
        if use.folder and "<ENV:" not in use.folder and not can_see_folder(Path(use.folder)):
            yield Problem(
                message=f"job '{job.name}' is to run in '{use.folder}', which is no directory",
                job=job.name,
                jobs=use.jobs,
                key="workingDirectory",
                hint="Make it, or correct 'workingDirectory'.",
                code="files",
            )
        elif program is not None and not use.is_set_by_job and program not in job_files:
            fault, hint = missing(program, use.folder, use.path)
            if fault == _NOT_FOUND and use.written != configuration.env.get("PATH"):
                fault, hint = (
                    f"{fault} that 'environment' gives it",
                    "Correct 'runQuantumCommand' or 'environment.PATH'.",
                )
            if use.in_line:
                hint = _LINE_HINT
            if fault and "/" in program and identity.of(posixpath.join(use.folder, program)) in whole_paths():
                continue
            if fault:
                yield Problem(
                    message=f"job '{job.name}' runs '{program}', which {fault}",
                    job=job.name,
                    jobs=use.jobs,
                    key=COMMAND_KEY,
                    hint=hint,
                    code="files",
                    # The line may go on without it, or say itself what it is.
                    fatal=not use.in_line,
                )


def _find_fault(program: str, folder: str, path: str | None) -> tuple[str, str]:
    """Return why a program cannot be run, and the remedy; two empty texts if it can."""
    if "/" not in program:
        found = shutil.which(program, path=path)
        return _find_interpreter_fault(Path(found)) if found else (_NOT_FOUND, _COMMAND_HINT)
    target = Path(folder) / program
    if not can_see(target):
        return "is not there", _COMMAND_HINT
    if can_see_folder(target):
        return "is a directory", _COMMAND_HINT
    if not os.access(target, os.X_OK):
        return "is not executable", f"Make it so with: chmod +x '{target}'"
    return _find_interpreter_fault(target)


def _find_interpreter_fault(program: Path) -> tuple[str, str]:
    """Return the problem of a script whose interpreter is missing; the kernel would name the script."""
    try:
        with program.open("rb") as file:
            first = file.read(_LONGEST_FIRST_LINE).split(b"\n")[0]
    except OSError:
        return "", ""  # an unreadable program may still be executable
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words or os.access(words[0], os.X_OK):
        return "", ""
    interpreter = os.fsdecode(words[0])
    return f"is a script for '{interpreter}', which cannot be run", f"Correct the first line of '{program}'."
