"""Explanations of jobs have what they really ask of the workload manager, its own map included."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.plan.stages import Stage, run_stages
from longshore.progress import QuietProgress
from longshore.reports.documents.job import explain_job_document
from longshore.reports.explain import explain_job
from longshore.reports.explanation import JobExplanation
from longshore.runstate.open_run import open_run

RUN = """
computeSite: here
submitPath: run
site:
  here:
    wmsServiceClass: {service}
    partitions:
      - {{name: short, walltime: 600}}
      - {{name: long, walltime: "2:00:00"}}
requestMemory: 100
pipeline:
  tasks:
    plain: {{command: "true"}}
    wide: {{command: "true"}}
    several: {{command: "true"}}
    alone: {{command: "true"}}
    half: {{command: "true"}}
pipetask:
  alone:
    slurm: {{nodeCount: 2-4, exclusive: true}}
    directives: ["--mem-per-cpu=150"]
  half:
    directives: ["-c 4 --threads-per-core=1 --mincpus=6"]
  wide:
    requestWalltime: "1:00:00"
    slurm: {{cpu: 16, mem: 100G, qos: high, constraint: "a100|v100", sbatch: ["--comment={secret}"]}}
  several:
    slurm: {{nodeCount: 2, tasks: 8, partition: long}}
"""

SECRET = f"ghp_{'a1' * 18}"
"""A text in the form of a token."""


def explain(folder: Path, service: str, job: str) -> JobExplanation:
    file = folder / "run.yaml"
    file.write_text(RUN.format(service=service, secret=SECRET), "utf-8")
    run_stages(file, Stage.PREPARE, progress=QuietProgress())
    (card,) = folder.glob("run/**/run.json")
    return explain_job(open_run(str(card.parent)), job)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ("plain", ["slurm:    1 cpu, 100 MiB of memory, partition short", "Retries:"]),
        (
            "wide",
            [
                "slurm:    16 cpus, 100 GiB of memory, 1 h 0 min of wall time, feature a100 or v100, partition long",
                "          by cpu=16, mem=100G, qos=high, constraint=a100|v100, sbatch=",
            ],
        ),
        (
            "several",
            [
                "slurm:    2 nodes, 8 tasks of 1 cpu, 100 MiB of memory on each node, partition long",
                "          by nodeCount=2, tasks=8, partition=long",
            ],
        ),
        (
            "alone",
            [
                "slurm:    2 to 4 nodes, whole nodes, 2 tasks of 1 cpu, 150 MiB of memory for each cpu, part",
                "          by nodeCount=2-4, exclusive=True, directives=['--mem-per-cpu=150']",
            ],
        ),
        (
            "half",
            [
                "slurm:    4 cpus, at least 6 cpus on each node, 1 thread of each core, 100 MiB of memory, partition",
                "          by directives=",
            ],
        ),
    ],
)
def test_the_text_has_what_slurm_is_asked_for(tmp_path: Path, job: str, lines: list[str]) -> None:
    text = explain(tmp_path, "slurm", job).text.splitlines()
    begin = next(number for number, line in enumerate(text) if line.startswith("Request:")) + 1
    for line, wanted in zip(text[begin:], lines, strict=False):
        assert line.startswith(wanted)


def test_the_document_has_it_too(tmp_path: Path) -> None:
    document = explain_job_document(explain(tmp_path, "slurm", "wide"))
    assert document.asked
    (component,) = document.asked.components
    assert (component.cpus_per_task, component.memory_b, component.walltime_s) == (16, 100 * 1024**3, 3600.0)
    assert component.features == [["a100", "v100"]]
    assert document.asked.partition == "long"
    assert document.asked.settings["qos"] == "high"
    assert SECRET not in str(document.asked.settings)


def test_this_machine_has_no_other_words(tmp_path: Path) -> None:
    job = explain(tmp_path, "local", "plain")
    assert job.asked is None
    assert explain_job_document(job).asked is None
