"""A user's site on a cluster of LSF's stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.live.runs import DialectSite, run_token
from tests.services.lsf import lsf_programs


@dataclass(frozen=True, kw_only=True)
class LsfSite(DialectSite):
    """A user's site.

    Attributes
    ----------
    programs
        Folder of the programs.
    """

    title = "LSF"
    processors = lsf_programs.SLOTS
    node_processors = lsf_programs.SLOTS
    engine_job = "engineAs: job"
    native = "mode: native"
    held_reason = "PSUSP"
    release_program = "bresume"
    program_names = ("bsub", "bjobs", "bkill")
    silence = "Cannot connect to LSF. Please wait ..."

    programs: Path

    def configure(self, own: str) -> None:
        """Write the profile with additional lines of the map ``lsf``."""
        self.describe(lsf=own)

    def describe(self, text: str = "", lsf: str = "", *, poll: str = "pollInterval: 0.3") -> None:
        """Write the profile with more keys of the site and of its map ``lsf``."""
        own = [f'envdir: "{self.conf}"', poll, *lsf.splitlines()]
        keys = "".join(f"  {line}\n" for line in own)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: lsf\n{text}lsf:\n{keys}", "utf-8")

    def tasks(self, run: Path, *, waiting: bool = False) -> list[str]:
        """Return the ids of a run's elements that are not over, or of those that wait."""
        over = {"DONE", "EXIT"}
        return [
            name
            for name, element in self.elements(run_token(run)).items()
            if (element["stat"] in {"PEND", "PSUSP"} if waiting else element["stat"] not in over)
        ]

    @property
    def search_path(self) -> str:
        """Where the programs are."""
        return str(self.programs)

    def use_programs(self, folder: Path) -> dict[str, str]:
        """Return an environment in which the programs of a folder come first."""
        return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def hold(self, task: str) -> None:
        """Hold a waiting element by hand."""
        self.order("bstop", task)

    def release(self, task: str) -> None:
        """Release a held element by hand."""
        self.order("bresume", task)

    @property
    def conf(self) -> Path:
        """Return the folder of the cluster's files."""
        return self.programs.parent / "conf"

    def elements(self, prefix: str = "") -> dict[str, dict[str, Any]]:
        """Return what LSF knows of each element of its jobs whose names begin so."""
        path = self.conf / "jobs.json"
        jobs = json.loads(path.read_text("utf-8")) if path.exists() else {}
        return {
            f"{number}[{index}]" if index != "0" else number: element
            for number, job in jobs.items()
            for index, element in job["elements"].items()
            if job["name"].startswith(prefix)
        }

    def order(self, program: str, *words: str, stand_in: str = "") -> None:
        """Run a program of LSF as a person would."""
        env = {"LSF_ENVDIR": str(self.conf), "STAND_IN_WORDS": stand_in, "PATH": os.defpath}
        subprocess.run([self.programs / program, *words], check=True, capture_output=True, env=env)

    def fault(self, name: str, calls: int) -> None:
        """Let calls go wrong; see `lsf_programs`."""
        (self.conf / f"fault-{name}").write_text(str(calls), "utf-8")

    def faults_left(self, name: str) -> int:
        """Return how many calls are still to go wrong."""
        return int((self.conf / f"fault-{name}").read_text("utf-8"))

    def calls(self, program: str) -> list[str]:
        """Return all calls of a program so far."""
        lines = (self.conf / "calls").read_text("utf-8").splitlines()
        return [line for line in lines if line.split()[0] == program]

    def log(self) -> Iterator[str]:
        """Return the scripts that LSF has, oldest first."""
        for path in sorted(self.conf.glob("*.sh")):
            yield path.read_text("utf-8")


def make_programs(folder: Path) -> Path:
    """Make LSF's programs in a folder; return the folder to put into PATH."""
    return lsf_programs.install(folder)
