"""Writes the same graph of many small jobs for Longshore and for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTH = 100
"""Jobs in a layer; each has two parents in the layer before."""


def parents_of(job: int) -> list[int]:
    """Return the numbers of a job's parents in the layered graph."""
    layer, place = divmod(job, WIDTH)
    if not layer:
        return []
    first = (layer - 1) * WIDTH
    return [first + place, first + (place + 1) % WIDTH]


def write_wfformat(path: Path, size: int, tasks: list[dict[str, Any]] | None = None) -> None:
    """Write the layered graph, or the given tasks, as WfFormat."""
    tasks = tasks or [
        {
            "name": "job",
            "id": f"job_{number}",
            "parents": [f"job_{parent}" for parent in parents_of(number)],
            "children": [],
            "inputFiles": [],
            "outputFiles": [],
        }
        for number in range(size)
    ]
    document = {"name": "layers", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks, "files": []}}}
    path.write_text(json.dumps(document), "utf-8")


def write_ninja(path: Path, size: int, command: str) -> None:
    """Write the graph for ninja: no phony edges, and a log per job as Longshore writes."""
    path.write_text("\n".join(_ninja_lines(size, command)) + "\n", "utf-8")


def _ninja_lines(size: int, command: str) -> Iterator[str]:
    yield f"rule run\n  command = {command} > logs/$out.log 2>&1"
    for number in range(size):
        parents = " ".join(f"job_{parent}" for parent in parents_of(number))
        yield f"build job_{number}: run {parents}"
