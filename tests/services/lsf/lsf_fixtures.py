"""A cluster of LSF's stand-ins for a test: fixtures of this folder and of the tests of every dialect."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command import Cli
from tests.services.lsf.lsf_site import LsfSite, make_programs

from longshore.contract.service import RunPaths
from longshore.rundir.liveness import kill_local_engine


@pytest.fixture
def lsf_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the programs, which this process and its children find."""
    programs = make_programs(tmp_path / "lsf")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LSF_ENVDIR", str(programs.parent / "conf"))
    monkeypatch.setenv("STAND_IN_WORDS", "hour=60")
    return programs


@pytest.fixture
def lsf_site(lsf_programs: Path, cli: Cli, tmp_path: Path, own_environment: Path) -> Iterator[LsfSite]:
    """A site ``cluster``."""

    def here(*words: str | Path, **more: object) -> object:
        env = {name: os.environ[name] for name in ("PATH", "STAND_IN_WORDS")}
        return cli(*words, **{**more, "env": {**env, **(more.get("env") or {})}})  # type: ignore[dict-item,arg-type]

    profile = own_environment / ".config" / "longshore" / "sites" / "cluster.yaml"
    site = LsfSite(cli=here, folder=tmp_path, programs=lsf_programs, profile=profile)  # type: ignore[arg-type]
    site.describe()
    yield site
    for card in tmp_path.glob("**/run.json"):
        kill_local_engine(RunPaths(card.parent))
    subprocess.run([lsf_programs / "bkill", "0"], check=False, capture_output=True)
