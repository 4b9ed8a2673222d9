"""Fills the draft of a run directory with all that the run is to remember."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from longshore.app.configuration import Configuration
from longshore.config.merge import Node, plain
from longshore.contract.context import Context, RunPaths
from longshore.contract.service import WmsService
from longshore.model.codec import workflow_lines
from longshore.model.task import TaskGraph
from longshore.model.workflow import Workflow
from longshore.world.rundir import write_lines, write_rendered


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a run directory is made from.

    Attributes
    ----------
    payload
        The files of the payload, kept with the user's YAML.
    """

    configuration: Configuration
    graph: TaskGraph
    payload: tuple[Path, ...]
    workflow: Workflow
    service: WmsService
    ctx: Context


def fill(draft: RunPaths, plan: Plan) -> None:
    """Write all files of a run but ``run.json``."""
    configuration, graph, workflow = plan.configuration, plan.graph, plan.workflow
    _write_inputs(draft, plan)
    (draft.root / f"{workflow.name}_config.yaml").write_text(_effective(configuration), "utf-8")
    origins = dict(_origins(configuration.config.root))
    draft.origins.write_bytes(msgspec.json.format(msgspec.json.encode(origins), indent=1) + b"\n")
    write_lines(draft.workflow, workflow_lines(workflow))
    for directory in graph.directories:
        (draft.root / directory).mkdir(parents=True, exist_ok=True)
    for name, text in graph.programs.items():
        path = draft.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    draft.journal.mkdir()
    write_rendered(draft, plan.service.render(workflow, plan.ctx))


def _write_inputs(draft: RunPaths, plan: Plan) -> None:
    draft.inputs.mkdir()
    contents = [(read.path, read.content) for read in plan.configuration.files]
    contents += [(path, path.read_bytes()) for path in plan.payload]
    for number, (path, content) in enumerate(contents):
        target = draft.inputs / path.name
        # Files of one name from several folders are kept side by side.
        (target if not target.exists() else draft.inputs / f"{number}_{path.name}").write_bytes(content)


def _effective(configuration: Configuration) -> str:
    text: str = yaml.safe_dump(plain(configuration.config.root), sort_keys=False, allow_unicode=True, width=120)
    return text


def _origins(node: Node, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node.value, dict) and node.value:
        for name, below in node.value.items():
            yield from _origins(below, f"{key}.{name}")
    else:
        yield key.removeprefix("."), msgspec.to_builtins(node.origin)
