"""What is wrong with the jobs of a run is found before anything is written, all of it at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.progress_notes import ProgressNotes

from longshore.errors import FilesError, LongshoreError, PreparationError
from longshore.model.tasks import Cluster, ClusteredGraph, Dag, File, Task, TaskGraph
from longshore.model.workflow import Job, JobSettings, Request, Workflow
from longshore.plan.checks import check_commands, check_jobs
from longshore.plan.profiles import ProfileCompiler
from longshore.plan.resolved_run import ResolvedRun, resolve_run
from longshore.plan.stages import Stage, run_stages

SETTINGS = JobSettings(label="a", request=Request(cpus=1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begun(folder: Path, text: str = "runQuantumCommand: 'true'\n") -> ResolvedRun:
    (folder / "run.yaml").write_text(text, "utf-8")
    return resolve_run(Path("run.yaml"), now=0.0, progress=ProgressNotes())


def job(name: str, *, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> Job:
    return Job(name=name, label="a", command=("true",), settings=SETTINGS, inputs=reads, outputs=writes)


def wrong(begun: ResolvedRun, *jobs: Job, files: Mapping[str, str] | None = None) -> list[str]:
    named = {name: File(name=name, path=path) for name, path in (files or {}).items()}
    try:
        check_jobs(begun, Workflow("w", Dag.by_name(jobs), files=named), ProgressNotes())
    except LongshoreError as error:
        return [fault.message for fault in error.details]
    return []


def test_nothing_is_wrong(folder: Path) -> None:
    assert not wrong(begun(folder), job("a1", writes=("x",)), job("a2", reads=("x",)), files={"x": "out/x"})


def test_two_jobs_write_one_file(folder: Path) -> None:
    jobs = [job("a1", writes=("x",)), job("a2", writes=("y",)), job("a3", writes=("z",))]
    assert wrong(begun(folder), *jobs, files={"x": "/d/x", "y": "/d/./x", "z": "/d/z"}) == [
        "the jobs 'a1' and 'a2' both write the file '/d/x'"
    ]


def test_a_job_may_bring_up_to_date_what_it_reads(folder: Path) -> None:
    jobs = [job("a1", writes=("x",)), job("a2", reads=("x",), writes=("x",))]
    assert not wrong(begun(folder), *jobs, files={"x": "x"})


@pytest.mark.parametrize("number", [3, 100])
def test_inputs_that_are_not_there(folder: Path, number: int) -> None:
    files = {f"f{n}": f"{folder}/in/f{n}" for n in range(number)}
    (folder / "in").mkdir()
    for name in files:
        (folder / "in" / name).write_text("", "utf-8")
    jobs = [job(f"a{n}", reads=(f"f{n}",)) for n in range(number)]
    assert not wrong(begun(folder), *jobs, files=files)
    (folder / "in" / "f1").unlink()
    assert wrong(begun(folder), *jobs, files=files) == [
        f"job 'a1' reads '{folder}/in/f1', which is not there and which no job makes"
    ]


def test_inputs_of_the_run_directory_are_there_when_it_is(folder: Path) -> None:
    assert not wrong(begun(folder), job("a1", reads=("f",)), files={"f": "data/f"})


def test_a_folder_of_inputs_that_is_not_there_at_all(folder: Path) -> None:
    files = {f"f{n}": f"{folder}/in/f{n}" for n in range(100)}
    found = wrong(begun(folder), *(job(f"a{n}", reads=(f"f{n}",)) for n in range(100)), files=files)
    assert len(found) == 3
    assert found[-1].endswith(" (and 97 more like it)")


def test_names_that_would_share_a_log(folder: Path) -> None:
    assert wrong(begun(folder), job("x/1"), job("x_1"), job("x/2")) == ["the jobs 'x_1' and 'x/1' would write one log"]


def test_all_is_told_at_once_and_each_with_its_place(folder: Path) -> None:
    text = """
wfformat: graph.json
pipetask:
  A: {requestCpus: 1000000}
  B: {runQuantumCommand: no-such-program}
  C: {runQuantumCommand: ./missing, workingDirectory: /nowhere}
  Bee: {requestMemory: 1}
