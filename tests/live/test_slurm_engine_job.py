"""An engine that is a job of the cluster itself: it is requeued, goes on where it was, and can be cancelled unbegun."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import Cli
from tests.live.pools import SlurmPool

pytestmark = pytest.mark.live

PATIENCE_S = 180.0


class Run:
    """A run whose engine is a job."""

    def __init__(self, cli: Cli, pool: SlurmPool, folder: Path) -> None:
        self.cli = cli
        self.pool = pool
        self.folder = folder
        self.root = Path()

    def submit(self, *, seconds: float, jobs: int = 4, notify: str = "", **engine: Any) -> str:
        """Hand it over; returns what was said of its engine. `notify` is a command for the end of the run."""
        slurm = {
            "config": str(self.pool.conf),
            "pollInterval": 0.5,
            "engineAs": "job",
            "engineJob": {"mem": "200M", **engine},
        }
        said = {
            "computeSite": "here",
            "site": {"here": {"service": "slurm", "slurm": slurm}},
            "requestMemory": 50,
            "submitPath": str(self.folder / "submit"),
            "pipeline": {
                "dimensions": {"n": list(range(jobs))},
                "tasks": {"step": {"dimensions": ["n"], "command": f"echo begun; sleep {seconds}"}},
            },
        }
        if notify:
            said["notify"] = {"end": {"command": notify}}
        path = self.folder / "run.yaml"
        path.write_text(yaml.safe_dump(said), "utf-8")
        done = self.cli("submit", path, "--json")
        assert done.returncode == 0, done.stderr
        self.root = self.folder / "submit"
        return " ".join(done.json["notes"])

    @property
    def engine(self) -> str:
        """Slurm's id of the engine's job."""
        return str(json.loads((self.root / "wms" / "engine-job.json").read_bytes())["id"])

    def state(self) -> str:
        """The state of the run."""
        return str(self.cli("status", self.root).stdout.split()[0])

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            log = self.root / "engine.log"
            assert time.monotonic() < deadline, f"{what}\n{log.read_text('utf-8') if log.exists() else ''}"
            time.sleep(0.2)

    def lives(self) -> int:
        """How many engines there have been."""
        return len(list((self.root / "journal").glob("*.jsonl")))

    def logs(self) -> list[str]:
        """What each attempt said."""
        return [path.read_text("utf-8") for path in sorted(self.root.glob("logs/step/*/*.log"))]


@pytest.fixture
def run(cli: Cli, slurm_pool: SlurmPool, tmp_path: Path) -> Run:
    return Run(cli, slurm_pool, tmp_path)


@pytest.mark.parametrize("how", ["requeue", "warning"])
def test_it_goes_on_where_it_was(run: Run, how: str) -> None:
    run.submit(seconds=15)
    run.until(lambda: len(run.logs()) == 4, "the jobs do not begin")
    if how == "requeue":
        run.pool.run("scontrol", "requeue", run.engine)
    else:
        # What Slurm sends when the time of the engine is nearly over.
        run.pool.run("scancel", "--batch", "--signal=USR1", run.engine)
    run.until(lambda: run.lives() == 2, "no other engine begins")
    run.until(lambda: run.state() != "RUNNING", "the run does not end")
    assert run.state() == "SUCCEEDED"
    assert run.logs() == ["begun\n"] * 4, "and nothing ran twice"


def test_one_that_waits_is_no_dead_one_and_can_be_cancelled(run: Run) -> None:
    notes = run.submit(seconds=1, sbatch=["--hold"])
    assert "waits in the queue" in notes
    assert run.state() == "RUNNING"
    assert "its engine has not begun" in run.cli("report", run.root).stdout
    assert run.cli("resume", run.root).returncode == 6, "it is refused: there is an engine"
    done = run.cli("cancel", run.root)
    assert done.returncode == 0, done.stderr
    run.until(lambda: run.state() == "DELETED", "it is not cancelled")
    assert run.engine not in run.pool.run("squeue", "--noheader", "--format=%i").split()
    assert run.logs() == []


def test_one_that_is_not_taken_leaves_nothing(run: Run, cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Slurm does not take the engine"):
        run.submit(seconds=1, partition="gone")
    assert not (tmp_path / "submit").exists()


def test_the_last_notice_is_sent_before_the_job_of_the_engine_ends(run: Run, tmp_path: Path) -> None:
    told = tmp_path / "told"
    # Slower than the end of the engine, which would take the notifier with it.
    run.submit(seconds=0, jobs=1, notify=f"sleep 5; echo $LONGSHORE_STATE > {told}")
    run.until(told.exists, "no notice is sent")
    run.until(lambda: told.read_text("utf-8") == "SUCCEEDED\n", "the notice is not whole")
    run.until(lambda: not run.pool.run("squeue", "--noheader", "--format=%i").split(), "the job of the engine stays")
