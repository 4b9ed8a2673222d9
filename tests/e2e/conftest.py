"""Small recorded workflows whose commands a test chooses, and what a submission may leave behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

Tasks = Mapping[str, tuple[str, Sequence[str]]]
"""Label and parents per task."""

ONE: Tasks = {"a": ("A", [])}


def wfformat(tasks: Tasks, *, name: str = "w", version: str = "1.5") -> dict[str, Any]:
    """A document in WfFormat."""
    listed = [{"name": label, "id": task, "parents": list(parents)} for task, (label, parents) in tasks.items()]
    return {"name": name, "schemaVersion": version, "workflow": {"specification": {"tasks": listed}}}


def in_place(number: int) -> tuple[str, str]:
    """An option that gives a run a place of its own: by itself it has that of another of the same second."""
    return "--set", f"submitPath=submit/{number}"


def eventually(what: Callable[[], Any], *, pause_s: float = 0.02) -> Any:
    """Wait until something is true, and return it: for two minutes, because a busy machine takes its time."""
    deadline = time.monotonic() + 120
    while not (found := what()):
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(pause_s)
    return found


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that somebody may be writing: the last counts once it has its end."""
    return [line for line in path.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


LeftBehind = Callable[[], list[str]]
"""Names of what there is of runs."""


class WriteRun(Protocol):
    """Writes ``graph.json`` and a YAML file that names it."""

    def __call__(self, text: str = ..., tasks: Tasks = ..., *, name: str = ...) -> Path: ...


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Writes a run of tasks (one, unless told otherwise) into `tmp_path`; the text is more YAML."""

    def write(text: str = "runQuantumCommand: 'true'\n", tasks: Tasks = ONE, *, name: str = "run.yaml") -> Path:
        (tmp_path / "graph.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        path = tmp_path / name
        path.write_text(f"wfformat: graph.json\n{text}", "utf-8")
        return path

    return write


@pytest.fixture
def left_behind(tmp_path: Path, own_environment: Path) -> LeftBehind:
    """Tells what of runs there is: directories, drafts, and entries of the registry."""

    def look() -> list[str]:
        entries = own_environment.glob(".local/state/longshore/runs/*")
        return [path.name for path in (*tmp_path.glob("submit*"), *tmp_path.rglob(".*draft*"), *entries)]

    return look
