"""Logs of attempts from before a change are found: in the run that made a result, and under the label of that time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.command import Cli

PIPELINE = """\
numberOfRetries: 0
pipeline:
  tasks:
    one: {command: "echo made here; echo x > {out}", outputs: {out: one.txt}}
"""


def attempts(cli: Cli, run: str, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("explain", run, job, "--json").json["attempts"]
    return found


def test_a_kept_result_has_the_log_of_the_run_that_made_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(PIPELINE, "utf-8")
    first = cli("submit", "run.yaml", "--wait", "--json").json
    # The result is kept twice.
    second = cli("submit", "run.yaml", "--reuse", first["id"], "--wait", "--json").json
    third = cli("submit", "run.yaml", "--reuse", second["id"], "--wait", "--json").json
    for run in (second, third):
        (attempt,) = attempts(cli, run["id"], "one")
        assert Path(attempt["log"]).read_text("utf-8") == "made here\n"
        assert attempt["log"].startswith(first["submit_dir"])
    shutil.rmtree(second["submit_dir"])
    assert attempts(cli, third["id"], "one")[0]["log"] is None


def write_workflow(program: str, at: Path) -> None:
    task = {"name": "A", "id": "a", "children": [], "parents": [], "command": {"program": program}}
    execution = {"tasks": [{"id": "a", "runtimeInSeconds": 1, "command": {"program": program}}]}
    workflow = {"specification": {"tasks": [task]}, "execution": execution}
    at.write_text(json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": workflow}), "utf-8")


def test_a_job_with_another_label_keeps_its_logs(cli: Cli, tmp_path: Path) -> None:
    write_workflow("before", tmp_path / "graph.json")
    config = tmp_path / "run.yaml"
    config.write_text("numberOfRetries: 0\nwfformat: graph.json\nrunQuantumCommand: 'echo wrong; exit 3'\n", "utf-8")
    run = cli("submit", "run.yaml", "--wait", "--json").json
    write_workflow("after", tmp_path / "graph.json")
    config.write_text(config.read_text("utf-8").replace("echo wrong; exit 3", "echo right"), "utf-8")
    done = cli("restart", run["id"], "--with-changes", "--wait")
    assert done.returncode == 0, done.stderr
    name = cli("explain", run["id"], "0", "--json").json["name"]
    logs = [Path(each["log"]) for each in attempts(cli, run["id"], name)]
    assert [path.read_text("utf-8") for path in logs] == ["wrong\n", "right\n"]
    assert ["before" in str(logs[0]), "after" in str(logs[1])] == [True, True]
    assert cli("logs", run["id"], name, "--attempt", "1").stdout.endswith("wrong\n")
    assert cli("logs", run["id"], name).stdout.endswith("right\n")
