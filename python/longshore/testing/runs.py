"""Run directories for tests of engines and plug-ins, written as ``longshore prepare`` writes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longshore import __version__
from longshore.contract.service import Context, RenderedFile, RunPaths, Site
from longshore.engine import settings as engine_settings
from longshore.model.event import FORMAT, Life
from longshore.model.submission import MANIFEST_FORMAT, Manifest, RunIdentity
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.journal import Journal
from longshore.rundir.run_directory import RUN_FORMAT, create_run_directory, write_card, write_rendered
from longshore.rundir.submissions import create_manifest, take_manifest, write_job_map
from longshore.system.atomic import create_file
from longshore.system.folder import make_folders
from longshore.system.host import boot_id, host_name


def write_run_directory(
    root: Path,
    workflow: Workflow,
    identity: RunIdentity,
    files: Iterable[RenderedFile],
    *,
    folders: Iterable[str] = (),
) -> RunPaths:
    """Write a run directory with the files that a service rendered."""
    with create_run_directory(root) as draft:
        create_file(draft.workflow, workflow_lines(workflow), below=draft.root)
        make_folders(draft.journal, below=draft.root)
        for folder in folders:
            make_folders(draft.root / folder, below=draft.root)
        rendered = write_rendered(draft, files)
        write_card(draft, identity, durable=False)
        mutable = {str(file.path) for file in rendered if file.is_mutable}
        create_manifest(draft, take_manifest(draft, identity, left_out=mutable))
    return RunPaths(root)


def new_identity(workflow: Workflow, *, run_id: str, service: str, created_at: float = 0.0) -> RunIdentity:
    """Return the identity of a run that was not submitted."""
    return RunIdentity(
        format=RUN_FORMAT,
        id=run_id,
        name=workflow.name,
        service=service,
        longshore=__version__,
        created_at=created_at,
        expected=len(workflow),
        labels=workflow.counts(),
    )


def write_run(
    root: Path,
    parents: Mapping[str, Sequence[str]],
    *,
    final: str | None = None,
    profiles: Mapping[str, Mapping[str, Any]] | None = None,
    engine: Mapping[str, Any] | None = None,
) -> RunPaths:
    """Write a run directory, as preparing a run does.

    Parameters
    ----------
    root
        Path of the directory to make.
    parents
        Names of the parents per job. A job's label is its name up to the first ``_``.
    final
        Name of the final job, if there is to be one.
    profiles
        Fields of `JobSettings` per label.
    engine
        Fields of `EngineSettings`.
    """
    shared: dict[str, JobSettings] = {}

    def job(name: str) -> Job:
        label = name.partition("_")[0]
        if label not in shared:
            shared[label] = JobSettings(label=label, **(profiles or {}).get(label, {}))
        return Job(name=name, label=label, command=("true",), settings=shared[label])

    workflow = Workflow(
        root.name,
        Dag.by_name(map(job, parents), [(parent, child) for child, these in parents.items() for parent in these]),
        final=job(final) if final else None,
    )
    ctx = Context(settings=engine or {}, site=Site(name="fake"), paths=RunPaths(root), templates={})
    identity = new_identity(workflow, run_id="fake1", service="fake")
    return write_run_directory(root, workflow, identity, [engine_settings.render_settings(ctx)])


def begin_changed_workflow(run: RunPaths, life: int) -> None:
    """Begin a submission in which jobs have other numbers, after some lives that `life` is the last of."""
    make_folders(run.journal, below=run.root)
    for number in range(1, life + 1):
        begun = Life(v=FORMAT, life=number, t=0.0, host=host_name(), pid=os.getpid(), boot=boot_id(), by="submit", s=1)
        Journal(run.journal, begun).close()
    for number in (1, 2):
        job_map = write_job_map(run, number, {}) if number == 2 else None
        manifest = Manifest(
            v=MANIFEST_FORMAT, number=number, run="", card="", workflow=run.workflow.name, job_map=job_map, files={}
        )
        create_manifest(run, manifest)
