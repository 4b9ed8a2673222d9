"""Turns a workflow into the files with which its jobs can be run by hand, without Longshore."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from longshore.contract.context import Context, RenderedFile, RunPaths
from longshore.model.job import Job
from longshore.plan.allotment import thread_variables
from longshore.plan.commands import as_assignment, as_line, in_full, job_variables, with_files

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

TABLE = PurePosixPath("wms", "jobs.tsv")
RUNNER = PurePosixPath("wms", "run-job")
WRAPPER = PurePosixPath("wms", "longshore-job")


def by_hand(workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
    """The table of jobs, and a program that runs one of them."""
    yield RenderedFile(path=TABLE, chunks=lambda: table(workflow, ctx))
    for path in (RUNNER, WRAPPER):
        yield RenderedFile(path=path, mode=0o755, chunks=partial(_text, ctx.templates[path.name]))


def _text(text: str) -> Iterator[str]:
    yield text


def table(workflow: Workflow, ctx: Context) -> Iterator[str]:
    """One line per job, as ``longshore-job`` reads it."""
    paths = {name: file.path for name, file in workflow.files.items()}
    for number, job in enumerate(workflow):
        command = in_full(with_files(job.command, paths), job.settings)
        placed = msgspec.structs.replace(job, command=command)
        yield "\t".join(map(_one_line, _fields(number, placed, ctx.paths))) + "\n"


def _fields(number: int, job: Job, paths: RunPaths) -> tuple[str, ...]:
    run_dir = str(paths.root)
    variables = job_variables(name=job.name, label=job.label, attempt=1, request=job.settings.request, run_dir=run_dir)
    threads = thread_variables(job.settings.request.cpus) if job.settings.limit_threads else {}
    environment = {**threads, **job.settings.environment, **job.environment}
    # What is the job's own is known here; what it inherits is known where it runs.
    words = [as_assignment(name, value, variables) for name, value in environment.items() if name not in variables]
    words += (shlex.quote(f"{name}={value}") for name, value in variables.items())
    folder = job.settings.working_directory or run_dir
    log = str(paths.root / paths.log_of(number, job.name, job.label, 1))
    return (str(number), job.name, "1", folder, log, " ".join(words), as_line(job.command))


def _one_line(field: str) -> str:
    # Tabs and line feeds inside a quoted word are what keeps a table from being one; printf in the runner undoes it.
    return field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
