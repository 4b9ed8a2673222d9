"""What end-to-end tests on a real scheduler share: a site, runs of a few tasks, and waiting for what comes to be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Cli, Ran
from tests.e2e.conftest import ONE, Tasks, wfformat
from tests.live.pools import SlurmPool

from longshore.contract.context import RunPaths
from longshore.world.rundir import read_card

PATIENCE_S = 60.0
"""How long anything may take on a machine that is slow and busy."""


def until(is_so: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Wait for a condition, and return what it gave."""
    deadline = time.monotonic() + patience_s
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"{what} did not come to be within {patience_s:.0f} s"
        time.sleep(0.1)
    return found


@dataclass(frozen=True, kw_only=True)
class SlurmSite:
    """A site of a user's that is a cluster, and the command line of that user.

    Attributes
    ----------
    folder
        Where runs are submitted from.
    profile
        The site's profile.
    """

    cli: Cli
    pool: SlurmPool
    folder: Path
    profile: Path

    def describe(self, text: str = "", slurm: str = "", *, poll: str = "pollInterval: 0.5") -> None:
        """Write the profile: more keys of the site, and of its map ``slurm``."""
        keys = "".join(f"  {line}\n" for line in (f'config: "{self.pool.conf}"', poll, *slurm.splitlines()) if line)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: slurm\n{text}slurm:\n{keys}", "utf-8")

    def write(self, text: str, tasks: Tasks = ONE, *, name: str = "run") -> Path:
        """Write a run of tasks; `text` is more YAML."""
        (self.folder / f"{name}.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        path = self.folder / f"{name}.yaml"
        path.write_text(f"computeSite: cluster\nwfformat: {name}.json\nrequestMemory: 50\n{text}", "utf-8")
        return path

    def submit(self, text: str, tasks: Tasks = ONE, *, wait: bool = True, name: str = "run", **more: Any) -> Ran:
        """Submit a run of tasks."""
        words: list[str | Path] = [
            "submit",
            self.write(text, tasks, name=name),
            "--json",
            *(["--wait"] if wait else []),
        ]
        return self.cli(*words, timeout=300, **more)

    def begin(self, text: str, tasks: Tasks = ONE, *, name: str = "run", **more: Any) -> Path:
        """Submit a run, which goes on, and return its directory."""
        ran = self.submit(text, tasks, wait=False, name=name, **more)
        assert ran.returncode == 0, ran.stderr
        return Path(ran.json["submit_dir"])

    def report(self, run: Path | str) -> dict[str, Any]:
        """What is reported of a run."""
        ran = self.cli("report", run, "--json")
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = ran.json["runs"][0]
        return found

    def counts(self, run: Path | str) -> dict[str, int]:
        """Numbers of jobs per state, of those states in which there are any."""
        return {state: number for state, number in self.report(run)["counts"].items() if number}

    def ended(self, run: Path | str) -> dict[str, Any]:
        """What is reported of a run once it is over."""

        def over() -> dict[str, Any] | None:
            found = self.report(run)
            return found if found["state"] in {"SUCCEEDED", "FAILED", "DELETED"} else None

        report: dict[str, Any] = until(over, f"the end of {run}")
        return report

    def attempts(self, run: Path | str, job: str) -> list[dict[str, Any]]:
        """The attempts of a job."""
        ran = self.cli("explain", run, job, "--json")
        assert ran.returncode == 0, ran.stderr
        found: list[dict[str, Any]] = ran.json["attempts"]
        return found

    def queue(self, *words: str) -> list[str]:
        """Names of the jobs of a run that Slurm still has, a line per task."""
        lines = self.pool.run("squeue", "--noheader", "--array", "--format=%j", *words).splitlines()
        return [line.strip() for line in lines]


def mark_of(run: Path) -> str:
    """The mark of a run, with which the names of its jobs begin."""
    return read_card(RunPaths(run)).mark


def engine_of(run: Path) -> int:
    """Process number of a run's newest engine."""
    newest = max((run / "journal").glob("*.jsonl"))
    return int(json.loads(newest.read_text("utf-8").splitlines()[0])["pid"])


def many(number: int, label: str = "A") -> Tasks:
    """So many tasks that do not wait for each other."""
    tasks: Mapping[str, tuple[str, list[str]]] = {f"t{index}": (label, []) for index in range(number)}
    return tasks
