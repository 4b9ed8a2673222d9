"""A run whose second submission has another workflow, with logs as HTCondor writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.services.htcondor.rendering import job, rendered

from longshore.contract.service import Context, RestartChanges, RunPaths, Site
from longshore.model.event import Event
from longshore.model.submission import RunIdentity
from longshore.model.tasks import Dag
from longshore.model.workflow import Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import MANIFESTS_SINCE, write_card
from longshore.rundir.submissions import create_manifest, hash_file, read_manifest, take_manifest, write_job_map
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JOB_STATES
from longshore.services.htcondor.control.restart import plan_restart
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob
from longshore.services.htcondor.submission.submit_dag import DagRestart, submit_run
from longshore.services.htcondor.submission_record import DagSubmission, read_submissions
from longshore.system.atomic import create_file
from longshore.system.folder import make_folders

EARLIER: Final[Mapping[str, tuple[str, ...]]] = {"a": (), "b": ("a",), "c": ()}
LATER: Final[Mapping[str, tuple[str, ...]]] = {"n": (), "a": (), "b": ("a", "n"), "d": ("b",)}
"""Parents of each job of the two workflows, which also have a final job ``f``."""
STAMP: Final = "2026-11-22 07:00:00"


class AnsweringSchedd(CondorClient):
    """A schedd that takes every DAG, or fails first."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: Exception | None = None
        self.there: DagmanJob | None = None
        self.taken: list[Path] = []

    def setting(self, name: str) -> str:
        return {"DAGMAN_USE_STRICT": "0"}.get(name, "")

    def expand_macros(self, text: str) -> dict[str, str]:
        return {}

    def require_answer(self) -> None:
        """It always does."""

    def find_dagman(self, constraint: str, *, since: float) -> DagmanJob | None:
        return self.there

    def submit_dag(self, dag: Path, options: Mapping[str, str | int], attributes: Mapping[str, str]) -> DagmanJob:
        if self.fails:
            raise self.fails
        self.taken.append(dag)
        return DagmanJob(cluster=100 * len(self.taken), schedd="ap", global_id=f"ap#{len(self.taken)}")


def make_workflow(parents: Mapping[str, Sequence[str]], *, tasks: int = 1, **more: Any) -> Workflow:
    """A workflow of jobs with a label each, and the final job."""
    edges = [(before, name) for name, these in parents.items() for before in these]
    jobs = [job(name, ("true", name), tasks=tasks, **more) for name in parents]
    return Workflow("w", Dag.by_name(jobs, edges), final=job("f", ("true", "f")))


def prepare_run(root: Path, workflow: Workflow) -> RunPaths:
    """A prepared run directory, with its manifest."""
    run = RunPaths(root)
    run.journal.mkdir(parents=True)
    run.wms.mkdir()
    create_file(run.workflow, workflow_lines(workflow))
    _write_service_files(run, run, workflow)
    card = RunIdentity(
        format=MANIFESTS_SINCE,
        id="k1",
        name="n",
        service="htcondor",
        longshore="1",
        created_at=0.0,
        expected=len(workflow),
        labels=workflow.counts(),
    )
    write_card(run, card)
    create_manifest(run, take_manifest(run, card, left_out=("wms/overrides.dag",)))
    return run


def change_workflow(run: RunPaths, workflow: Workflow, changed: Sequence[str] = ()) -> None:
    """Begin a submission with another workflow, in which the results of the `changed` jobs are void."""
    last = read_manifest(run)
    assert last is not None
    number = last.number + 1
    folder = RunPaths(run.submissions / f"{number:04}")
    make_folders(folder.wms, below=run.root)
    old, names = JobTable(run), [each.name for each in workflow]
    following = old.header.numbers or len(old)
    numbers = [
        old.file_number(old.names.index(name)) if name in old.names else following + place
        for place, name in enumerate(names)
    ]
    create_file(folder.workflow, workflow_lines(workflow, numbers=numbers, next_number=following + len(names)))
    _write_service_files(run, folder, workflow, numbers)
    pairs = {old.names.index(name): place for place, name in enumerate(names) if name in old.names}
    job_map = write_job_map(run, number, pairs, [names.index(name) for name in changed])
    below = folder.root.relative_to(run.root).as_posix()
    own = (f"{below}/workflow.jsonl", f"{below}/wms/run.dag", job_map)
    manifest = msgspec.structs.replace(
        last,
        v=2,
        number=number,
        workflow=own[0],
        job_map=job_map,
        folder=below,
        expected=len(workflow),
        labels=workflow.counts(),
        files={**last.files, **{name: hash_file(run.root / name) for name in own}},
    )
    create_manifest(run, manifest)


