"""A prepared run of a quantum graph is submitted later with the graph it was prepared with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.command import Cli

GRAPH = Path(__file__).resolve().parents[1] / "data" / "lsst" / "g1.qg"
YAML = """\
qgraphFile: g1.qg
updateQuantumGraph: cp {inputQgraphFile} {qgraphFile}
payload: {payloadName: night, butlerConfig: repo, inCollection: in, output: u/night, runInit: false}
runQuantumCommand: "true {qgraphNodeId}"
finalJob: {whenRun: NEVER}
wmsServiceClass: local
submitPath: run
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shutil.copy(GRAPH, tmp_path / "g1.qg")
    (tmp_path / "run.yaml").write_text(YAML, "utf-8")
    return tmp_path / "run.yaml"


def test_a_graph_that_is_another_by_now_is_said(cli: Cli, path: Path, tmp_path: Path) -> None:
    ran = cli("prepare", path)
    assert ran.returncode == 0, ran.stderr
    for graph in (tmp_path / "g1.qg", tmp_path / "run" / "g1.qg"):
        with graph.open("ab") as file:
            file.write(b"x")
    ran = cli("submit", "run", "--json")
    assert ran.returncode == 6
    messages = [each["message"] for each in ran.json["error"]["problems"]]
    assert messages[0].startswith(f"the payload's file '{tmp_path / 'g1.qg'}' has another content now")
    assert messages[1].startswith("its file 'g1.qg' has another content now")
    assert len(messages) == 2


def test_a_graph_alone_is_no_run_and_need_not_be_made_again(cli: Cli, path: Path, tmp_path: Path) -> None:
    assert cli("acquire", path).returncode == 0
    ran = cli("submit", "run")
    assert ran.returncode == 5
    assert "was not completely prepared" in ran.stderr
    assert f"longshore submit FILE --qgraph {tmp_path / 'run' / 'g1.qg'}" in ran.stderr
