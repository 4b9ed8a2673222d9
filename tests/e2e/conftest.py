"""Fixtures that write small workflows and list what a submission left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.workflows import ONE, Tasks, WriteRun, wfformat

LeftBehind = Callable[[], list[str]]
"""Names of run directories, drafts and registry entries."""


@pytest.fixture(autouse=True)
def _retries(retries_of_bps: None) -> None:
    """Most tests say how often they retry by ``numberOfRetries`` alone."""


@pytest.fixture(autouse=True)
def _common_failures_are_final(own_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that fail by exit code 1 or 2 are not retried unless a test says so: each retry waits."""
    monkeypatch.setenv("LONGSHORE_RETRY_UNLESS_EXIT", "[1, 2]")


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run of tasks (default: one) into `tmp_path`; `text` is additional YAML."""

    def write(text: str = "runQuantumCommand: 'true'\n", tasks: Tasks = ONE, *, name: str = "run.yaml") -> Path:
        (tmp_path / "graph.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        path = tmp_path / name
        path.write_text(f"wfformat: graph.json\n{text}", "utf-8")
        return path

    return write


@pytest.fixture
def left_behind(tmp_path: Path, own_environment: Path) -> LeftBehind:
    """List run directories, drafts and registry entries."""

    def look() -> list[str]:
        entries = own_environment.glob(".local/state/longshore/runs/*")
        return [path.name for path in (*tmp_path.glob("submit*"), *tmp_path.rglob(".*draft*"), *entries)]

    return look


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a small run, or for a few small files."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("only root mounts a file system")
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False, capture_output=True)
    if done.returncode:
        pytest.skip("this machine mounts no file system for us")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
