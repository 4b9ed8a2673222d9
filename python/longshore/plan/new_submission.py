"""Writes a submission with a changed workflow into a run directory: a folder of its own, and last its manifest.

Nothing that an earlier submission relies on is touched. The manifest comes last and is written at once, so the run has
either the old workflow or the new one, whenever this process dies. The reason is in decision 0081.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import msgspec
from msgspec.structs import replace

from longshore.config.secret_values import find_secret_values, keep_private
from longshore.contract.service import RUN_FOLDER, RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.model.submission import MANIFEST_FORMAT, Manifest
from longshore.model.tasks import Command
from longshore.model.workflow_lines import workflow_lines
from longshore.plan.match_run import WorkflowMatch
from longshore.plan.run_plan import RunPlan
from longshore.plan.write_run import make_output_folder, write_notice_rules, write_service_files, write_sources
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_made_from
from longshore.rundir.submissions import (
    create_manifest,
    hash_file,
    newest_submission,
    refuse_changed_files,
    submission_paths,
    write_job_map,
)
from longshore.runstate.open_run import OpenRun
from longshore.system.atomic import copy_file, create_file, make_executable
from longshore.system.folder import make_folders, remove_tree, sync_names, sync_tree
from longshore.system.reading import have_same_content
from longshore.system.room import apply_umask


def next_folder(run: RunPaths) -> Path:
    """Return the folder of the next submission with a changed workflow."""
    number, _ = newest_submission(run)
    return run.submissions / f"{number + 1:04}"


def write_submission(opened: OpenRun, plan: RunPlan, match: WorkflowMatch) -> Manifest:
    """Write the next submission of a run, with another workflow, and return its manifest.

    Raises `SubmissionRefusedError` if a file of the run changed, or an older Longshore prepared it.
    """
    run = opened.run
    last = refuse_changed_files(run)
    made_from = read_made_from(submission_paths(run))
    if last is None or made_from is None:
        raise SubmissionRefusedError(
            f"'{run.root}' was prepared by an older Longshore, which cannot have another workflow",
            hint="Run it as it was with --as-it-was, or submit its configuration as a new run.",
        )
    folder = next_folder(run)
    draft = RunPaths(folder)
    plan = _move_changed_files(run, plan, folder)
    configuration = plan.run.configuration
    with apply_umask(configuration.resolved_site.umask), chdir(made_from.folder):
        if not plan.kept_files:
            # What is left of a restart that was killed before it wrote the manifest.
            remove_tree(folder, below=run.root)
        make_folders(folder, below=run.root)
        with keep_private(draft, find_secret_values(configuration.all_layers, configuration.env)):
            write_sources(draft, plan)
            write_notice_rules(draft, plan)
            left_out = _write_workflow(opened, draft, plan, match)
        sync_tree(folder)
        sync_names(folder)
        manifest = _manifest(run, last, plan, folder, left_out=left_out)
        create_manifest(run, manifest)
    return manifest


def _write_workflow(opened: OpenRun, draft: RunPaths, plan: RunPlan, match: WorkflowMatch) -> set[str]:
    """Write the workflow, its job map and the service's files; return the names of those that the service changes."""
    run = opened.run
    numbers, next_number = _file_numbers(JobTable(run, "numbers"), match)
    create_file(draft.workflow, workflow_lines(plan.workflow, numbers=numbers, next_number=next_number), below=run.root)
    write_job_map(run, int(draft.root.name), match.pairs, match.changed)
    for directory in plan.directories:
        make_output_folder(run.root / directory, run.root)
    for name, text in plan.programs.items():
        path = draft.root / name
        make_folders(path.parent, below=run.root)
        create_file(path, [text.encode()], below=run.root)
    for name, source in plan.copies.items():
        copy_file(source, draft.root / name, below=run.root)
        if name in plan.executables:
            make_executable(draft.root / name, below=run.root)
    below = draft.root.relative_to(run.root).as_posix()
    context = msgspec.structs.replace(plan.run.context, folder=below, file_numbers=numbers)
    plan = replace(plan, run=replace(plan.run, context=context))
    return write_service_files(draft, plan, opened.card.run_token)


def _file_numbers(jobs: JobTable, match: WorkflowMatch) -> tuple[list[int], int]:
    """Return the file number per job, and the next free one: jobs keep theirs, new jobs get numbers never used."""
    following = jobs.header.numbers or len(jobs)
    numbers: list[int] = []
    for each in match.jobs:
        if each.earlier is None:
            numbers.append(following)
            following += 1
        else:
            numbers.append(jobs.file_number(each.earlier))
    return numbers, following


def _move_changed_files(run: RunPaths, plan: RunPlan, folder: Path) -> RunPlan:
    """Return the plan with the programs and copies that changed in the folder of the submission; the others stay."""
    programs = {name: text for name, text in plan.programs.items() if _content(run.root / name) != text.encode()}
    copies = {name: path for name, path in plan.copies.items() if not have_same_content(run.root / name, path)}
    plan = replace(plan, programs=programs, copies=copies)
    if not programs and not copies:
        return plan
    below = folder.relative_to(run.root).as_posix()
    paths = [(f"{RUN_FOLDER}/{name}", f"{RUN_FOLDER}/{below}/{name}") for name in (*programs, *copies)]

    def rename(command: Command) -> Command:
        if isinstance(command, str):
            return _replace_all(command, paths)
        return tuple(_replace_all(word, paths) for word in command)

    files = {
        name: msgspec.structs.replace(file, path=f"{below}/{file.path}") if file.path in copies else file
        for name, file in plan.workflow.files.items()
    }
    return replace(plan, workflow=plan.workflow.with_commands(rename).with_files(files))


def _replace_all(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for before, after in pairs:
        text = text.replace(before, after)
    return text


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _manifest(run: RunPaths, last: Manifest, plan: RunPlan, folder: Path, *, left_out: set[str]) -> Manifest:
    """Return the manifest: the files of all earlier submissions, whose events stay, and those of this one.

    Copies that are no programs are listed as inputs, which jobs may change.
    """
    below = folder.relative_to(run.root).as_posix()
    own = {
        path.relative_to(run.root).as_posix(): hash_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).as_posix() not in left_out
    }
    copied = {f"{below}/{name}": own.pop(f"{below}/{name}") for name in plan.copies.keys() - plan.executables}
    return msgspec.structs.replace(
        last,
        v=MANIFEST_FORMAT,
        number=int(folder.name),
        workflow=f"{below}/workflow.jsonl",
        job_map=f"{below}/jobs.json",
        folder=below,
        expected=len(plan.workflow),
        labels=plan.workflow.counts(),
        files={**last.files, **own},
        inputs={name: hash_file(run.root / name) for name in last.inputs if (run.root / name).is_file()} | copied,
    )
