"""Limits and partitions of a site hold, whichever keys ask for more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from longshore.app.progress import SilentProgress
from longshore.app.submit.stage_results import run_stages
from longshore.app.submit.stages import Stage
from longshore.errors import LongshoreError

SITE = """
    wmsServiceClass: slurm
    computeSite: here
    wfformat: graph.json
    runQuantumCommand: "true"
    site:
      here:
        limits: {cpus: 4, memory: 8 GiB, walltime: "4:00:00"}
        partitions:
          - {name: debug, nodes: 1, walltime: 600}
          - {name: main, nodes: 2, walltime: "2:00:00"}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"name": "A", "id": "a"}]}}}
    Path("graph.json").write_text(json.dumps(graph), "utf-8")


def prepare(more: str) -> None:
    Path("run.yaml").write_text(f"{dedent(SITE)}{more}\n", "utf-8")
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=SilentProgress())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("requestCpus: 16", "asks for 16 by 'requestCpus'; 'limits.cpus' of the site 'here' is 4"),
        ("slurm: {cpu: 16, mem: 100G}", "asks for 16 by 'slurm'; 'limits.cpus' of the site 'here' is 4"),
        ("slurm: {mem: 100G}", "asks for 102400 MiB by 'slurm'; 'limits.memory' of the site 'here' is 8 GiB"),
        ("slurm: {mem: 0}", "asks for all memory of a node by 'slurm'; 'limits.memory'"),
        ("slurm: {tasks: 8}", "asks for 8 by 'slurm'; 'limits.cpus'"),
        ("slurm: {nodeCount: 2, mem: 5G}", "asks for 10240 MiB by 'slurm'; 'limits.memory'"),
        ("pipetask: {A: {slurm: {cpu: 3, cpu1: 3}}}", "asks for 6 by 'slurm'; 'limits.cpus'"),
        ('directives: ["-c 16"]', "asks for 16 by 'slurm'; 'limits.cpus'"),
        ('slurm: {partition: other, sbatch: ["--time=5:00:00"]}', "asks for 18000 s by 'slurm'; 'limits.walltime'"),
        ("backendOptions: --mem=100G -c2", "'limits.memory' of the site 'here' is 8 GiB"),
        ("requestWalltime: 3h", "the nearest, 'main', lacks walltime (3:00:00 asked, 2:00:00 there)"),
        ("slurm: {nodeCount: 3}", "the nearest, 'main', lacks nodes (3 asked, 2 there)"),
        (
            "slurm: {nodeCount: 2, partition: debug}",
            "does not hold it: the nearest, 'debug', lacks nodes",
        ),
    ],
)
def test_what_a_site_does_not_allow_is_refused(more: str, words: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        prepare(more)
    assert re.search(re.escape(words), str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    "more", ["slurm: {nodeCount: 2, cpu: 2, mem: 4G}", "requestWalltime: 2h", "slurm: {partition: other, nodeCount: 3}"]
)
def test_what_a_site_allows_is_prepared(more: str) -> None:
    prepare(more)
