"""Limits of kernel and file systems: sizes of arguments and environments, lengths of names and paths.

Beyond them a job cannot start, or cannot make its file, on any service and however often it is tried.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from longshore.app.plan.programs import COMMAND_KEY
from longshore.config.secrets import hide_secrets
from longshore.contract.service import Problem
from longshore.model.tasks import Command, File, is_remote
from longshore.model.wording import quote_value
from longshore.model.workflow import Job, JobSettings
from longshore.plan.job_commands import command_argv, full_command, substitute_files, substitute_inherited

MAX_ARGUMENT_B: Final = 131_071
"""Bytes of one argument, or of one variable with its name: 32 pages less the NUL at its end (MAX_ARG_STRLEN)."""
MAX_NAME_B: Final = 255
"""Bytes of a name in a folder (NAME_MAX)."""
MAX_PATH_B: Final = 4095
"""Bytes of a path: PATH_MAX less the NUL at its end."""
_LARGEST_TOTAL_B: Final = 6 * 1024 * 1024
"""The most that Linux takes of arguments and environment together, however large the stack may become."""
_POINTER_B: Final = 8
_SURELY_SHORT: Final = MAX_ARGUMENT_B // 4
"""Characters of a text that is short enough whatever it holds: UTF-8 has four bytes for a character."""
_PER_CHARACTER: Final = 4 + 1 + _POINTER_B
"""The most that a character of a command can take: as a word of its own, with its end and its pointer."""
_OWN_VARIABLES_B: Final = 8 * 1024
"""Room for the variables that Longshore and the workload manager set for a job."""
_FILE_WAY: Final = "A program can also read names from a file that an earlier task writes, or list the folder itself."


def total_limit() -> int:
    """Bytes of arguments and environment together that this host takes: a quarter of its stack."""
    return max(MAX_ARGUMENT_B, min(_LARGEST_TOTAL_B, os.sysconf("SC_ARG_MAX")))


def exceeded_argument_limits(
    jobs: Iterable[Job], files: Mapping[str, File], inherited: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield problems for jobs that no kernel would start: with a too long argument or variable, or too many."""
    inherited_b = sum(_variable_size(name, value) for name, value in inherited.items()) + _OWN_VARIABLES_B
    limit = total_limit()
    paths: dict[str, str] | None = None
    shared: dict[int, tuple[int, int, Problem | None]] = {}
    for job in jobs:
        settings = job.settings
        if (known := shared.get(id(settings))) is None:
            size, problem = _environment(settings.environment, inherited)
            known = shared[id(settings)] = (size, _added_length(settings), problem)
        environment_b, added, problem = known
        if job.environment:
            own, own_problem = _environment(job.environment, inherited)
            environment_b, problem = environment_b + own, problem or own_problem
        if problem is not None:
            yield _of_job(problem, job)
            continue
        characters = added + (len(job.command) if isinstance(job.command, str) else sum(map(len, job.command)))
        names_files = bool(job.inputs or job.outputs) and "<FILE:" in str(job.command)
        if (
            characters <= _SURELY_SHORT
            and not names_files
            and environment_b + inherited_b + characters * _PER_CHARACTER < limit
        ):
            continue
        if names_files and paths is None:
            paths = {file.name: file.path for file in files.values()}
        command = full_command(substitute_files(job.command, paths or {}), settings)
        problem = _arguments(job, command, environment_b + inherited_b, limit)
        if problem is not None:
            yield problem


