"""A run goes through one list of stages, from any of its records to a later one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.progress_notes import ProgressNotes

from longshore.plan.acquire import AcquiredRun
from longshore.plan.clustering import ClusteredRun
from longshore.plan.resolved_run import ResolvedRun, resolve_run
from longshore.plan.run_plan import RunPlan
from longshore.plan.stages import Stage, StageRecord, advance_run, noting_kept_graph, run_stages
from longshore.plan.submit_once import PreparedRun
from longshore.progress import RecordingProgress
from longshore.rundir.registry import reserved_id, state_folder

TEXT = """
pipeline:
  dimensions: {visit: [1, 2]}
  tasks:
    a: {dimensions: [visit], command: "echo {visit}"}
    b: {command: "true"}
"""
RECORDS = (AcquiredRun, ClusteredRun, RunPlan, PreparedRun)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(TEXT, "utf-8")
    return tmp_path


@pytest.fixture
def run() -> ResolvedRun:
    return resolve_run(Path("run.yaml"), now=0.0, progress=ProgressNotes(), run_id="k00000")


@pytest.mark.parametrize("wanted", RECORDS)
def test_a_run_stops_at_the_wanted_record(run: ResolvedRun, wanted: type[StageRecord]) -> None:
    seen: list[StageRecord] = []
    record = advance_run(run, wanted, RecordingProgress(ProgressNotes()), lambda each, _: seen.append(each))  # type: ignore[type-var]
    assert [type(each) for each in seen] == list(RECORDS[: RECORDS.index(wanted) + 1])
    assert record is seen[-1]
    assert run.paths.root.exists() is (wanted is PreparedRun)


def test_a_run_goes_on_from_any_record(run: ResolvedRun) -> None:
    progress = RecordingProgress(ProgressNotes())
    clustered = advance_run(run, ClusteredRun, progress)
    plan = advance_run(clustered, RunPlan, progress)
    assert advance_run(plan, RunPlan, progress) is plan
    assert advance_run(plan, PreparedRun, progress).card.expected == 3
    with pytest.raises(AttributeError):
        clustered.run = run  # type: ignore[misc]


@pytest.mark.parametrize("last", [Stage.ACQUIRE, Stage.CLUSTER, Stage.TRANSFORM, Stage.PREPARE])
def test_a_command_says_what_each_stage_made(last: Stage) -> None:
    results, folder = run_stages(Path("run.yaml"), last, progress=ProgressNotes())
    assert [each.stage for each in results] == list(Stage)[: list(Stage).index(last) + 1]
    assert results[0].counts["tasks"] == 3
    assert results[-1].labels == {"a": 2, "b": 1}
    assert all(each.seconds > 0 and each.peak_memory_b > 0 for each in results)
    assert (folder is not None) is (last is Stage.PREPARE)


def test_a_failure_tells_of_a_graph_that_stays(run: ResolvedRun) -> None:
    told = ProgressNotes()
    acquired = advance_run(run, AcquiredRun, RecordingProgress(told))
    made = replace(acquired, payload=replace(acquired.payload, kept_files=("run.qg",)))
    clustered = replace(advance_run(acquired, ClusteredRun, RecordingProgress(told)), payload=made.payload)
    plan = replace(advance_run(acquired, RunPlan, RecordingProgress(told)), kept_files=("run.qg",))
    for record in (acquired, made, clustered, plan):
        with pytest.raises(KeyboardInterrupt), noting_kept_graph(record, told):
            raise KeyboardInterrupt
    assert told.notes == [told.notes[0]] * 3
    assert f"'--qgraph {run.paths.root}/run.qg'" in told.notes[0]


def test_an_id_is_forgotten_when_no_run_is_prepared() -> None:
    seen: list[bool] = []

    def prepare() -> None:
        with reserved_id() as (run_id, _):
            seen.append(any(run_id in path.name for path in state_folder().rglob("*")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare()
    assert seen == [True]
    assert not list((state_folder() / "runs").rglob("*"))
