"""Helpers of end-to-end tests on real schedulers: a site, small runs, and waits."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tests.command import Cli, CommandResult
from tests.live.pools import SlurmPool
from tests.waiting import rest
from tests.workflows import ONE, Tasks, wfformat

from longshore.contract.service import RunPaths
from longshore.rundir.run_directory import read_card

PATIENCE_S = 120.0
"""Time limit in seconds of any wait on a slow machine."""

ENDS = frozenset({"SUCCEEDED", "FAILED", "DELETED"})
CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"]), "d": ("D", [])}
WORKFLOWS = Path(__file__).resolve().parents[1] / "data" / "wfinstances"
"""Real workflows published by WfCommons."""


def until(is_so: Callable[[], Any], what: str, *, patience_s: float = PATIENCE_S) -> Any:
    """Wait until a condition holds and return its value."""
    deadline = time.monotonic() + patience_s
    while True:
        began = time.monotonic()
        if found := is_so():
            return found
        assert time.monotonic() < deadline, f"{what} did not come to be within {patience_s:.0f} s"
        rest(began, 0.1)


@dataclass(frozen=True, kw_only=True)
class LiveSite:
    """A user's command line beside a real scheduler.

    Attributes
    ----------
    folder
        Where runs are submitted from.
    """

    head: ClassVar[str]
    """Return the YAML that selects this site."""

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
        # What a test makes of a cluster is met by the engine.
        words = ["--no-probe", *(["--wait"] if wait else [])]
        return self.cli("submit", self.write(text, tasks, name=name), "--json", *words, timeout=300, **more)

    def begin(self, text: str, tasks: Tasks = ONE, *, name: str = "run", **more: Any) -> Path:
        """Submit a run without waiting and return its directory."""
        ran = self.submit(text, tasks, wait=False, name=name, **more)
        assert ran.returncode == 0, ran.stderr
        return Path(ran.json["submit_dir"])

    def replay(self, name: str, text: str = "") -> Path:
        """Run a real workflow of the test data to its end and return its directory; `text` is more YAML."""
        path = self.folder / "run.yaml"
        path.write_text(
            f"{self.head}wfformat: {WORKFLOWS / name}.json\nreplay: {{timeScale: 0, outputScale: 0.000001}}\n"
            f"requestMemory: 20\n{text}",
            "utf-8",
        )
        ran = self.cli("submit", path, "--wait", "--json", timeout=300)
        assert ran.returncode == 0, ran.stderr
        return Path(ran.json["submit_dir"])

    def report(self, run: Path | str) -> dict[str, Any]:
        """Return the report of a run."""
        ran = self.cli("report", run, "--json")
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = ran.json["runs"][0]
        return found

    def counts(self, run: Path | str) -> dict[str, int]:
        """Return the job counts of all states with jobs."""
        return {state: number for state, number in self.report(run)["counts"].items() if number}

    def ended(self, run: Path | str) -> dict[str, Any]:
        """Wait for the end of a run and return its report."""

        def over() -> dict[str, Any] | None:
            found = self.report(run)
            return found if found["state"] in ENDS else None

        report: dict[str, Any] = until(over, f"the end of {run}")
        return report

    def attempts(self, run: Path | str, job: str) -> list[dict[str, Any]]:
        """Return the attempts of a job."""
        ran = self.cli("explain", run, job, "--json")
        assert ran.returncode == 0, ran.stderr
        found: list[dict[str, Any]] = ran.json["attempts"]
        return found

    def memory_mb(self, attempt: Mapping[str, Any]) -> int:
        """Return an attempt's granted memory as its scheduler reports it."""
        return int(attempt["request"]["memory_b"]) >> 20


DIALECT_SITES = {
    "slurm-accounting": "kept_site",
    "slurm-no-accounting": "bare_site",
    "sge": "sge_site",
    "lsf": "lsf_site",
}
"""Fixtures of the sites that the tests of every dialect run on."""


