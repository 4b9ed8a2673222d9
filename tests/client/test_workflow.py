"""Workflows in Python: the graph file has the tasks, files and edges that were given; wrong calls name the way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import longshore
from longshore.client.workflow import Workflow, WorkflowTask
from longshore.errors import FilesError, GraphError, UsageError
from longshore.model.values import YamlValue
from longshore.plan.stages import Stage, run_stages
from longshore.progress import QuietProgress


def lines(workflow: Workflow, path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in workflow.to_graph_file(path).read_text("utf-8").splitlines()]


def test_a_task_waits_for_the_makers_of_its_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workflow = longshore.Workflow("study")
    late = workflow.task("plot", "plot.py a.json", inputs=["a.json", "/data/b.json", "s3://bucket/c"])
    early = workflow.task("fit", ["fit.py", "1"], data_id={"n": 1}, outputs=["a.json"], after=[])
    last = workflow.task("end", "true", after=[late, early, late])
    header, *records = lines(workflow, tmp_path / "study.jsonl")
    assert header == {"kind": "longshore-graph", "version": 1, "name": "study", "tasks": 3, "edges": 3, "files": 3}
    assert records == [
        {"name": "a.json", "path": f"{tmp_path}/a.json"},
        {"name": "/data/b.json"},
        {"name": "s3://bucket/c"},
        {"name": "plot", "label": "plot", "parents": [1], "command": "plot.py a.json", "inputs": [0, 1, 2]},
        {"name": "fit_1", "label": "fit", "data_id": {"n": 1}, "command": ["fit.py", "1"], "outputs": [0]},
        {"name": "end", "label": "end", "parents": [0, 1], "command": "true"},
    ]
    assert (last.name, early.outputs, repr(workflow)) == ("end", ("a.json",), "<Workflow study: 3 tasks>")


def test_a_workflow_is_saved_as_two_files(tmp_path: Path) -> None:
    workflow = Workflow("study", {"numberOfRetries": 2})
    for number in range(3):
        workflow.task("fit", "true", cpus=2, memory="2 GiB", after=[])
        workflow.task("look", "true", name=f"look at {number}")
    path = workflow.save(tmp_path / "new" / "folder")
    assert yaml.safe_load(path.read_text("utf-8")) == {
        "payloadName": "study",
        "graphFile": "study.jsonl.gz",
        "numberOfRetries": 2,
        "pipetask": {"fit": {"requestCpus": 2, "requestMemory": "2 GiB"}},
    }
    first = (tmp_path / "new/folder/study.jsonl.gz").read_bytes()
    workflow.save(tmp_path / "new" / "folder")
    assert (tmp_path / "new/folder/study.jsonl.gz").read_bytes() == first, "same input, same output"


numbers = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 30), max_size=3), st.booleans()), max_size=12)


@given(numbers)
def test_a_graph_file_gives_the_graph_that_was_built(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[tuple[int, list[int], bool]]
) -> None:
    folder = tmp_path_factory.mktemp("graph")
    workflow, expected = Workflow("w"), []
    made: list[WorkflowTask] = []
    for number, (label, chosen, by_file) in enumerate([(0, [], False), *tasks]):
        parents = sorted({each % number for each in chosen}) if number else []
        files = [made[each].outputs[0] for each in parents] if by_file else []
        after = [] if by_file else [made[each] for each in parents]
        task = workflow.task(f"l{label}", "true", inputs=files, outputs=[folder / str(number)], after=after)
        made.append(task)
        expected.append((task.name, f"l{label}", parents))
    path = workflow.save(folder)
    workflow.to_graph_file(folder / "w.jsonl.gz")
    results, _ = run_stages(path, Stage.ACQUIRE, progress=QuietProgress())
    assert results[0].counts["tasks"] == len(expected)
    _, *records = lines(workflow, folder / "again.jsonl")
    found = [(each["name"], each["label"], each.get("parents", [])) for each in records if "label" in each]
    assert found == expected


def test_wrong_calls_name_the_way_out(tmp_path: Path) -> None:
    workflow = Workflow("w")
    task = workflow.task("a", "true", outputs=["x"], memory=100)
    with pytest.raises(GraphError, match="two tasks have the name 'a'"):
        workflow.task("b", "true", name="a")
    with pytest.raises(GraphError, match="'c' and 'a' both make 'x'"):
        workflow.task("c", "true", outputs=["x"])
    with pytest.raises(GraphError, match="both make 'x'"):
        workflow.task("c", "true", outputs=["new", "x"])
    assert workflow.task("d", "true", outputs=["new"]).name == "d", "a refused task leaves nothing behind"
    with pytest.raises(UsageError, match="a task has no 'mem'") as unknown:
        workflow.task("d", "true", mem=3)
    assert unknown.value.hint == "Its requests are cpus, memory, walltime, disk, gpus."
    with pytest.raises(UsageError, match="tasks of the label 'a' have different requests"):
        workflow.task("a", "true", memory=200)
    with pytest.raises(GraphError, match="'a' is no task of the workflow 'other'"):
        Workflow("other").task("b", "true", after=[task])
    with pytest.raises(GraphError, match="the dimension 'n' has no finite number: nan"):
        workflow.task("e", "true", data_id={"n": float("nan")})
    with pytest.raises(UsageError, match="is no name of a workflow"):
        Workflow("a/b")
    with pytest.raises(FilesError, match="cannot be written: No such file or directory"):
        workflow.to_graph_file(tmp_path / "missing" / "w.jsonl")
    odd = Workflow("odd")
    odd.task("a", "echo \ud800")
    with pytest.raises(GraphError, match="is no Unicode text"):
        odd.to_graph_file(tmp_path / "odd.jsonl")


def test_folders_of_outputs_are_made_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workflow = Workflow("w")
    fit = workflow.task("fit", "true", outputs=["out/1/a", "out/1/b", "plain", "/data/c", "s3://bucket/d/e", "/f"])
    workflow.task("plot", "true", inputs=["raw/x", *fit.outputs], outputs=Path("plots/all.png"))
    header, *_ = lines(workflow, tmp_path / "w.jsonl")
    assert header["directories"] == [f"{tmp_path}/out/1", "/data", f"{tmp_path}/plots"]


def test_one_path_or_task_needs_no_list(tmp_path: Path) -> None:
    workflow = Workflow("w")
    fit = workflow.task("fit", "true", outputs="all.json")
    assert fit.outputs == ("all.json",)
    workflow.task("plot", "true", inputs="all.json", after=workflow.task("first", "true"))
    *_, plot = lines(workflow, tmp_path / "w.jsonl")
    assert (plot["parents"], plot["inputs"]) == ([0, 1], [0])
    with pytest.raises(TypeError, match="WorkflowTask"):
        workflow.task("look", "true", inputs=[fit])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="'after' has 'fit', which is no task"):
        workflow.task("look", "true", after=["fit"])  # type: ignore[list-item]


def test_requests_of_tasks_join_the_settings_of_their_label(tmp_path: Path) -> None:
    workflow = Workflow("w", {"pipetask": {"fit": {"memoryMultiplier": 3, "requestCpus": 1}, "plot": {"priority": 2}}})
    workflow.task("fit", "true", memory=100, cpus=2)
    workflow.task("sum", "true", memory=200)
    assert yaml.safe_load(workflow.save(tmp_path).read_text("utf-8"))["pipetask"] == {
        "fit": {"memoryMultiplier": 3, "requestCpus": 2, "requestMemory": 100},
        "plot": {"priority": 2},
        "sum": {"requestMemory": 200},
    }
    wrong: list[YamlValue] = [3, {"fit": 3}]
    for value in wrong:
        bad = Workflow("w", {"pipetask": value})
        bad.task("fit", "true", memory=100)
        with pytest.raises(UsageError, match=r"'pipetask.* of the workflow 'w' is no map"):
            bad.save(tmp_path)
