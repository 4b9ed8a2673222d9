"""Limits and partitions of a site hold, whichever keys ask for more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from longshore.errors import LongshoreError
from longshore.plan.stages import Stage, run_stages
from longshore.progress import QuietProgress

SITE = """
    wmsServiceClass: {service}
    computeSite: here
    wfformat: graph.json
    runQuantumCommand: "true"
    site:
      here:
        limits: {{cpus: 4, memory: 8 GiB, walltime: "4:00:00"}}
        partitions:
          - {{name: debug, nodes: 1, walltime: 600}}
          - {{name: main, nodes: 2, walltime: "2:00:00"}}
        sge: {{bin: /opt/sge, root: /opt/sge, mem_resource: h_vmem, parallelEnvironment: smp}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"name": "A", "id": "a"}]}}}
    Path("graph.json").write_text(json.dumps(graph), "utf-8")


def prepare(more: str, service: str = "slurm") -> None:
    Path("run.yaml").write_text(f"{dedent(SITE).format(service=service)}{more}\n", "utf-8")
    run_stages(Path("run.yaml"), Stage.PREPARE, progress=QuietProgress())


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


@pytest.mark.parametrize(
    ("service", "more", "words"),
    [
        ("htcondor", "profile: {condor: {request_cpus: 16}}", "asks for 16 by 'htcondor'; 'limits.cpus'"),
        ("htcondor", "profile: {condor: {request_memory: 9000}}", "asks for 9000 MiB by 'htcondor'; 'limits.memory'"),
        ("htcondor", 'directives: ["request_memory = 9 GB"]', "asks for 9216 MiB by 'htcondor'; 'limits.memory'"),
        (
            "htcondor",
            "requestMemory: 9000\nprofile: {condor: {request_memory: MY.RequestMemory}}",
            "asks for 9000 MiB by 'requestMemory'; 'limits.memory'",
        ),
        ("lsf", "requestCpus: 16", "asks for 16 by 'requestCpus'; 'limits.cpus' of the site 'here' is 4"),
        ("lsf", 'bsub: ["-n 16"]', "asks for 16 by 'lsf'; 'limits.cpus'"),
        (
            "lsf",
            'lsf: {bsub: ["-M 100GB"]}',
            "asks for 102400 MiB by 'lsf'; 'limits.memory' of the site 'here' is 8 GiB",
        ),
        ("lsf", 'directives: ["-W 5:00", "-q other"]', "asks for 18000 s by 'lsf'; 'limits.walltime'"),
        ("lsf", "requestWalltime: 3h", "the nearest, 'main', lacks walltime (3:00:00 asked, 2:00:00 there)"),
        ("lsf", 'bsub: ["-nnodes 3"]', "the nearest, 'main', lacks nodes (3 asked, 2 there)"),
        ("lsf", "queue: debug\nrequestWalltime: 1h", "does not hold it: the nearest, 'debug', lacks walltime"),
        ("sge", "requestCpus: 16", "asks for 16 by 'requestCpus'; 'limits.cpus' of the site 'here' is 4"),
        ("sge", 'directives: ["-pe smp 2-16"]', "asks for 16 by 'sge'; 'limits.cpus'"),
        ("sge", 'directives: ["-pe smp 4", "-l h_vmem=3G"]', "asks for 12288 MiB by 'sge'; 'limits.memory'"),
        ("sge", 'sge: {hard: "-l h_vmem=100G"}', "asks for 102400 MiB by 'sge'; 'limits.memory'"),
        ("sge", "requestResources: {h_rt: 18000}\nqueue: other", "asks for 18000 s by 'sge'; 'limits.walltime'"),
        (
            "sge",
            'directives: ["-l h_rt=3:00:00"]',
            "the nearest, 'main', lacks walltime (3:00:00 asked, 2:00:00 there)",
        ),
        ("sge", 'sge: {hard: "-q debug@@fast"}\nrequestWalltime: 1h', "the nearest, 'debug', lacks walltime"),
    ],
)
def test_what_a_site_does_not_allow_is_refused_on_every_dialect(service: str, more: str, words: str) -> None:
    with pytest.raises(LongshoreError) as caught:
        prepare(more, service)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("service", "more"),
    [
        ("lsf", 'bsub: ["-n 4", "-M 8GB"]\nrequestWalltime: 2h'),
        ("lsf", 'bsub: ["-q other", "-nnodes 4"]'),
        ("sge", 'directives: ["-pe smp 4", "-l h_vmem=2G,h_rt=2:00:00"]'),
        ("sge", 'sge: {soft: "-l h_vmem=100G"}'),
        ("sge", 'directives: ["-q other", "-l h_rt=3:00:00"]'),
    ],
)
def test_what_a_site_allows_is_prepared_on_every_dialect(service: str, more: str) -> None:
    prepare(more, service)
