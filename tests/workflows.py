"""Small recorded workflows whose commands a test chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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


class WriteRun(Protocol):
    """Writes ``graph.json`` and a YAML file that names it."""

    def __call__(self, text: str = ..., tasks: Tasks = ..., *, name: str = ...) -> Path: ...
