"""A graph that is handed to Slurm as a whole comes to its end by itself, and what became of it is told all the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import Cli, CommandResult
from tests.live.pools import SlurmPool
from tests.workflows import wfformat

pytestmark = pytest.mark.live

PATIENCE_S = 180.0
GRAPH = {
    **{f"a{number}": ("A", []) for number in range(3)},
    **{f"b{number}": ("B", [f"a{number}"]) for number in range(3)},
    "c": ("C", ["b0", "b1"]),
    "d": ("D", ["a0", "a1", "a2"]),
}


class Run:
    """A run without an engine."""

    def __init__(self, cli: Cli, pool: SlurmPool, folder: Path) -> None:
        self.cli = cli
        self.pool = pool
        self.root = folder / "submit"
        self._folder = folder

    def submit(self, command: str, *options: str, **more: Any) -> CommandResult:
        """Hand it over."""
        slurm = {"config": str(self.pool.conf), "mode": "native", "engineJob": {"mem": "300M"}}
        said = {
            "computeSite": "here",
            "site": {"here": {"service": "slurm", "slurm": slurm}},
            "requestMemory": 50,
            "submitPath": str(self.root),
            "runQuantumCommand": command,
            "wfformat": "graph.json",
            **more,
        }
        (self._folder / "graph.json").write_text(json.dumps(wfformat(GRAPH)), "utf-8")
        path = self._folder / "run.yaml"
        path.write_text(yaml.safe_dump(said), "utf-8")
        return self.cli("submit", path, "--json", *options)

    def report(self) -> Mapping[str, Any]:
        """What is known of it."""
        found: Mapping[str, Any] = self.cli("report", self.root, "--json").json["runs"][0]
        return found

    def counts(self) -> dict[str, int]:
        """Number of jobs per state."""
        return {state: number for state, number in self.report()["counts"].items() if number}

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.report()}"
            time.sleep(0.3)

    def is_collected(self) -> bool:
        """Whether the job that comes last has written the journal."""
        return (self.root / "wms" / "native-collected.json").exists()


@pytest.fixture
def run(cli: Cli, slurm_pool: SlurmPool, tmp_path: Path) -> Run:
    return Run(cli, slurm_pool, tmp_path)


FINAL = {"finalJob": {"whenRun": "ALWAYS", "command1": "echo last", "requestMemory": 50}}


def test_what_descends_from_a_failure_is_never_started(run: Run) -> None:
    done = run.submit("echo {jobName}; [ {jobName} != b1 ]", "--wait", **FINAL)
    assert done.returncode != 0
    assert run.counts() == {"SUCCEEDED": 7, "FAILED": 1, "PRUNED": 1}
    assert run.report()["state"] == "FAILED"
    run.until(run.is_collected, "nobody writes the journal")
    assert run.counts() == {"SUCCEEDED": 7, "FAILED": 1, "PRUNED": 1}
    assert not list(run.root.glob("logs/C/*/*"))
    assert [path.read_text("utf-8") for path in run.root.glob("logs/finalJob/*/*.log")] == ["+ echo last\nlast\n"]


def test_arrays_whose_members_correspond_fail_one_by_one(run: Run) -> None:
    done = run.submit("echo {jobName}; [ {jobName} != a1 ]", "--wait")
    assert done.returncode != 0
    # One after each, in one array: what fails ends its own descendants alone.
    assert "8 jobs are in 4 arrays" in " ".join(done.json["notes"])
    assert run.counts() == {"SUCCEEDED": 4, "FAILED": 1, "PRUNED": 3}
    run.until(run.is_collected, "nobody writes the journal")
    assert sorted(path.parts[-1] for path in run.root.glob("logs/B/*/*")) == ["b0.1.log", "b2.1.log"]


def test_it_can_be_cancelled_and_run_again_under_an_engine(run: Run) -> None:
    assert run.submit(f"echo {{jobName}}; [ -e {run.root}/go ] || sleep 60").returncode == 0
    run.until(lambda: run.counts().get("RUNNING") == 3, "nothing runs")
    # While Slurm runs it, it is looked into like any other.
    run.until(lambda: run.cli("logs", run.root, "a0").stdout == "a0\n", "there is no log")
    assert "a0 (" in (said := run.cli("explain", run.root, "a0").stdout), said
    assert "RUNNING" in said
    assert "UNREADY" in run.cli("explain", run.root, "c").stdout
    lines = run.cli("events", run.root).stdout.splitlines()
    assert sum('"started"' in line for line in lines) == 3
    assert not any('"ended"' in line for line in lines)
    assert run.cli("pause", run.root).returncode == 6, "there is no engine to pause"
    assert run.cli("cancel", run.root).returncode == 0
    run.until(lambda: run.report()["state"] == "DELETED", "it is not cancelled")
    assert run.counts() == {"DELETED": 8}
    run.until(run.is_collected, "nobody writes the journal")
    assert run.counts() == {"DELETED": 8}
    (run.root / "go").touch()
    assert run.cli("restart", run.root).returncode == 0
    run.until(lambda: run.report()["state"] == "SUCCEEDED", "it does not go well")
    assert run.counts() == {"SUCCEEDED": 8}


def test_what_is_not_taken_leaves_nothing(run: Run) -> None:
    done = run.submit("echo {jobName}", "--no-probe", pipetask={"C": {"slurm": {"partition": "gone"}}})
    assert done.returncode == 6
    assert "Slurm does not take job 'c'" in done.json["error"]["message"]
    assert not run.root.exists()
    names = run.pool.run("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%j")
    assert names.strip() == ""
