"""Rendering of a workflow as a table and a script, so that users can run its jobs by hand, without Longshore."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from longshore.contract.service import Context, RenderedFile
from longshore.engine.job_wrapper import wrapper_file
from longshore.jobs.commands import (
    attempt_log_path,
    fill_attempt,
    fill_command_attempt,
    full_command,
    job_variables,
    shell_assignment,
    shell_line,
    substitute_files,
    thread_variables,
)
from longshore.model.workflow import Job

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

TABLE = PurePosixPath("wms", "jobs.tsv")
RUNNER = PurePosixPath("wms", "run-job")
_NAME: Final = "LONGSHORE_JOB_NAME"


def render_files(workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
    """Render the table of jobs, and the program that runs one of them."""
    yield RenderedFile(path=TABLE, chunks=lambda: table(workflow, ctx))
    yield RenderedFile.from_text(RUNNER, ctx.templates[RUNNER.name], mode=0o755)
    yield wrapper_file(ctx)


def table(workflow: Workflow, ctx: Context) -> Iterator[str]:
    """Render one line per job, as ``longshore-job`` reads it."""
    paths = {name: file.path for name, file in workflow.files.items()}
    run_dir = str(ctx.paths.root)
    folders = f"{run_dir.removesuffix('/')}/"
    shared: dict[tuple[int, str], _Surroundings] = {}
    for number, job in enumerate(workflow):
        # Jobs of one profile share their settings, and with these nearly all of their lines.
        key = id(job.settings), job.label
        surroundings = shared.get(key)
        if surroundings is None:
            surroundings = shared[key] = _surroundings(job, run_dir)
        around_name = None if job.environment else surroundings.around_name
        before, after = around_name or _around_name(job, run_dir)
        command = substitute_files(job.command, paths)
        if not surroundings.has_plain_commands:
            command = full_command(command, job.settings)
        command = fill_command_attempt(command, 0)
        log = folders + attempt_log_path(workflow.log_folders, number, job.name, job.label, 1, tags=job.tags)
        own = f"{_NAME}={job.name}"
        # Nearly all names are such, and need no quotation marks.
        is_plain = job.name.isascii() and job.name.isidentifier()
        fields = job.name, log, own if is_plain else shlex.quote(own), shell_line(command)
        # Nearly all are as they are, and one look is enough for all four.
        name, log, own, line = fields if _is_one_line("".join(fields)) else map(_one_line, fields)
        yield f"{number}\t{name}\t1\t{surroundings.folder}\t{log}\t{before}{own}{after}\t{line}\n"


class _Surroundings(NamedTuple):
    """The parts of the table that jobs of the same settings share.

    `folder` is their working directory. `has_plain_commands` tells that nothing precedes or follows their commands.
    `around_name` holds the variables before and after the one with the job's name;
    ``None`` where other variables depend on the job too.
    """

    folder: str
    has_plain_commands: bool
    around_name: tuple[str, str] | None


def _surroundings(job: Job, run_dir: str) -> _Surroundings:
    settings = job.settings
    is_shared = not any(_NAME in value for value in settings.environment.values())
    folder = _one_line(settings.working_directory or run_dir)
    plain = msgspec.structs.replace(job, environment={})
    has_plain_commands = full_command("true", settings) == "true"
    return _Surroundings(folder, has_plain_commands, _around_name(plain, run_dir) if is_shared else None)


def _around_name(job: Job, run_dir: str) -> tuple[str, str]:
    """Return a job's variables as shell words: those before and those after the one with its name."""
    variables = job_variables(name=job.name, label=job.label, attempt=1, request=job.settings.request, run_dir=run_dir)
    threads = thread_variables(job.settings.request.cpus) if job.settings.limit_threads else {}
    environment = {**threads, **job.settings.environment, **job.environment}
    # The job's own variables are known here; inherited ones are known where it runs.
    before = [
        shell_assignment(name, fill_attempt(value, 0), variables)
        for name, value in environment.items()
        if name not in variables
    ]
    after = [shlex.quote(f"{name}={value}") for name, value in variables.items() if name != _NAME]
    return "".join(f"{_one_line(word)} " for word in before), "".join(f" {_one_line(word)}" for word in after)


def _is_one_line(text: str) -> bool:
    return not ("\\" in text or "\t" in text or "\n" in text)


def _one_line(field: str) -> str:
    # Tabs and line feeds inside a quoted word are what keeps a table from being one; printf in the runner undoes it.
    return field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
