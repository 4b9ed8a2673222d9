"""Submission of a prepared run, first or restart: a job of DAGMan, or an unchanged run directory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.services.htcondor.rendering import context, job, rendered

from longshore.contract.service import RunPaths
from longshore.errors import SubmissionRefusedError, SubmissionUncertainError, UnreachableError
from longshore.jobs.scripts import task_record_path
from longshore.model.event import Restarted
from longshore.model.submission import RunIdentity
from longshore.model.tasks import Dag
from longshore.model.workflow import Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.run_directory import write_card
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob, to_error
from longshore.services.htcondor.submission.submit_dag import DagRestart, submit_run
from longshore.services.htcondor.submission_record import read_submissions, write_submissions
from longshore.system.atomic import create_file


class _Schedd(CondorClient):
    """A schedd that takes every DAG, in a pool with certain settings."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = {"DAGMAN_USE_STRICT": "0"} if settings is None else settings
        self.there: DagmanJob | Exception | None = None
        self.arrives: DagmanJob | Exception | None = None
        self.fails: Exception | None = None
        self.taken: list[Path] = []

    def setting(self, name: str) -> str:
        return self._settings.get(name, "")

    def expand_macros(self, text: str) -> dict[str, str]:
        return {}

    def require_answer(self) -> None:
        """It always does."""

    def find_dagman(self, constraint: str, *, since: float) -> DagmanJob | None:
        if isinstance(self.there, Exception):
            raise self.there
        return self.there

    def submit_dag(self, dag: Path, options: Mapping[str, str | int], attributes: Mapping[str, str]) -> DagmanJob:
        self.taken.append(dag)
        if self.fails:
            self.there = self.arrives
            raise self.fails
        return DagmanJob(cluster=len(self.taken), schedd="ap", global_id=f"ap#{len(self.taken)}")


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run of two jobs of several tasks, prepared."""
    found = RunPaths(tmp_path)
    found.journal.mkdir()
    found.wms.mkdir()
    workflow = Workflow("w", Dag.by_name([job("a", tasks=5), job("b", tasks=5)], [("a", "b")]))
    create_file(found.workflow, workflow_lines(workflow))
    for name, text in rendered(workflow, context()).items():
        (found.root / name).write_text(text, "utf-8")
    write_card(
        found,
        RunIdentity(
            format=1, id="k1", name="n", service="htcondor", longshore="1", created_at=0, expected=2, labels={}
        ),
    )
    return found


def again(**more: Any) -> DagRestart:
    """A restart of both jobs."""
    values: dict[str, Any] = {"steers": (), "done": (), "from_first_task": (), "overrides": {}} | more
    return DagRestart(restarted=Restarted(jobs=(0, 1), who="me"), **values)


def test_jobs_from_the_first_task_forget_done_tasks(run: RunPaths) -> None:
    records = [run.root / task_record_path(number) for number in range(2)]
    for record in records:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("1\n2\n", "utf-8")
    submit_run(run, _Schedd(), by="submit")
    submit_run(run, _Schedd(), by="restart", plan=again(from_first_task=[0]))
    assert [record.exists() for record in records] == [False, True]
    assert [handed.life.by for handed in read_submissions(run).submissions] == ["submit", "restart"]


def test_overrides_are_in_the_file_that_dagman_reads_last(run: RunPaths) -> None:
    submit_run(run, _Schedd(), by="submit")
    before = (run.wms / "overrides.dag").read_text("utf-8")
    wanted = {"j0": {"APPEND allowed_execute_duration": "3600", "mem": "5", "cpus": "2"}, "j1": {}}
    submit_run(run, _Schedd(), by="restart", plan=again(overrides=wanted))
    added = (run.wms / "overrides.dag").read_text("utf-8").removeprefix(before)
    assert added == 'VARS j0 cpus="2" mem="5"\nVARS j0 APPEND allowed_execute_duration="3600"\n'
    assert (run.wms / "backups" / "001" / "overrides.dag").read_text("utf-8") == before


@pytest.mark.parametrize(
    ("arrives", "raised"),
    [
        (DagmanJob(cluster=9, schedd="ap", global_id="ap#9"), None),
        (None, SubmissionRefusedError),
        (UnreachableError("nobody is there"), SubmissionUncertainError),
    ],
)
def test_an_uncertain_submission_is_queried(
    run: RunPaths, arrives: DagmanJob | Exception | None, raised: type[Exception] | None
) -> None:
    schedd = _Schedd()
    schedd.fails = to_error(RuntimeError("Unable to commit transaction, errno 110"), "the schedd 'ap'", "the DAG")
    schedd.arrives = arrives
    with pytest.raises(raised, match=r"transaction, errno 110|nobody is there") if raised else nullcontext():
        assert submit_run(run, schedd, by="submit").cluster == 9
    book = read_submissions(run)
    assert [handed.cluster for handed in book.submissions] == ([9] if raised is None else [])
    assert (book.pending is None) is (raised is not SubmissionUncertainError)


@pytest.mark.parametrize(
    ("pool", "own", "refused"), [("", "", True), ("1", "0", False), ("0", "2", True), ("0", "", False)]
)
def test_strictness_of_the_run_overrides_that_of_the_pool(own: str, pool: str, refused: bool, run: RunPaths) -> None:
    if own:
        with (run.wms / "dagman.conf").open("a", encoding="utf-8") as file:
            file.write(f"DAGMAN_USE_STRICT = {own}\n")
    schedd = _Schedd({"DAGMAN_USE_STRICT": pool})
    elsewhere = not run.root.is_relative_to("/tmp")
    with pytest.raises(SubmissionRefusedError, match="logs under /tmp") if refused and not elsewhere else nullcontext():
        submit_run(run, schedd, by="submit")
    assert len(schedd.taken) == (not refused or elsewhere)


def test_an_arrived_submission_is_not_repeated(run: RunPaths) -> None:
    killed = _Schedd()
    killed.fails = killed.arrives = UnreachableError("nobody is there")
    with pytest.raises(SubmissionUncertainError):
        submit_run(run, killed, by="submit")
    (run.wms / "run.dag.condor.sub").write_text("", "utf-8")
    begun = read_submissions(run)
    schedd = _Schedd()
    schedd.there = DagmanJob(cluster=9, schedd="ap", global_id="ap#9")
    assert submit_run(run, schedd, by="submit") == read_submissions(run).last_submission
    write_submissions(run, begun)
    with pytest.raises(SubmissionRefusedError, match=r"was submitted before: DAGMan is job 9\.0 of 'ap'"):
        submit_run(run, schedd, by="restart", plan=again())
    assert [handed.cluster for handed in read_submissions(run).submissions] == [9]
    assert schedd.taken == []