def _write_service_files(run: RunPaths, folder: RunPaths, workflow: Workflow, numbers: Sequence[int] = ()) -> None:
    below = folder.root.relative_to(run.root).as_posix()
    context = Context(
        settings={},
        site=Site(name="pool"),
        paths=run,
        templates={},
        run_token="k1",
        folder="" if below == "." else below,
        file_numbers=numbers,
    )
    for name, text in rendered(workflow, context).items():
        (folder.root / name).write_text(text, "utf-8")


def write_logs(folder: Path, dagman: int, ends: Mapping[str, int], *, code: int = 0, first: int = 1) -> None:
    """Write the logs of a DAGMan that is over: a cluster per node from its own plus `first` on, with an exit code."""
    text = "".join(
        f"000 ({cluster}.000.000) {STAMP} Job submitted\n    DAG Node: {node}\n...\n"
        f"001 ({cluster}.000.000) {STAMP} Job executing on host: <10.0.0.1:9618?alias=n1>\n...\n"
        f"005 ({cluster}.000.000) {STAMP} Job terminated.\n\t(1) Normal termination (return value {end})\n...\n"
        for cluster, (node, end) in enumerate(ends.items(), dagman + first)
    )
    (folder / "run.dag.nodes.log").write_text(text, "utf-8")
    (folder / "run.dag.dagman.log").write_text(
        f"001 ({dagman}.000.000) {STAMP} Job executing on host: <127.0.0.1:1>\n...\n"
        f"005 ({dagman}.000.000) {STAMP} Job terminated.\n\t(1) Normal termination (return value {code})\n...\n",
        "utf-8",
    )


def reading(run: RunPaths) -> LogEventSource:
    """A reader of the events of a run that has left the queue."""
    return LogEventSource(run, read_submissions(run), lambda: False)


def states(run: RunPaths, events: Sequence[Event] | None = None) -> dict[str, tuple[str, int]]:
    """State and number of attempts per job."""
    jobs = JobTable(run, "names", "parents")
    state = replay(jobs, list(reading(run).events()[0]) if events is None else events)
    return {
        name: (JOB_STATES[code].value, attempts)
        for name, code, attempts in zip(jobs.names, state.code, state.attempts, strict=True)
    }


def plan(run: RunPaths, changes: RestartChanges | None = None) -> DagRestart:
    """The plan of a restart after the newest submission."""
    source = reading(run)
    last = read_submissions(run).last_submission
    changes = changes or RestartChanges(has_new_workflow=True)
    return plan_restart(run, list(source.events()[0]), changes, source.job_phases(), last)


def submit(run: RunPaths, schedd: CondorClient, restart: DagRestart | None = None) -> DagSubmission:
    """Submit a run, or restart it."""
    return submit_run(run, schedd, by="restart" if restart else "submit", plan=restart)


def submitted_earlier(root: Path, schedd: CondorClient, *, tasks: int = 1) -> RunPaths:
    """A run with the earlier workflow that is over: ``b`` failed."""
    run = prepare_run(root, make_workflow(EARLIER, tasks=tasks))
    submit(run, schedd)
    nodes = {node(run, name): int(name == "b") for name in EARLIER}
    write_logs(run.wms, 100, {**nodes, "final": 0}, code=1)
    return run


def node(run: RunPaths, name: str) -> str:
    """Node of a job in the newest DAG."""
    return f"j{JobTable(run).names.index(name)}"
