"""A run is LSST's by what it names: a quantum graph, a pipeline of their tasks, or a command that makes a graph."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from longshore.config.merge import to_node
from longshore.config.search import Config
from longshore.errors import Origin
from longshore.graphs.payload_files import is_lsst, is_lsst_pipeline

FILES = {
    "class.yaml": "tasks: {isr: {class: demo.IsrTask}}\n",
    "short.yaml": "tasks: {isr: demo.IsrTask}\n",
    "imports.yaml": "imports: [{location: other.yaml}]\n",
    "inner.yaml": "pipeline: {tasks: {isr: {class: demo.IsrTask}}}\n",
    "ours.yaml": "dimensions: {visit: [1]}\ntasks: {a: {dimensions: [visit], command: 'true'}}\n",
    "empty.yaml": "{}\n",
    "text.yaml": "[a",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        ({"qgraphFile": "g.qg"}, True),
        ({"payload": {"qgraphFile": "g.qg"}, "pipelineYaml": "ours.yaml"}, True),
        ({"pipelineYaml": "class.yaml"}, True),
        ({"pipelineYaml": "class.yaml#isr"}, True),
        ({"pipelineYaml": "{name}.yaml", "name": "short"}, True),
        ({"pipelineYaml": "imports.yaml"}, True),
        ({"pipelineYaml": "inner.yaml"}, True),
        ({"pipelineYaml": "resource://lsst.drp/p.yaml"}, True),
        ({"pipelineYaml": "ours.yaml", "createQuantumGraph": "x"}, False),
        ({"pipelineYaml": "empty.yaml"}, False),
        ({"pipelineYaml": "text.yaml"}, False),
        ({"pipelineYaml": "nowhere.yaml"}, False),
        ({"pipelineYaml": "nowhere.yaml", "payload": {"butlerConfig": "/repo"}}, True),
        ({"pipelineYaml": "ours.yaml", "butlerConfig": "/repo"}, False),
        ({"pipelineYaml": "${DRP_PIPE_DIR}/pipelines/DRP.yaml#isr"}, True),
        ({"pipelineYaml": "$AP_PIPE_DIR/pipelines/ApPipe.yaml"}, True),
        ({"pipelineYaml": "$HOME/p.yaml"}, False),
        ({"pipelineYaml": "\0"}, False),
        ({"pipelineYaml": "{pipelineYaml}"}, False),
        ({"createQuantumGraph": "x"}, True),
        ({"createQuantumGraph": "x", "wfformat": "g.json"}, False),
        ({"pipeline": {"tasks": {}}}, False),
        ({}, False),
    ],
)
def test_whose_it_is(folder: Path, settings: dict[str, Any], theirs: bool) -> None:
    config = Config(to_node(settings, Origin("x")))
    assert is_lsst(config, site="", env={}, folder=folder) is theirs


def test_a_file_that_was_changed_is_read_again(folder: Path) -> None:
    path = folder / "class.yaml"
    assert is_lsst_pipeline("class.yaml", folder)
    path.write_text(FILES["ours.yaml"], "utf-8")
    os.utime(path, ns=(1, 1))
    assert not is_lsst_pipeline("class.yaml", folder)
