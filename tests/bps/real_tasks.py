"""A small Butler repository beside the real BPS, and a shell in that environment."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bps_environment import BpsEnvironment

DATA = Path(__file__).resolve().parents[1] / "data" / "lsst"
END_S = 900

PAYLOAD = """\
pipelineYaml: pipeline.yaml
payload:
  payloadName: demo
  butlerConfig: repo
  inCollection: DemoCam/raw/all
  dataQuery: "skymap='demosky'"
requestMemory: 512
finalJob: {requestCpus: 1, requestMemory: 512}
"""

_COUNT = """
import json, sys
from lsst.daf.butler import Butler
butler = Butler.from_config("repo", collections=[sys.argv[1]])
print(json.dumps([len(butler.query_datasets(name, explain=False)) for name in sys.argv[2:]]))
"""


@dataclass(frozen=True, kw_only=True)
class BpsShell:
    """Runs programs of the environment with the real BPS in a folder; runs of Longshore are known in it alone."""

    folder: Path
    env: Mapping[str, str]

    def __call__(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            list(words), cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=END_S
        )
        assert not check or done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done

    def python(self, code: str, *args: str | Path) -> Any:
        """Run a program of Python, and return the JSON in the last line that it prints."""
        return json.loads(self("python", "-c", code, *args).stdout.splitlines()[-1])

    def count_datasets(self, collection: str, *names: str) -> list[int]:
        """Return the number of datasets of each type in a collection."""
        found: list[int] = self.python(_COUNT, collection, *names)
        return found


def bps_shell(folder: Path, bps: BpsEnvironment) -> BpsShell:
    """Return a shell whose runs are registered in the folder."""
    # BPS puts submit directories below PWD.
    state = {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(folder), "PWD": str(folder)}
    return BpsShell(folder=folder, env=bps.variables(state))


def make_repository(shell: BpsShell, visits: int, detectors: int) -> None:
    """Make a repository with raw values of some visits and detectors, and tasks that read them."""
    for name in ("demo_tasks.py", "pipeline.yaml"):
        shutil.copy(DATA / name, shell.folder)
    shell("python", DATA / "make_repo.py", "repo", str(visits), str(detectors))