def _arguments(job: Job, command: Command, environment_b: int, limit: int) -> Problem | None:
    words = command_argv(command)
    sizes = [_size(word) for word in words]
    longest = max(sizes, default=0)
    if longest > MAX_ARGUMENT_B:
        is_line = isinstance(command, str) and longest == sizes[-1] and len(words) == 3
        what = (
            "the line of its command"
            if is_line
            else f"the word {quote_value(hide_secrets(words[sizes.index(longest)]))}"
        )
        way = _FILE_WAY
        if is_line and job.tasks > 1:
            what, way = f"the line of its {job.tasks:,} tasks", "Put fewer tasks into a cluster."
        elif is_line and isinstance(job.command, str):
            way = f"Give the command as a list of words, in which each file is an argument of its own. {_FILE_WAY}"
        elif is_line:
            way = f"A launcher, 'setup' and lines before or after a command make it one line. {_FILE_WAY}"
        return _problem(
            job,
            f"{what} has {longest:,} bytes, and a kernel takes {MAX_ARGUMENT_B:,} in one argument",
            way,
        )
    total = sum(sizes) + (1 + _POINTER_B) * len(words) + environment_b
    if total > limit:
        return _problem(
            job,
            f"the {len(words):,} words of its command and its environment have {total:,} bytes, and a kernel takes "
            f"{limit:,} together",
            _FILE_WAY,
        )
    return None


def _environment(environment: Mapping[str, str], inherited: Mapping[str, str]) -> tuple[int, Problem | None]:
    """Size of variables, and the problem of the first that is too long."""
    total = 0
    for name, value in substitute_inherited(environment, inherited).items():
        size = _variable_size(name, value)
        total += size
        if size - _POINTER_B - 1 > MAX_ARGUMENT_B:
            return total, Problem(
                message=f"the variable '{name}' has {size - _POINTER_B - 1:,} bytes with its name, and a kernel takes "
                f"{MAX_ARGUMENT_B:,}",
                key="environment",
                hint="Write the value into a file, and give the job the path of the file.",
                code="preparation",
            )
    return total, None


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _variable_size(name: str, value: str) -> int:
    return _size(name) + _size(value) + len("=") + len("\0") + _POINTER_B


def _added_length(settings: JobSettings) -> int:
    """Characters that settings add to a command."""
    lines = (str(settings.attributes.get(key, "")) for key in ("preCmdline", "postCmdline"))
    return len(settings.launcher) + sum(map(len, settings.setup)) + sum(map(len, lines))


def _problem(job: Job, message: str, hint: str) -> Problem:
    problem = Problem(message=message, hint=hint, key=COMMAND_KEY, code="preparation")
    return _of_job(problem, job)


def _of_job(problem: Problem, job: Job) -> Problem:
    return Problem(
        message=f"job {quote_value(job.name)} cannot start: {problem.message}",
        job=job.name,
        label=job.label,
        key=problem.key,
        hint=problem.hint,
        code=problem.code,
        jobs=1,
    )


def overlong_paths(jobs: Iterable[Job], files: Mapping[str, File], run_directory: Path) -> Iterator[Problem]:
    """Yield problems for a run directory, and for jobs with a file, that no file system has room for."""
    if fault := path_fault(str(run_directory)):
        yield Problem(
            message=f"the run directory cannot be made: {fault}",
            hint="Choose another place with 'submitPath'.",
            code="files",
        )
    overlong = {name: fault for name, file in files.items() if (fault := path_fault(file.path))}
    for job in jobs if overlong else ():
        for verb, names in (("reads", job.inputs), ("writes", job.outputs)):
            for name in names:
                if name in overlong:
                    yield Problem(
                        message=f"job {quote_value(job.name)} {verb} a file that cannot be: {overlong[name]}",
                        job=job.name,
                        label=job.label,
                        jobs=1,
                        hint="Give it a shorter name: use a short dimension, such as a number, in its path.",
                        code="files",
                    )


def path_fault(path: str) -> str:
    """What is too long in a path, with length and limit; empty if nothing is."""
    if len(path) * 4 <= MAX_NAME_B or (len(path) <= MAX_NAME_B and path.isascii()) or is_remote(path):
        return ""
    size = _size(path)
    if size > MAX_PATH_B:
        return f"the path {quote_value(path)} has {size:,} bytes, and a system takes {MAX_PATH_B:,}"
    for name in path.split("/"):
        if len(name) * 4 > MAX_NAME_B and (size := _size(name)) > MAX_NAME_B:
            return f"the name {quote_value(name)} has {size:,} bytes, and a file system takes {MAX_NAME_B:,}"
    return ""
