"""What end-to-end tests on a real pool of HTCondor's share: the command line, and runs of a few tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Cli, Ran
from tests.e2e.conftest import ONE, Tasks, wfformat
from tests.live.condor_pools import CondorPool
from tests.live.runs import until

SITE = "wmsServiceClass: htcondor\ncomputeSite: here\nsite: {here: {}}\n"
ENDS = frozenset({"SUCCEEDED", "FAILED", "DELETED"})


@dataclass(frozen=True, kw_only=True)
class CondorSite:
    """A user's command line where a pool is.

    Attributes
    ----------
    folder
        Where runs are submitted from.
    """

    cli: Cli
    pool: CondorPool
    folder: Path

    def write(self, text: str, tasks: Tasks = ONE, *, name: str = "run") -> Path:
        """Write a run of tasks; `text` is more YAML."""
        (self.folder / f"{name}.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        path = self.folder / f"{name}.yaml"
        path.write_text(f"{SITE}wfformat: {name}.json\nrequestMemory: 50\npayloadName: {name}\n{text}", "utf-8")
        return path

    def submit(self, text: str, tasks: Tasks = ONE, *, wait: bool = True, name: str = "run") -> Ran:
        """Submit a run of tasks."""
        words = ["--wait"] if wait else []
        return self.cli("submit", self.write(text, tasks, name=name), "--json", *words, timeout=300)

    def begin(self, text: str, tasks: Tasks = ONE, *, name: str = "run") -> Path:
        """Submit a run, which goes on, and return its directory."""
        ran = self.submit(text, tasks, wait=False, name=name)
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

        report: dict[str, Any] = until(over, f"the end of {run}", patience_s=120)
        return report

    def attempts(self, run: Path | str, job: str) -> list[dict[str, Any]]:
        """The attempts of a job."""
        ran = self.cli("explain", run, job, "--json")
        assert ran.returncode == 0, ran.stderr
        found: list[dict[str, Any]] = ran.json["attempts"]
        return found

    def job(self, run: Path, name: str) -> str:
        """What HTCondor calls the job of a run that is in its queue; empty where there is none."""
        mark = json.loads((run / "run.json").read_text("utf-8"))
        known = f"{mark['id']}-{mark['key']}" if mark.get("key") else mark["id"]
        constraint = f'LongshoreRun == "{known}" && LongshoreName == "{name}" && JobUniverse == 5'
        rows = self.pool.queue("ClusterId", constraint=constraint)
        return rows[0][0] if rows else ""
