"""A small Butler repository, the documented runs, and the command line that starts them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import Cli, CommandResult

DATA = Path(__file__).resolve().parents[1] / "data" / "lsst"
END_S = 900

PAGE = (Path(__file__).resolve().parents[2] / "doc" / "how-to" / "run-lsst-pipelines.md").read_text("utf-8")
COMMON = PAGE.split("```yaml\n")[1].split("```")[0]
CLUSTERS = PAGE.split("```yaml\n")[2].split("```")[0]
SUBMIT, PREPARE = (fence.split("```")[0] for fence in PAGE.split("```sh\n")[1:])
"""Files and commands come from the documentation, so that the tests check it."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A Butler repository, and a command line beside it."""

    folder: Path
    cli: Cli
    env: Mapping[str, str]

    def __call__(self, *args: str | Path) -> CommandResult:
        return self.cli(*args, cwd=self.folder, env=self.env, timeout=END_S)

    def typed(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Run commands in a shell and return the result."""
        program = self.folder / "bin" / "longshore"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m longshore "$@"\n', "utf-8")
        program.chmod(0o755)
        path = os.pathsep.join([str(program.parent), self.env["PATH"]])
        done = subprocess.run(
            ["/bin/sh", "-ec", commands],
            cwd=self.folder,
            env={**os.environ, **self.env, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done

    def submitted(self, text: str, *args: str) -> Any:
        """Return the document of `submit --wait --json` for a configuration."""
        (self.folder / "run.yaml").write_text(COMMON + text, "utf-8")
        ran = self("submit", "run.yaml", "--wait", "--json", *args)
        assert ran.stdout, ran.stderr
        return ran.json

    def datasets(self, name: str, collection: str) -> list[Any]:
        """Return the content of all datasets of a type in a collection."""
        code = (
            "import json, sys\n"
            "from lsst.daf.butler import Butler\n"
            "butler = Butler.from_config('repo', collections=[sys.argv[2]])\n"
            "refs = butler.query_datasets(sys.argv[1], explain=False)\n"
            "print(json.dumps([butler.get(ref) for ref in refs]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, name, collection],
            cwd=self.folder,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=True,
        )
        found: list[Any] = json.loads(done.stdout)
        return found


def made(folder: Path, cli: Cli) -> Demo:
    """Make a repository with raw values of 3 visits and 4 detectors."""
    for name in ("demo_tasks.py", "pipeline.yaml"):
        shutil.copy(DATA / name, folder)
    # Programs of these packages lie beside the Python that has them; what they load, beside the pipeline.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"PATH": path, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, DATA / "make_repo.py", "repo", "3", "4"], cwd=folder, check=True)
    # What the command line needs to find the package under test comes with its fixture.
    source = str(Path(__file__).resolve().parents[2] / "python")
    env["PYTHONPATH"] = os.pathsep.join([source, env["PYTHONPATH"]]).rstrip(os.pathsep)
    return Demo(folder=folder, cli=cli, env=env)
