"""Real runs of LSST's from end to end: a repository, a pipeline, its graph, init job, quanta, final job, datasets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Cli, Ran

DATA = Path(__file__).resolve().parents[1] / "data" / "lsst"
END_S = 900

COMMON = """\
pipelineYaml: pipeline.yaml
payload:
  output: u/demo
  butlerConfig: repo
  inCollection: DemoCam/raw/all
  dataQuery: "skymap='demosky'"
defaultPreCmdOpts: "--log-level=WARNING"
finalJob: {finalPreCmdOpts: "--log-level=INFO"}
wmsServiceClass: local
"""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A Butler repository, and a command line beside it."""

    folder: Path
    cli: Cli
    env: Mapping[str, str]

    def __call__(self, *args: str | Path) -> Ran:
        return self.cli(*args, cwd=self.folder, env=self.env, timeout=END_S)

    def submitted(self, text: str, *args: str) -> Any:
        """What `submit --wait --json` says of a run of this configuration."""
        (self.folder / "run.yaml").write_text(COMMON + text, "utf-8")
        ran = self("submit", "run.yaml", "--wait", "--json", *args)
        assert ran.stdout, ran.stderr
        return ran.json

    def datasets(self, name: str, collection: str) -> list[Any]:
        """The content of all datasets of a type in a collection."""
        code = (
            "import json, sys\n"
            "from lsst.daf.butler import Butler\n"
            "butler = Butler.from_config('repo', collections=[sys.argv[2]])\n"
            "refs = butler.query_datasets(sys.argv[1], explain=False)\n"
            "print(json.dumps([butler.get(ref) for ref in refs]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, name, collection],
            cwd=self.folder,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=True,
        )
        found: list[Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def demo(tmp_path: Path, cli: Cli) -> Demo:
    """A repository with raw values of 3 visits and 4 detectors."""
    for name in ("demo_tasks.py", "pipeline.yaml"):
        shutil.copy(DATA / name, tmp_path)
    # Programs of these packages lie beside the Python that has them; what they load, beside the pipeline.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"PATH": path, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, DATA / "make_repo.py", "repo", "3", "4"], cwd=tmp_path, check=True)
    # What the command line needs to find the package under test comes with its fixture.
    source = str(Path(__file__).resolve().parents[2] / "python")
    env["PYTHONPATH"] = os.pathsep.join([source, env["PYTHONPATH"]]).rstrip(os.pathsep)
    return Demo(folder=tmp_path, cli=cli, env=env)


def ended(demo: Demo, run: str) -> Any:
    """The status of a run once it is over."""
    latest = time.monotonic() + END_S
    while time.monotonic() < latest:
        status = demo("status", run, "--json").json
        if status["state"] not in {"RUNNING", "PENDING", "READY", "UNREADY"}:
            return status
        time.sleep(1)
    raise AssertionError(f"the run has not ended within {END_S} s: {status}")


def test_a_pipeline_runs_from_its_graph_to_its_datasets(demo: Demo) -> None:
    said = demo.submitted("")
    run = Path(said["submit_dir"])
    assert said["state"] == "SUCCEEDED", demo("report", "--id", said["id"]).stdout
    report = demo("report", "--id", said["id"], "--json").json
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
    ran = demo("prepare", "run.yaml", "-g", graph, "--json")
    assert ran.returncode == 0, ran.stderr
    assert "'qgraphFile' is used as it is, and 'pipelineYaml' not read" in ran.stderr
    prepared = Path(ran.json["submit_dir"])
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


def test_quanta_that_fail_are_tried_again_and_what_needs_them_is_pruned_until_a_restart(demo: Demo) -> None:
    cure = demo.folder / "cure"
    said = demo.submitted(
        f"extraQgraphOptions: '-c isr:failVisit=2 -c isr:unlessThere={cure}'\n"
        "numberOfRetries: 1\n"
        "retryUnlessExit: null\n"
        "clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering\n"
        "cluster:\n"
        "  visits: {pipetasks: 'isr, calib', dimensions: visit}\n"
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


def test_a_pipeline_that_lssts_packages_refuse(demo: Demo) -> None:
    (demo.folder / "run.yaml").write_text(COMMON.replace("DemoCam/raw/all", "No/such/collection"), "utf-8")
    ran = demo("submit", "run.yaml")
    assert ran.returncode == 1  # which is pipetask's own
    assert "making the quantum graph failed: 'createQuantumGraph' ended with status 1" in ran.stderr
    assert "No/such/collection" in ran.stderr
    assert "quantumGraphGeneration.out'" in ran.stderr
