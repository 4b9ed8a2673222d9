"""A given quantum graph: the file that jobs read, and the paths in their commands."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import Cli

from longshore.graphs.quantum_graph import RUN_GRAPH

GRAPH = Path(__file__).resolve().parents[1] / "data" / "lsst" / "g1.qg"
RUN = """\
qgraphFile: g1.qg
updateQuantumGraph: ""
submitPath: run
wmsServiceClass: local
payload: {payloadName: p, butlerConfig: repo, runInit: false}
runQuantumCommand: "env echo {fileDistributionEndPoint}{qgraphFile} {qgraphNodeId} <{qgraphId}>"
"""


def prepared(cli: Cli, folder: Path, more: str = "") -> tuple[list[dict[str, Any]], str]:
    """Return the workflow's lines and the notes."""
    shutil.copy(GRAPH, folder)
    (folder / "run.yaml").write_text(RUN + more, "utf-8")
    ran = cli("prepare", "run.yaml")
    assert ran.returncode == 0, ran.stderr
    lines = (folder / "run" / "workflow.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines], ran.stderr


def test_jobs_read_the_copy_in_the_run_directory(cli: Cli, tmp_path: Path) -> None:
    (_, first, *_, file), noted = prepared(cli, tmp_path)
    node = first["name"].partition("_")[0]
    assert first["c"] == f"env echo <FILE:{RUN_GRAPH}> {node} <>"
    assert first["inputs"] == [RUN_GRAPH]
    assert file == {"name": RUN_GRAPH, "path": "g1.qg"}
    assert (tmp_path / "run" / "g1.qg").read_bytes() == GRAPH.read_bytes()
    assert "bpsUseShared" not in noted


def test_where_nothing_is_shared_the_graph_is_marked_to_be_carried(cli: Cli, tmp_path: Path) -> None:
    lines, noted = prepared(cli, tmp_path, "bpsUseShared: false\n")
    assert lines[-1] == {"name": RUN_GRAPH, "path": "g1.qg", "transfer": True, "shared": False}
    assert "'bpsUseShared: false' has no effect: the service 'local' carries no files to its jobs" in noted


def test_an_end_point_comes_before_the_path(cli: Cli, tmp_path: Path) -> None:
    (_, first, *_), _ = prepared(cli, tmp_path, "fileDistributionEndPoint: 'https://cache/'\n")
    assert first["c"].startswith(f"env echo https://cache/<FILE:{RUN_GRAPH}> ")


@pytest.mark.parametrize(("lazy", "named"), [("true", "${WHERE}"), ("false", "here")])
def test_commands_are_lazy_unless_it_is_said(cli: Cli, tmp_path: Path, lazy: str, named: str) -> None:
    command = "pipetask: {isr: {runQuantumCommand: 'env echo ${WHERE} {qgraphFile}'}}\n"
    shutil.copy(GRAPH, tmp_path)
    (tmp_path / "run.yaml").write_text(f"{RUN}{command}useLazyCommands: {lazy}\n", "utf-8")
    ran = cli("prepare", "run.yaml", env={"WHERE": "here"})
    assert ran.returncode == 0, ran.stderr
    first = msgspec.json.decode((tmp_path / "run" / "workflow.jsonl").read_bytes().splitlines()[1])
    assert first["c"] == f"env echo {named} <FILE:{RUN_GRAPH}>"


def test_its_tasks_are_written_to_a_graph_file_and_read_from_it(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(GRAPH, tmp_path)
    (tmp_path / "run.yaml").write_text(RUN, "utf-8")
    saved = cli("acquire", "run.yaml", "--save-graph", "tasks.jsonl")
    assert saved.returncode == 0, saved.stderr
    again = RUN.replace("qgraphFile: g1.qg", "graphFile: tasks.jsonl").replace("submitPath: run", "submitPath: again")
    (tmp_path / "again.yaml").write_text(again, "utf-8")
    drawn = cli("draw", "again.yaml")
    assert drawn.returncode == 0, drawn.stderr
    assert "isr" in drawn.stdout
    ran = cli("prepare", "again.yaml")
    assert ran.returncode == 0, ran.stderr
    *jobs, file = (tmp_path / "again" / "workflow.jsonl").read_bytes().splitlines()
    assert len(jobs) == 1 + 945 + 1, "with a final job, as LSST's defaults have one"
    assert msgspec.json.decode(file) == {"name": RUN_GRAPH, "path": f"{tmp_path}/run/g1.qg"}
