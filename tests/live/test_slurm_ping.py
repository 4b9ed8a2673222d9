"""A real cluster says what it has, and what is wrong with what a site names; nothing is submitted by asking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import Cli, CommandResult
from tests.live.pools import SlurmPool

pytestmark = pytest.mark.live


@pytest.fixture
def ask(cli: Cli, slurm_pool: SlurmPool, tmp_path: Path) -> Callable[..., CommandResult]:
    """Asks with what a site says."""

    def ask(**site: Any) -> CommandResult:
        said = {"service": "slurm", **site, "slurm": {"config": str(slurm_pool.conf), **site.get("slurm", {})}}
        path = tmp_path / "run.yaml"
        path.write_text(yaml.safe_dump({"computeSite": "here", "site": {"here": said}}), "utf-8")
        return cli("ping", "--config", path, "--json")

    return ask


def test_a_cluster_that_can_be_used(ask: Callable[..., CommandResult], slurm_pool: SlurmPool) -> None:
    before = slurm_pool.run("squeue", "--noheader", "--states=all", "--format=%i")
    done = ask(slurm={"partition": "main"}, partitions=[{"name": "short"}])
    assert done.returncode == 0, done.stdout
    report = done.json
    assert report["message"] == "the controller answers"
    details = report["details"]
    assert details["version"][0].isdigit()
    assert (
        "main (default): up, 4 nodes, any time; scavenge: up, 4 nodes, any time; short: up, 1 node, at most"
        in details["partitions"]
    )
    assert details["squeue"] == "works"
    assert details["limits"].startswith("arrays of 10000")
    assert report["capacity"]["cpus"] == 4
    if slurm_pool.accounting:
        assert details["sacct"] == "works"
        assert "test" in details["accounts"].split(", ")
        assert details["qos"] == "high, low, normal"
    else:
        assert "this cluster keeps no accounts" in details["sacct"]
        assert "peak memory" in details["sacct"]
    assert slurm_pool.run("squeue", "--noheader", "--states=all", "--format=%i") == before


def test_what_a_site_names_and_is_not_there(ask: Callable[..., CommandResult], slurm_pool: SlurmPool) -> None:
    done = ask(accountingGroup="nobody", qos="nope", partitions=[{"name": "gone"}])
    assert done.returncode == 7
    message = done.json["message"]
    assert "there is no partition 'gone'" in message
    assert ("this user may not charge the account 'nobody'" in message) is slurm_pool.accounting
    assert ("there is no QOS 'nope'" in message) is slurm_pool.accounting
    if not slurm_pool.accounting:
        assert "account 'nobody' and QOS 'nope' cannot be checked" in done.json["details"]["accounts"]


def test_a_partition_that_is_down(ask: Callable[..., CommandResult], slurm_pool: SlurmPool) -> None:
    slurm_pool.run("scontrol", "update", "PartitionName=short", "State=DOWN")
    try:
        done = ask(queue="short")
    finally:
        slurm_pool.run("scontrol", "update", "PartitionName=short", "State=UP")
    assert done.returncode == 0
    assert done.json["notes"] == ["the partition 'short' is down: jobs wait until that changes"]


def test_a_cluster_that_is_not_there(ask: Callable[..., CommandResult], tmp_path: Path) -> None:
    done = ask(slurm={"config": str(tmp_path / "no.conf")})
    assert done.returncode == 4
    assert done.json["message"] == f"'slurm.config' is '{tmp_path}/no.conf', which is not there"
