"""Checks of a workflow whose files are staged, before a run is written."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from longshore.contract.service import Context, Problem
from longshore.engine.staging.stage_command import is_recorded
from longshore.errors import PreparationError
from longshore.jobs.commands import command_program, shell_program
from longshore.jobs.stage_table import ScratchLayout, stage_table
from longshore.model.tasks import File, is_pattern, is_remote
from longshore.model.wording import count_noun
from longshore.model.workflow import Job, StagingRules
from longshore.system.reading import can_see

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

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
