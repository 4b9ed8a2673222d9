"""Checks of a run's jobs before it is written or submitted: requests, files, commands, labels; all problems at once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Final

import msgspec

from longshore.app.configure.lint import find_keys_unused_by_payload, sort_findings
from longshore.app.configure.payload_names import find_payload_names
from longshore.app.configure.probe import probe_jobs
from longshore.app.configure.resolved_run import ResolvedRun, note_warnings
from longshore.app.plan.problems import MAX_LISTED, drop_consequences, group_problems, merge_labels, raise_problems
from longshore.app.plan.profiles import capped_memory_notes, exceeded_site_limits
from longshore.app.plan.programs import COMMAND_KEY, JobProgram, job_programs, missing_programs
from longshore.app.plan.system_limits import exceeded_argument_limits, overlong_paths
from longshore.app.progress import Progress
from longshore.config.combine import ClusterProfile
from longshore.config.command_lines import ShellLine
from longshore.config.lint import find_ineffective_sections, find_unmatched_sections
from longshore.config.merge import Node
from longshore.config.templates import Quotation
from longshore.contract.service import Problem, RunPaths, file_name
from longshore.engine.rundir.job_table import JobTable
from longshore.model.file_identity import external_files, same_files
from longshore.model.tasks import ClusteredGraph, Composition, File
from longshore.model.workflow import Job, Workflow

_LISTING_THRESHOLD: Final = 32
"""Files per folder above which one listing is faster than a query each, and loads the file server less."""

_SAFE_NAME_LENGTH: Final = 50
"""Length of names that is safe for file names with any characters."""


def check_jobs(
    run: ResolvedRun,
    workflow: Workflow,
    progress: Progress,
    *,
    commands: Mapping[str, Node] = MappingProxyType({}),
    has_one_path_per_file: bool = False,
) -> Sequence[JobProgram]:
    """Refuse jobs that can never run, print notes about doubtful ones, and return the programs that jobs start.

    `commands` are the payload's commands per label. `has_one_path_per_file` spares to look
    for two. Raises `RequestError` or `FilesError` if all problems are requests or files, else `PreparationError`.
    """
    jobs = list(workflow)
    # A pipeline's reader found its missing inputs, and named their place.
    inputs = () if run.static and run.static.seen else _missing_inputs(jobs, workflow.files)
    programs = job_programs(jobs, run.configuration)
    missing = chain(missing_programs(programs, workflow.files, run.configuration, run.file_identity()), inputs)
    same = {} if has_one_path_per_file else same_files(workflow.files, run.file_identity())
    problems: Iterator[Problem] = chain(
        _find_problems(run, workflow, jobs),
        _output_conflicts(jobs, workflow.files, same),
        exceeded_argument_limits(jobs, workflow.files, run.configuration.env),
        overlong_paths(jobs, workflow.files, run.paths.root),
    )
    if run.static is not None:
        # Another machine may have these files.
        seen = group_problems(missing, workflow)
        run.static.seen.extend(merge_labels(_add_origin(problem, run, commands) for problem in seen))
    else:
        problems = chain(problems, missing if run.service.traits.runs_on_submit_host else map(_as_seen_here, missing))
    found = group_problems(drop_consequences(problems, workflow), workflow)
    raise_problems(merge_labels(_add_origin(problem, run, commands) for problem in found), progress)
    return programs


def check_commands(
    clustered: ClusteredGraph, profiles: Mapping[Composition, ClusterProfile], progress: Progress
) -> None:
    """Refuse jobs without a command, before any job is made; raises `PreparationError`."""
    if all(part.command is not None for profile in profiles.values() for part in profile.parts.values()):
        return
    count: Counter[str] = Counter()
    first: dict[str, str] = {}
    for cluster, kind in zip(clustered.dag.nodes, clustered.compositions, strict=True):
        parts = profiles[kind].parts
        for task in cluster.tasks:
            if task.command is None and parts[task.label].command is None:
                count[task.label] += 1
                first.setdefault(task.label, task.name)
    raise_problems((_missing_command(label, name, count[label]) for label, name in first.items()), progress)


def note_unknown_quotations(
    run: ResolvedRun, profiles: Mapping[Composition, ClusterProfile], progress: Progress
) -> None:
    """Print a note per command with a value in unknown quotation marks, or add it to a static check."""
    lines = {
        label: part.command
        for profile in profiles.values()
        for label, part in profile.parts.items()
        if isinstance(part.command, ShellLine)
    }
    for label, line in lines.items():
        for name in dict.fromkeys(line.names_in(Quotation.UNKNOWN)):
            message = f"in the command of '{label}', the quotation marks around '{{{name}}}' are not known"
            way_out = f"Begin the command with 'value={{{name}}}', and use \"$value\"."
            hint = f"A value with a blank may be wrong there. {way_out}"
            if run.static is None:
                progress.note(f"{message}. {hint}")
            else:
                run.static.notes.append(Problem(message=message, hint=hint, origin=line.origin, fatal=False))


def note_unmatched_labels(run: ResolvedRun, clustered: ClusteredGraph, progress: Progress) -> None:
    """Print a note for keys and sections without tasks or effect, if the payload was needed to know."""
    configuration = run.configuration
    found = find_keys_unused_by_payload(configuration)
    if find_payload_names(configuration, files=False).labels is None:
        root = configuration.config.root
        labels = frozenset(task.label for task in clustered.source.dag.nodes)
        unknown = chain(find_unmatched_sections(root, None), find_ineffective_sections(root, payload_read=False))
        known = chain(find_unmatched_sections(root, labels), find_ineffective_sections(root, payload_read=True))
        before = {finding.message for finding in unknown}
        found += [finding for finding in known if finding.message not in before]
    if run.static is not None:
        run.static.findings.extend(sort_findings(found, configuration))
    else:
        note_warnings(sort_findings(found, configuration), progress)


def find_missing_inputs(run: RunPaths) -> Iterator[Problem]:
    """Yield missing input files of a prepared run that no job makes; the first few of many.

    Raises `RunUnreadableError` if the workflow is damaged.
    """
    jobs = JobTable(run)
    files = {file.name: file for file in jobs.files()}
    produced = {name for names in jobs.outputs for name in names} if files else set()
    external = external_files(files, produced)
    missing = sorted(external[name] for name in _missing_names(external))
    for number, path in enumerate(missing[:MAX_LISTED], 1):
        more = (
            f" (and {len(missing) - number:,} more like it)" if number == MAX_LISTED and len(missing) > number else ""
        )
        yield Problem(message=f"its input '{path}' is not there any more{more}")


def _find_problems(run: ResolvedRun, workflow: Workflow, jobs: Sequence[Job]) -> Iterator[Problem]:
    # A limit has a place in a file, and so precedes what else a request exceeds.
    yield from exceeded_site_limits(run, workflow)
    yield from run.service.check(workflow, run.context)
    yield from probe_jobs(run.service, workflow.samples, run.context)
    yield from capped_memory_notes(workflow)
    yield from _log_conflicts(jobs, workflow)


def _as_seen_here(problem: Problem) -> Problem:
    """Return a missing file as a note: the hosts of the jobs may have it."""
    return msgspec.structs.replace(problem, message=f"{problem.message}, as seen from this host", fatal=False)


def _add_origin(problem: Problem, run: ResolvedRun, commands: Mapping[str, Node]) -> Problem:
    """Return a problem with the origin of the value it is about."""
    if problem.origin or not (problem.key and problem.label):
        return problem
    origin = run.configuration.user_origin(problem.key, problem.label)
    if origin is None and problem.key == COMMAND_KEY and problem.label in commands:
        # A pipeline uses another key for it.
        hint = problem.hint.replace(f"'{COMMAND_KEY}'", "'command'")
        return msgspec.structs.replace(problem, origin=commands[problem.label].origin, hint=hint)
    return msgspec.structs.replace(problem, origin=origin)


def _missing_command(label: str, task: str, tasks: int) -> Problem:
    others = f" (nor do {tasks - 1:,} more of the label '{label}')" if tasks > 1 else ""
    return Problem(
        message=f"task '{task}' has no command{others}",
        hint=f"Give one to all its kind: pipetask: {{{label}: {{runQuantumCommand: ...}}}}.",
        code="preparation",
        label=label,
        jobs=tasks,
    )


def _log_conflicts(jobs: Sequence[Job], workflow: Workflow) -> Iterator[Problem]:
    """Yield problems for jobs with different names but equal log paths."""
    for job in jobs:
        # Nearly all names are valid file names.
        if "/" not in job.name and "\0" not in job.name and len(job.name) <= _SAFE_NAME_LENGTH:
            continue
        name = file_name(job.name)
        other = workflow.get(name)
        if name != job.name and other is not None and other.label == job.label:
            yield Problem(
                message=f"the jobs '{name}' and '{job.name}' would write one log",
                job=job.name,
                jobs=1,
                hint="In the name of a file '/' is '_': name them otherwise.",
                code="preparation",
            )


def _output_conflicts(jobs: Sequence[Job], files: Mapping[str, File], same: Mapping[str, str]) -> Iterator[Problem]:
    """Yield problems for files written by two jobs, unless the second one updates its input.

    `same` has the name of the file by those of others of its path.
    """
    writers: dict[str, str] = {}
    for job in jobs:
        for name in job.outputs:
            file = same.get(name, name) if same else name
            first = writers.setdefault(file, job.name)
            if first != job.name and name not in job.inputs:
                yield Problem(
                    message=f"the jobs '{first}' and '{job.name}' both write the file '{files[file].path}'",
                    job=job.name,
                    jobs=1,
                    hint="Give what each writes a path of its own.",
                    code="files",
                )


def _missing_inputs(jobs: Sequence[Job], files: Mapping[str, File]) -> Iterator[Problem]:
    """Yield problems for missing input files that no job makes."""
    produced = {name for job in jobs for name in job.outputs}
    external = external_files(files, produced)
    missing = _missing_names(external)
    for job in jobs if missing else ():
        for name in job.inputs:
            if name in missing:
                yield Problem(
                    message=f"job '{job.name}' reads '{external[name]}', which is not there and which no job makes",
                    job=job.name,
                    jobs=1,
                    hint="Put it there, or correct what names it.",
                    code="files",
                )


def _missing_names(paths: Mapping[str, str]) -> set[str]:
    """Return the names of files that do not exist."""
    folders: dict[str, list[str]] = {}
    for name, path in paths.items():
        folders.setdefault(path.rpartition("/")[0], []).append(name)
    missing = set()
    for folder, names in folders.items():
        listing: set[str] | None = None
        if len(names) > _LISTING_THRESHOLD:
            with suppress(OSError):
                listing = set(os.listdir(folder or "/"))
        for name in names:
            path = paths[name]
            # A listed name may be a broken link; that is rare, and the job will report it.
            is_there = path.rpartition("/")[2] in listing if listing is not None else os.path.exists(path)  # noqa: PTH110
            if not is_there:
                missing.add(name)
    return missing
