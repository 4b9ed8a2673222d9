"""No task has the label of the init job or of the final job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longshore.plan.lint_file import lint_file

INIT = "runInit: true\npipetask: {pipetaskInit: {runQuantumCommand: 'true'}}\n"
FINAL = "finalJob: {whenRun: ALWAYS, command1: 'true'}\n"


def errors_of(text: str) -> list[tuple[int, str]]:
    path = Path("run.yaml")
    path.write_text(text, "utf-8")
    return [(each.origin.line, each.message) for each in lint_file(path, now=0).findings if each.severity == "error"]


@pytest.mark.parametrize("more", ["", INIT + FINAL], ids=["alone", "beside"])
@pytest.mark.parametrize("label", ["pipetaskInit", "finalJob"])
def test_a_task_of_a_pipeline_has_no_such_label(
    label: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((line, message),) = errors_of(f"pipeline:\n  tasks:\n    {label}: {{command: 'true'}}\n{more}")
    assert (line, message.partition(":")[0]) == (3, f"'{label}' cannot be the label of a task")


def test_neither_has_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ((line, message),) = errors_of(
        "pipeline: {tasks: {a: {command: 'true'}}}\n"
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster:\n  finalJob: {pipetasks: a}\n"
    )
    assert (line, message.partition(":")[0]) == (4, "'finalJob' cannot be the label of a task or cluster")


@pytest.mark.parametrize(("label", "more"), [("pipetaskInit", INIT), ("finalJob", FINAL)])
def test_a_graph_of_another_program_has_it_only_without_that_job(
    label: str, more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        {"kind": "longshore-graph", "version": 1, "tasks": 1},
        {"name": label, "label": "x", "command": ["true"]},
    ]
    (tmp_path / "g.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    graph = "graphSource: graph_file\ngraphFile: g.jsonl\n"
    assert errors_of(graph) == []
    ((_, message),) = errors_of(graph + more)
    assert message.startswith(f"'{label}' cannot be the name of a task or cluster: it is that of the")
