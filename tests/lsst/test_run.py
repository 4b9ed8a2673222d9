"""Real LSST runs end to end: repository, pipeline, graph, init job, quanta, final job, datasets."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.lsst.demo import CLUSTERS, COMMON, END_S, PREPARE, SUBMIT, Demo, made


@pytest.fixture
def demo(tmp_path: Path, cli: Cli) -> Demo:
    """A repository with raw values of 3 visits and 4 detectors."""
    return made(tmp_path, cli)


def ended(demo: Demo, run: str) -> Any:
    """Wait for the end of a run and return its status."""
    latest = time.monotonic() + END_S
    while time.monotonic() < latest:
        status = demo("status", run, "--json").json
        if status["state"] not in {"RUNNING", "PENDING", "READY", "UNREADY"}:
            return status
        time.sleep(1)
    raise AssertionError(f"the run has not ended within {END_S} s: {status}")


@pytest.mark.timeout(END_S)
def test_a_pipeline_runs_from_its_graph_to_its_datasets(demo: Demo) -> None:
    (demo.folder / "run.yaml").write_text(COMMON, "utf-8")
    typed = demo.typed(SUBMIT)
    assert "SUCCEEDED" in typed.stdout
    report = demo("report", "--id", "@last", "--json").json
    run = Path(report["runs"][0]["path"])
    expected = {"pipetaskInit": 1, "isr": 12, "calib": 12, "coadd": 2, "finalJob": 1}
    assert {label: counts["SUCCEEDED"] for label, counts in report["runs"][0]["labels"].items()} == expected
    name = report["runs"][0]["name"]
    graph = run / f"{name}.qg"
    assert graph.is_file()
    assert " qgraph --butler-config repo " in (run / "quantumGraphGeneration.out").read_text("utf-8").splitlines()[0]
    assert "qgraphFile=$1\nbutlerConfig=$2\n" in (run / "final_job.bash").read_text("utf-8")
    # 2 (v + detector) + 1 for all visits and detectors: each patch has those of its two, perhaps of a neighbour.
    coadds = demo.datasets("demo_coadd", name.replace("_", "/"))
    assert len(coadds) == 2
    assert all(coadd["n"] >= 6 for coadd in coadds)
    assert sum(coadd["n"] for coadd in coadds) >= 12

    # The graph that is there now, taken as it is, is fitted to a run of its own; the pipeline's name does no harm.
    typed = demo.typed(PREPARE.replace("u_demo.qg", str(graph)))
    assert "'qgraphFile' is used as it is, and 'pipelineYaml' not read" in typed.stderr
    prepared = Path(typed.stdout.rpartition("Submit dir: ")[2].strip())
    assert (prepared / f"{graph.stem}_orig.qg").read_bytes() == graph.read_bytes()
    assert (prepared / graph.name).read_bytes() != graph.read_bytes()
    assert " update-graph-run " in (prepared / "quantumGraphUpdate.out").read_text("utf-8")
    jobs = [json.loads(line) for line in (prepared / "workflow.jsonl").read_bytes().splitlines()[1:]]
    isr = next(job for job in jobs if "_isr_" in job["name"])
    assert isr["name"].split("_", 1)[0] in isr["c"]
    assert " run-qbb repo <FILE:runQgraphFile> --qgraph-node-id " in isr["c"]
    assert Counter(job["name"].split("_")[1] for job in jobs if "_" in job.get("name", "") and "c" in job) == {
        "isr": 12,
        "calib": 12,
        "coadd": 2,
    }


@pytest.mark.timeout(END_S)
def test_quanta_that_fail_are_tried_again_and_what_needs_them_is_pruned_until_a_restart(demo: Demo) -> None:
    cure = demo.folder / "cure"
    said = demo.submitted(
        f"extraQgraphOptions: '-c isr:failVisit=2 -c isr:unlessThere={cure}'\n"
        "numberOfRetries: 1\n"
        "retryUnlessExit: null\n"
        f"{CLUSTERS}"
    )
    run = said["id"]
    assert said["state"] == "FAILED"
    report = demo("report", "--id", run, "--json").json["runs"][0]
    states = {label: {name: n for name, n in counts.items() if n} for label, counts in report["labels"].items()}
    assert states == {
        "pipetaskInit": {"SUCCEEDED": 1},
        "visits": {"SUCCEEDED": 2, "FAILED": 1},
        "coadd": {"PRUNED": 2},
        "finalJob": {"SUCCEEDED": 1},
    }
    failed = demo("report", "--id", run).stdout
    assert "visits_2, attempt 2" in failed
    assert "tasks are done" not in failed  # of one command for all quanta of a job, nobody knows that

    cure.touch()
    ran = demo("restart", run)
    assert ran.returncode == 0, ran.stderr
    assert ended(demo, run)["state"] == "SUCCEEDED"
    collection = report["name"].replace("_", "/")
    assert len(demo.datasets("demo_calexp", collection)) == 12
    assert len(demo.datasets("demo_coadd", collection)) == 2


@pytest.mark.timeout(END_S)
def test_a_quantum_graph_is_made_again_if_the_restart_says_so(demo: Demo) -> None:
    said = demo.submitted(CLUSTERS, "--set", "payload.dataQuery=skymap='demosky' AND visit IN (1, 2)")
    run, root = said["id"], Path(said["submit_dir"])
    assert said["state"] == "SUCCEEDED"
    stays = "the quantum graph stays, although 'createQuantumGraph' has other words now"
    assert stays not in demo("restart", run, "--dry-run").stderr
    options = "extraQgraphOptions='--extend-run --skip-existing --clobber-outputs'"
    more = ("--set", "payload.dataQuery=skymap='demosky'", "--set", options)
    looked = demo("restart", run, "--dry-run", "--json", *more)
    assert looked.returncode == 0, looked.stderr
    assert looked.json["with_changes"] is False, "the jobs of the graph that stays are the same"
    assert any(stays in note for note in looked.json["notes"])

    # The output collection exists; what it has is not made again.
    ran = demo("restart", run, "--with-changes", "--new-graph", *more)
    assert ran.returncode == 0, ran.stderr
    assert [path.parent.name for path in root.glob("submissions/*/*.qg")] == ["0002"]
    assert ended(demo, run)["state"] == "SUCCEEDED"
    collection = demo("report", "--id", run, "--json").json["runs"][0]["name"].replace("_", "/")
    assert len(demo.datasets("demo_calexp", collection)) == 12
    assert demo("verify", run).returncode == 0
    assert stays not in demo("restart", run, "--dry-run").stderr


def test_a_pipeline_that_lssts_packages_refuse(demo: Demo) -> None:
    (demo.folder / "run.yaml").write_text(COMMON.replace("DemoCam/raw/all", "No/such/collection"), "utf-8")
    ran = demo("submit", "run.yaml")
    assert ran.returncode == 1  # which is pipetask's own
    assert "making the quantum graph failed: 'createQuantumGraph' ended with status 1" in ran.stderr
    assert "No/such/collection" in ran.stderr
    assert "quantumGraphGeneration.out'" in ran.stderr
