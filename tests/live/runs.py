"""What end-to-end tests on a real scheduler share: a site, runs of a few tasks, and waiting for what comes to be."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.command import Cli, CommandResult
from tests.live.pools import SlurmPool
from tests.workflows import ONE, Tasks, wfformat

from longshore.contract.context import RunPaths
from longshore.world.runs.run_directory import read_card

PATIENCE_S = 120.0
"""How long anything may take on a machine that is slow and busy."""

ENDS = frozenset({"SUCCEEDED", "FAILED", "DELETED"})
CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"]), "d": ("D", [])}
WORKFLOWS = Path(__file__).resolve().parents[1] / "data" / "wfinstances"
"""Real workflows, as WfCommons publishes them."""


def until(is_so: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Wait for a condition, and return what it gave."""
    deadline = time.monotonic() + patience_s
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"{what} did not come to be within {patience_s:.0f} s"
        time.sleep(0.1)
    return found


@dataclass(frozen=True, kw_only=True)
class LiveSite:
    """The command line of a user who has a real scheduler.

    Attributes
    ----------
    folder
        Where runs are submitted from.
    """

    head: ClassVar[str]
    """The YAML that chooses this site."""

    cli: Cli
    folder: Path

    def write(self, text: str, tasks: Tasks = ONE, *, name: str = "run") -> Path:
        """Write a run of tasks; `text` is more YAML."""
        (self.folder / f"{name}.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        path = self.folder / f"{name}.yaml"
        path.write_text(f"{self.head}wfformat: {name}.json\nrequestMemory: 50\npayloadName: {name}\n{text}", "utf-8")
        return path

    def submit(
        self, text: str, tasks: Tasks = ONE, *, wait: bool = True, name: str = "run", **more: Any
    ) -> CommandResult:
        """Submit a run of tasks."""
        words = ["--wait"] if wait else []
        return self.cli("submit", self.write(text, tasks, name=name), "--json", *words, timeout=300, **more)

    def begin(self, text: str, tasks: Tasks = ONE, *, name: str = "run", **more: Any) -> Path:
        """Submit a run, which goes on, and return its directory."""
        ran = self.submit(text, tasks, wait=False, name=name, **more)
        assert ran.returncode == 0, ran.stderr
        return Path(ran.json["submit_dir"])

    def replay(self, name: str) -> Path:
        """Run one of the real workflows of the tests' data to its end, and return its directory."""
        path = self.folder / "run.yaml"
        path.write_text(
            f"{self.head}wfformat: {WORKFLOWS / name}.json\nreplay: {{timeScale: 0, outputScale: 0.000001}}\n"
            "requestMemory: 20\n",
            "utf-8",
        )
        ran = self.cli("submit", path, "--wait", "--json", timeout=300)
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
            return found if found["state"] in ENDS else None

        report: dict[str, Any] = until(over, f"the end of {run}")
        return report

    def attempts(self, run: Path | str, job: str) -> list[dict[str, Any]]:
        """The attempts of a job."""
        ran = self.cli("explain", run, job, "--json")
        assert ran.returncode == 0, ran.stderr
        found: list[dict[str, Any]] = ran.json["attempts"]
        return found

    def memory_mb(self, attempt: Mapping[str, Any]) -> int:
        """The memory that an attempt was given, as far as its scheduler tells."""
        return int(attempt["request"]["memory_b"]) >> 20


@dataclass(frozen=True, kw_only=True)
class SlurmSite(LiveSite):
    """A site of a user's that is a cluster.

    Attributes
    ----------
    profile
        The site's profile.
    """

    head = "computeSite: cluster\n"

    pool: SlurmPool
    profile: Path

    def describe(self, text: str = "", slurm: str = "", *, poll: str = "pollInterval: 0.5") -> None:
        """Write the profile: more keys of the site, and of its map ``slurm``."""
        keys = "".join(f"  {line}\n" for line in (f'config: "{self.pool.conf}"', poll, *slurm.splitlines()) if line)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: slurm\n{text}slurm:\n{keys}", "utf-8")

    def queue(self, *words: str) -> list[str]:
        """Names of the jobs of a run that Slurm still has, a line per task."""
        lines = self.pool.run("squeue", "--noheader", "--array", "--format=%j", *words).splitlines()
        return [line.strip() for line in lines]


def run_token(run: Path) -> str:
    """Return the run token, with which the names of the jobs begin."""
    return read_card(RunPaths(run)).run_token


def many(number: int, label: str = "A") -> Tasks:
    """So many tasks that do not wait for each other."""
    tasks: Mapping[str, tuple[str, list[str]]] = {f"t{index}": (label, []) for index in range(number)}
    return tasks
