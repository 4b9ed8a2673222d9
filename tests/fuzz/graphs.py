"""Cases of WfFormat traces and of graph files."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.kind import LABELS, ROOT, Files, Kind, Step
from tests.fuzz.mutate import alter_tree, mutate_text, mutate_tree
from tests.progress_notes import ProgressNotes

from longshore.plan.lint_file import lint_file
from longshore.plan.stages import Stage, run_stages

TRACE = "graph.json"


@cache
def _traces() -> tuple[Any, ...]:
    paths = sorted([*ROOT.glob("tests/data/wfinstances/*.json"), ROOT / "doc/examples/montage/montage-2mass-005d.json"])
    return tuple(json.loads(path.read_text("utf-8")) for path in paths if path.stat().st_size < 100_000)


def small_trace(chance: Random) -> bytes:
    tasks: list[dict[str, Any]] = []
    files = [{"id": f"f{n}", "sizeInBytes": chance.randrange(10_000)} for n in range(chance.randrange(4))]
    for n in range(chance.randrange(1, 6)):
        task: dict[str, Any] = {"name": chance.choice(LABELS), "id": f"t{n}"}
        if n and chance.random() < 0.6:
            task["parents"] = [f"t{chance.randrange(n)}"]
        if files and chance.random() < 0.5:
            task["inputFiles"] = [chance.choice(files)["id"]]
        tasks.append(task)
    runs = [{"id": task["id"], "runtimeInSeconds": 1.5, "memoryInBytes": 1000, "avgCPU": 90.0} for task in tasks]
    workflow = {"specification": {"tasks": tasks, "files": files}, "execution": {"tasks": runs}}
    return json.dumps({"name": "w", "schemaVersion": "1.5", "workflow": workflow}).encode()


def _trace(chance: Random) -> Files:
    # A copy: the traces are cached, and a case changes its own.
    tree = copy.deepcopy(chance.choice(_traces())) if chance.random() < 0.3 else json.loads(small_trace(chance))
    # Below the root, where a change leaves a document of the format more often.
    if chance.random() < 0.75:
        tree = alter_tree(tree, chance)
        return _trace_files(json.dumps(tree).encode(), chance)
    part = tree["workflow"]
    for key in ("specification", "tasks"):
        part = part[key] if chance.random() < 0.8 and key in part else part
    if isinstance(part, list):
        part[:] = [
            mutate_tree(each, [*part, *tree["workflow"]], chance) if chance.random() < 0.3 else each for each in part
        ]
    else:
        tree = mutate_tree(tree, _traces()[:1], chance)
    return _trace_files(json.dumps(tree).encode(), chance)


def _trace_files(text: bytes, chance: Random) -> Files:
    return {TRACE: mutate_text(text, chance) if chance.random() < 0.1 else text, "run.yaml": b"wfformat: graph.json\n"}


def _graph_file(chance: Random) -> Files:
    tasks = chance.randrange(1, 6)
    files = [{"name": f"f{n}", "size_b": chance.randrange(100)} for n in range(chance.randrange(3))]
    lines: list[Any] = [
        {"kind": "longshore-graph", "version": 1, "name": "g", "tasks": tasks, "files": len(files)},
        *files,
    ]
    for n in range(tasks):
        line: dict[str, Any] = {
            "name": f"t{n}",
            "label": chance.choice(LABELS),
            "command": chance.choice(("true", ["echo", "b"])),
        }
        if n and chance.random() < 0.6:
            line["parents"] = [chance.randrange(n)]
        if chance.random() < 0.4:
            line["data_id"] = {"visit": n, "band": "r"}
        lines.append(line)
    if chance.random() < 0.8:
        row = chance.randrange(len(lines))
        is_form_kept = chance.random() < 0.75
        lines[row] = alter_tree(lines[row], chance) if is_form_kept else mutate_tree(lines[row], lines, chance)
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return {
        "graph.jsonl": mutate_text(text, chance) if chance.random() < 0.1 else text,
        "run.yaml": b"graphFile: graph.jsonl\n",
    }


def _steps(_: Files) -> Iterator[Step]:
    yield lambda: run_stages(Path("run.yaml"), Stage.ACQUIRE, progress=ProgressNotes())
    yield lambda: lint_file(Path("run.yaml"))
    yield lambda: run_stages(Path("run.yaml"), Stage.TRANSFORM, progress=ProgressNotes())


WFFORMAT = Kind(make=lambda chance, _: _trace(chance), steps=_steps)
GRAPH_FILE = Kind(make=lambda chance, _: _graph_file(chance), steps=_steps)
