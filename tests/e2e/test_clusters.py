"""Several tasks in one job: packed by dimensions, in chains, up to a time, or by a function of the user's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli

PIPELINE = """
pipeline:
  dimensions: {visit: [9, 10], detector: [1, 2, 3]}
  datasets:
    raw: "{out}/{visit}-{detector}.raw"
    flat: "{out}/{visit}-{detector}.flat"
    sum: "{out}/{visit}.sum"
  tasks:
    isr:
      dimensions: [visit, detector]
      command: "echo isr {visit} {detector} >> {out}/said; touch {raw}"
      outputs: [raw]
    flatten:
      dimensions: [visit, detector]
      command: "echo flatten {visit} {detector} >> {out}/said; touch {flat}"
      inputs: [raw]
      outputs: [flat]
    add: {dimensions: [visit], command: "echo add {visit} >> {out}/said; touch {sum}", inputs: [flat], outputs: [sum]}
out: "${PWD}"
requestMemory: 10
"""

BY_VISIT = """
clusterAlgorithm: lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering
validateClusteredQgraph: true
cluster:
  instrument:
    pipetasks: isr, flatten
    dimensions: visit
    requestMemory: 20
"""


def written(tmp_path: Path, more: str, pipeline: str = PIPELINE) -> str:
    (tmp_path / "run.yaml").write_text(pipeline + more, "utf-8")
    return "run.yaml"


def finished(cli: Cli, path: str) -> dict[str, Any]:
    ran = cli("submit", path, "--wait", "--json", timeout=120)
    assert ran.returncode == 0, ran.stderr
    (found,) = cli("report", str(ran.json["submit_dir"]), "--json").json["runs"]
    return dict(found)


def labels(found: dict[str, Any]) -> dict[str, int]:
    return {label: sum(counts.values()) for label, counts in found["labels"].items()}


def test_dimensions_make_a_job_of_many_tasks(cli: Cli, tmp_path: Path) -> None:
    found = finished(cli, written(tmp_path, BY_VISIT))
    assert labels(found) == {"instrument": 2, "add": 2}
    assert {job["name"] for job in found["jobs"]} >= {"instrument_9", "instrument_10"}
    said = (tmp_path / "said").read_text("utf-8").splitlines()
    assert len(said) == 14
    for visit in (9, 10):
        for detector in (1, 2, 3):
            assert said.index(f"isr {visit} {detector}") < said.index(f"flatten {visit} {detector}")
            assert said.index(f"flatten {visit} {detector}") < said.index(f"add {visit}")


def test_a_job_goes_on_from_the_task_that_failed(cli: Cli, tmp_path: Path) -> None:
    failing = PIPELINE.replace("echo flatten", "test -e {out}/go || exit 1; echo flatten")
    ran = cli("submit", written(tmp_path, BY_VISIT, failing), "--wait", "--json", timeout=120)
    assert ran.returncode != 0
    (tmp_path / "go").touch()
    run = str(ran.json["submit_dir"])
    assert cli("restart", run).returncode == 0
    deadline = time.monotonic() + 120
    while cli("status", run).returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    said = (tmp_path / "said").read_text("utf-8").splitlines()
    assert len(said) == len(set(said)) == 14


def test_chains(cli: Cli, tmp_path: Path) -> None:
    found = finished(cli, written(tmp_path, "clusterAlgorithm: chain\n"))
    assert labels(found) == {"isr-flatten": 6, "add": 2}
    assert len((tmp_path / "said").read_text("utf-8").splitlines()) == 14


def test_short_tasks_are_packed_by_what_is_said_of_them_and_by_what_they_took(cli: Cli, tmp_path: Path) -> None:
    said = "clusterAlgorithm: runtime\nclusterRunTime: 90\npipetask: {isr: {expectedRunTime: 30}}\n"
    found = finished(cli, written(tmp_path, said))
    assert labels(found) == {"isr": 2, "flatten": 6, "add": 2}, "of 'isr' it is said, of the others nothing is known"
    again = finished(cli, written(tmp_path, said + "submitPath: again\n"))
    assert labels(again) == {"isr": 2, "flatten": 1, "add": 1}, "by now it is known how short they are"


def test_a_function_of_ones_own(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from longshore.model.tasks import Cluster, ClusteredGraph\n"
        "from longshore.model.tasks import Dag\n"
        "def all_in_one(graph, settings):\n"
        "    tasks = tuple(graph.dag)\n"
        "    name = settings.values['nameOfAll']\n"
        "    cluster = Cluster(name=name, label='all', tasks=tasks)\n"
        "    return ClusteredGraph(name=graph.name, dag=Dag([cluster], []), source=graph)\n"
        "def none(graph, settings):\n"
        "    return ClusteredGraph(name=graph.name, dag=Dag([], []), source=graph)\n"
        "def fails(graph, settings):\n"
        "    raise OSError('no disk')\n"
        "def odd(graph, settings):\n"
        "    return 5\n",
        "utf-8",
    )
    env = {"PYTHONPATH": str(tmp_path)}
    path = written(tmp_path, "clusterAlgorithm: mine.all_in_one\nnameOfAll: everything\n")
    ran = cli("submit", path, "--wait", "--json", env=env, timeout=120)
    assert ran.returncode == 0, ran.stderr
    (found,) = cli("report", str(ran.json["submit_dir"]), "--json").json["runs"]
    assert labels(dict(found)) == {"all": 1}
    assert len((tmp_path / "said").read_text("utf-8").splitlines()) == 14
    for name, words in {
        "mine.none": "the task 'isr_9_1' is in no cluster",
        "mine.fails": "'mine.fails' fails: OSError: no disk",
        "mine.odd": "'mine.odd' returns a int, and no ClusteredGraph",
        "mine.nothing": "the clustering algorithm 'mine.nothing' cannot be imported",
    }.items():
        ran = cli("submit", path, "--set", f"clusterAlgorithm={name}", env=env)
        assert ran.returncode in {3, 7}
        assert words in ran.stderr
    ran = cli("submit", path, "--set", "allowFunctions=false", env=env)
    assert ran.returncode == 3
    assert "'clusterAlgorithm: mine.all_in_one' calls a function, which 'allowFunctions' forbids" in ran.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("clusterAlgorithm: chains\n", "there is no clustering algorithm 'chains'"),
        (BY_VISIT.replace("visit\n", "visits\n"), "lacks 'visits', which the cluster 'instrument' needs"),
        (BY_VISIT.replace("isr, flatten", "isr, add"), "The clusters would wait for each other"),
        ("templateDataId: '{visit}'\n", "would both be named 'isr_9'"),
        ("clusterAlgorithm: runtime\nclusterRunTime: soon\n", "'clusterRunTime'"),
    ],
)
def test_what_cannot_be_packed_is_refused_with_a_way_out(more: str, words: str, cli: Cli, tmp_path: Path) -> None:
    ran = cli("submit", written(tmp_path, more))
    assert ran.returncode in {3, 7}
    assert words in ran.stderr
    assert not (tmp_path / "submit").exists()


def test_jobs_of_one_task_are_named_by_a_template(cli: Cli, tmp_path: Path) -> None:
    found = finished(cli, written(tmp_path, "templateDataId: 'v{visit:03}_{detector}'\n"))
    names = {job["name"] for job in found["jobs"]}
    assert {"isr_v009_1", "flatten_v010_3", "add_v009_"} <= names
