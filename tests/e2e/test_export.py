"""`export` of real runs: to files and to the standard output, and bad input."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.command import Cli
from tests.workflows import Tasks, WriteRun, in_place

DATA = Path(__file__).resolve().parents[1] / "data"
RECORDED = DATA / "wfinstances"
SCHEMA = DATA / "wfformat" / "wfcommons-schema.json"

TASKS: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("B", [])}
TEXT = (
    "pipetask: {B: {runQuantumCommand: 'test $LONGSHORE_JOB_ATTEMPT -gt 1 || exit 3', numberOfRetries: 1}}\n"
    "runQuantumCommand: 'true'\nrequestMemory: 100\n"
)


def test_a_run_that_ran_is_exported(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    assert cli("submit", write_run(TEXT, TASKS), "--wait").returncode == 0
    printed = cli("export", "@last", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert [(row["job"], row["attempt"], row["cause"]) for row in rows] == [
        ("a", "1", ""),
        ("c", "1", "EXIT"),
        ("c", "2", ""),
        ("b", "1", "EXIT"),
        ("b", "2", ""),
    ]
    assert {row["requested_memory_b"] for row in rows} == {str(100 << 20)}

    path = tmp_path / "attempts.csv"
    written = cli("export", "@last", "--format", "csv", "--output", path)
    assert (written.returncode, written.stdout, str(path) in written.stderr) == (0, "", True)
    assert path.read_text("utf-8") == printed.stdout

    for name in ("crate", "crate.zip"):
        assert cli("export", "@last", "--format", "ro-crate", "--output", tmp_path / name).returncode == 0
    crate = tmp_path / "crate"
    assert sorted(path.name for path in crate.iterdir()) == ["attempts.csv", "ro-crate-metadata.json", "workflow.json"]
    assert (crate / "attempts.csv").read_text("utf-8") == printed.stdout
    entities = {each["@id"]: each for each in json.loads((crate / "ro-crate-metadata.json").read_bytes())["@graph"]}
    assert {"#run", "#job-a", "#job-b", "#job-c", (tmp_path / "graph.json").as_uri()} <= entities.keys()
    assert cli("archive", "@last", "--output", tmp_path / "run.tar.gz").returncode == 0
    archived = cli("export", tmp_path / "run.tar.gz", "--format", "csv")
    assert archived.stdout == printed.stdout
    again = cli("export", "@last", "--format", "ro-crate", "--output", crate)
    assert (again.returncode != 0, "exists already" in again.stderr) == (True, True)
    assert "--output" in cli("export", "@last", "--format", "ro-crate").stderr

    metrics = cli("export", "@last", "--format", "openmetrics", "--output", "-").stdout
    parsed = text_string_to_metric_families(metrics)  # type: ignore[no-untyped-call]
    families = {family.name: family.samples for family in parsed}
    assert {sample.labels["label"]: sample.value for sample in families["longshore_retries"]} == {"A": 0, "B": 2}


@pytest.mark.parametrize("name", ["helloworld-forkjoin-10-chameleon", "srasearch-chameleon-10a-001"])
def test_a_recorded_workflow_comes_back_and_runs_again(cli: Cli, tmp_path: Path, name: str) -> None:
    recorded = RECORDED / f"{name}.json"
    replay = "replay: {timeScale: 0, outputScale: 0.000001}\nrequestMemory: 20\n"
    (tmp_path / "run.yaml").write_text(f"wfformat: {recorded}\n{replay}", "utf-8")
    (tmp_path / "again.yaml").write_text(f"wfformat: trace.json\n{replay}", "utf-8")
    assert cli("submit", "run.yaml", "--wait").returncode == 0
    assert cli("export", "@last", "--format", "wfformat", "--output", tmp_path / "trace.json").returncode == 0
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(trace)

    assert _shape(trace) == _shape(json.loads(recorded.read_text("utf-8")))
    assert len(trace["workflow"]["execution"]["tasks"]) == len(trace["workflow"]["specification"]["tasks"])
    labels = cli("report", "@last", "--json").json["runs"][0]["labels"]
    again = cli("submit", "again.yaml", "--wait", "--json", *in_place(2))
    assert again.returncode == 0, again.stderr
    assert cli("report", "@last", "--json").json["runs"][0]["labels"] == labels


def _shape(document: Any) -> tuple[object, ...]:
    """Return tasks, edges, and files with sizes of a document, whatever their order."""
    specification = document["workflow"]["specification"]
    tasks = specification["tasks"]
    below = {(task["id"], child) for task in tasks for child in task["children"]}
    above = {(parent, task["id"]) for task in tasks for parent in task["parents"]}
    files = {
        (task["id"], kind, name)
        for task in tasks
        for kind in ("inputFiles", "outputFiles")
        for name in task.get(kind, ())
    }
    used = {name for _, _, name in files}
    sizes = {file["id"]: file["sizeInBytes"] for file in specification.get("files", ()) if file["id"] in used}
    return {task["id"] for task in tasks}, below | above, files, sizes


def test_bad_input_is_explained(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    unknown = cli("export", "nosuch", "--format", "csv")
    assert (unknown.returncode, "'nosuch'" in unknown.stderr) == (5, True)
    assert cli("submit", write_run(TEXT, TASKS), "--wait").returncode == 0
    form = cli("export", "@last", "--format", "xml")
    assert (form.returncode, "'xml'" in form.stderr) == (2, True)
    folder = cli("export", "@last", "--format", "csv", "--output", tmp_path)
    assert folder.returncode != 0
    assert "is a directory" in folder.stderr
    missing = cli("export", "@last", "--format", "csv", "--output", tmp_path / "no" / "a.csv")
    assert "mkdir -p" in missing.stderr
