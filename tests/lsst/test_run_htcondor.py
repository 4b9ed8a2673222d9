"""A real LSST run on a real pool: init job, clusters of quanta, final job, datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.condor_pools import condor
from tests.lsst.demo import CLUSTERS, COMMON, END_S, made

SITE = "wmsServiceClass: htcondor\ncomputeSite: pool\nsite: {pool: {}}\n"
# As it is, the final job wants more processors than the pool has.
FINAL = "finalJob: {requestCpus: 1, requestMemory: 2048}\n"


@pytest.mark.live
@pytest.mark.timeout(END_S)
def test_a_pipeline_runs_in_a_pool(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = made(tmp_path, cli)
    with condor(tmp_path / "pool", POOL_CPUS="2") as pool:
        monkeypatch.setenv("CONDOR_CONFIG", str(pool.config))
        text = COMMON.replace("wmsServiceClass: local\n", SITE) + CLUSTERS + FINAL
        (tmp_path / "run.yaml").write_text(text, "utf-8")
        ran = demo("submit", "run.yaml", "--wait", "--json")
        assert ran.returncode == 0, ran.stderr
        report = demo("report", "--id", ran.json["id"], "--json").json["runs"][0]
        assert pool.queue("ClusterId") == []
    assert report["global_id"].endswith(f"#{ran.json['id']}#{report['global_id'].rpartition('#')[2]}")
    states = {label: {state: n for state, n in counts.items() if n} for label, counts in report["labels"].items()}
    assert states == {
        "pipetaskInit": {"SUCCEEDED": 1},
        "visits": {"SUCCEEDED": 3},
        "coadd": {"SUCCEEDED": 2},
        "finalJob": {"SUCCEEDED": 1},
    }
    collection = report["name"].replace("_", "/")
    assert len(demo.datasets("demo_calexp", collection)) == 12
    assert len(demo.datasets("demo_coadd", collection)) == 2