runQuantumCommand: 'true'
"""
    begun(folder, text)
    labels = ["A", *["B"] * 1000, "C"]
    tasks = [{"name": label, "id": f"{label.lower()}{n}"} for n, label in enumerate(labels)]
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}}
    (folder / "graph.json").write_text(json.dumps(graph), "utf-8")
    told = ProgressNotes()
    with pytest.raises(PreparationError) as caught:
        run_stages(Path("run.yaml"), Stage.PREPARE, progress=told)
    error = caught.value
    found = [(str(each.origin), each.code, each.label, each.jobs) for each in error.details]
    assert found == [
        ("run.yaml:4:20", "request", "A", 1),
        ("run.yaml:5:26", "files", "B", 1000),
        ("run.yaml:6:55", "files", "C", 1),
    ]
    assert error.code == "preparation"
    assert "job 'b1' runs 'no-such-program', which is not on the PATH (and 999 more jobs" in error.details[1].message
    assert [note for note in told.notes if "'Bee'" in note] == [
        "run.yaml:7:3: 'pipetask.Bee' matches nothing: no task has the label 'Bee'. Labels are 'A', 'B', 'C'."
    ]
    assert not list(folder.glob("submit*"))


def test_a_command_of_a_pipeline_has_its_place(folder: Path) -> None:
    begun(folder, "pipeline:\n  tasks:\n    a: {command: nosuch x}\n    b: {command: ./gone}\n")
    with pytest.raises(FilesError) as caught:
        run_stages(Path("run.yaml"), Stage.PREPARE, progress=ProgressNotes())
    assert [str(each.origin) for each in caught.value.details] == ["run.yaml:3:18", "run.yaml:4:18"]
    assert "Correct 'command', or begin it with 'sh -c'" in caught.value.details[0].hint


def clustered(*tasks: Task) -> ClusteredGraph:
    clusters = [Cluster(name=task.name, label=task.label, tasks=(task,)) for task in tasks]
    return ClusteredGraph(name="w", dag=Dag(clusters, []), source=TaskGraph(name="w", dag=Dag(tasks, [])))


def test_labels_without_a_command_are_told_all_at_once(folder: Path) -> None:
    run = begun(folder, "payload: {payloadName: w}\npipetask: {c: {runQuantumCommand: run c}}\n")
    kinds = [("a", None), ("b", None), ("c", None), ("b", None), ("d", "run d"), ("b", None)]
    graph = clustered(*(Task(name=f"{label}{n}", label=label, command=how) for n, (label, how) in enumerate(kinds)))
    with pytest.raises(PreparationError) as caught:
        check_commands(graph, ProfileCompiler(run).cluster_profiles(graph, {}), ProgressNotes())
    assert [(each.message, each.jobs) for each in caught.value.details] == [
        ("task 'a0' has no command", 1),
        ("task 'b1' has no command (nor do 2 more of the label 'b')", 3),
    ]
    assert caught.value.details[1].hint == "Give one to all its kind: pipetask: {b: {runQuantumCommand: ...}}."


def test_tasks_that_bring_their_commands_need_no_other(folder: Path) -> None:
    graph = clustered(Task(name="a1", label="a", command="run a"))
    told = ProgressNotes()
    check_commands(
        graph, ProfileCompiler(begun(folder, "payload: {payloadName: w}\n")).cluster_profiles(graph, {}), told
    )
    assert not told.notes


def test_what_is_missing_here_may_be_there_where_jobs_run(folder: Path) -> None:
    site = "wmsServiceClass: slurm\ncomputeSite: x\nsite: {x: {}}\n"
    begun(folder, f"{site}wfformat: graph.json\nrunQuantumCommand: no-such-program\n")
    tasks = [{"name": "A", "id": "a"}]
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}}
    (folder / "graph.json").write_text(json.dumps(graph), "utf-8")
    told = ProgressNotes()
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=told)
    said = [note for note in told.notes if "no-such-program" in note]
    assert len(said) == 1
    assert "job 'a' runs 'no-such-program', which is not on the PATH, as seen from this host" in said[0]


def test_programs_of_a_container_are_not_looked_for(folder: Path) -> None:
    inside = msgspec.structs.replace(SETTINGS, launcher="apptainer exec fit.sif")
    for command in (("/opt/fit", "1"), ("fit", "1"), "fit 1"):
        alone = msgspec.structs.replace(job("a1"), command=command)
        boxed = msgspec.structs.replace(alone, settings=inside)
        assert wrong(begun(folder), alone)
        assert not wrong(begun(folder), boxed)