@dataclass(frozen=True, kw_only=True)
class DialectSite(LiveSite, ABC):
    """A user's site on a batch system: what the tests of every dialect need of it.

    Attributes
    ----------
    profile
        The site's profile.
    """

    head = "computeSite: cluster\n"
    title: ClassVar[str]
    """Name of the batch system in messages."""
    processors: ClassVar[int]
    """Processors of all nodes: so many small jobs run at once."""
    node_processors: ClassVar[int]
    """Processors of the largest node."""
    engine_job: ClassVar[str]
    """Lines of the service's map that let the engine run as a job."""
    native: ClassVar[str]
    """Lines of the service's map for `mode: native`; empty if the dialect has no dependencies."""
    held_reason: ClassVar[str]
    """Reason of a job that a person holds."""
    release_program: ClassVar[str]
    """Command that releases it, as the report names it."""
    program_names: ClassVar[tuple[str, ...]]
    """Programs of the batch system that Longshore calls."""
    silence: ClassVar[str]
    """What they print when no controller answers."""

    profile: Path

    @abstractmethod
    def configure(self, own: str) -> None:
        """Write the profile with additional lines of the service's map."""

    @abstractmethod
    def tasks(self, run: Path, *, waiting: bool = False) -> list[str]:
        """Return the ids of a run's tasks that are not over, or of those that wait."""

    @property
    def search_path(self) -> str:
        """Where the programs are."""
        return os.environ["PATH"]

    @abstractmethod
    def use_programs(self, folder: Path) -> dict[str, str]:
        """Have Longshore call the programs of a folder, in the environment that is returned."""

    @abstractmethod
    def hold(self, task: str) -> None:
        """Hold a waiting task by hand."""

    @abstractmethod
    def release(self, task: str) -> None:
        """Release a held task by hand."""


@dataclass(frozen=True, kw_only=True)
class SlurmSite(DialectSite):
    """A user's site on a Slurm cluster."""

    title = "Slurm"
    processors = 16
    node_processors = 4
    engine_job = "engineAs: job\nengineJob: {mem: 200M}"
    native = "mode: native\nengineJob: {mem: 300M}"
    held_reason = "JobHeld"
    release_program = "scontrol release"
    program_names = ("sbatch", "squeue", "sacct", "scontrol", "scancel")
    silence = "error: Unable to contact slurm controller (connect failure)"

    pool: SlurmPool

    def configure(self, own: str) -> None:
        """Write the profile with additional lines of the map ``slurm``."""
        self.describe(slurm=own)

    def tasks(self, run: Path, *, waiting: bool = False) -> list[str]:
        """Return the ids of a run's tasks that are not over, or of those that wait."""
        states = "PENDING" if waiting else "PENDING,RUNNING,COMPLETING"
        lines = self.pool.run("squeue", "--noheader", "--array", f"--states={states}", "--format=%i %j").splitlines()
        return [line.split()[0] for line in lines if line.split()[1].startswith(run_token(run))]

    def use_programs(self, folder: Path) -> dict[str, str]:
        """Return an environment in which the programs of a folder come first."""
        return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def hold(self, task: str) -> None:
        """Hold a waiting task by hand."""
        self.pool.run("scontrol", "hold", task)

    def release(self, task: str) -> None:
        """Release a held task by hand."""
        self.pool.run("scontrol", "release", task)

    def describe(self, text: str = "", slurm: str = "", *, poll: str = "pollInterval: 0.5") -> None:
        """Write the profile with additional keys of the site and of its map ``slurm``."""
        keys = "".join(f"  {line}\n" for line in (f'config: "{self.pool.conf}"', poll, *slurm.splitlines()) if line)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: slurm\n{text}slurm:\n{keys}", "utf-8")

    def queue(self, *words: str) -> list[str]:
        """Return the names of a run's jobs in Slurm's queue, one line per task."""
        lines = self.pool.run("squeue", "--noheader", "--array", "--format=%j", *words).splitlines()
        return [line.strip() for line in lines]


def run_token(run: Path) -> str:
    """Return the run token, the prefix of job names."""
    return read_card(RunPaths(run)).run_token


def many(number: int, label: str = "A") -> Tasks:
    """Return ``number`` independent tasks."""
    tasks: Mapping[str, tuple[str, list[str]]] = {f"t{index}": (label, []) for index in range(number)}
    return tasks
