"""Hints for undefined placeholders in commands."""

from __future__ import annotations

from typing import Final

from longshore.config.values.merge import Node, map_items
from longshore.config.values.scope import Scope
from longshore.config.values.search import Config
from longshore.model.suggestions import did_you_mean

PROVIDED: Final = {
    "cpus": "LONGSHORE_JOB_CPUS",
    "threads": "LONGSHORE_JOB_CPUS",
    "mem_mb": "LONGSHORE_JOB_MEMORY_MB",
    "memory": "LONGSHORE_JOB_MEMORY_MB",
    "disk_mb": "LONGSHORE_JOB_DISK_MB",
    "tmpdir": "TMPDIR",
    "attempt": "LONGSHORE_JOB_ATTEMPT",
}
"""Variable of a job's environment that has the value of a name of other systems."""
_FILES: Final = {"input": "inputs", "inputs": "inputs", "output": "outputs", "outputs": "outputs"}
"""Section of a task for a name that other systems have for its files."""
_MAX_NAMES: Final = 5


def placeholder_advice(name: str, config: Config, scope: Scope) -> str:
    """Return a sentence on a name that nothing defines; empty if there is no advice."""
    is_final = scope.searchobj is not None and scope.searchobj is config.node_at("finalJob")
    dataset = config.node_at("pipeline", "datasets", name)
    if is_final and (dataset is not None or config.node_at("pipeline", "dimensions", name) is not None):
        return f"A final job has no datasets and no dimensions: write the path{_example(dataset)}."
    if variable := PROVIDED.get(name):
        return f"Did you mean '${variable}'?"
    if section := _FILES.get(name):
        label = str(scope.current.get("curr_pipetask", ""))
        return _files_advice(section, _names(config.node_at("pipeline", "tasks", label, section)))
    return did_you_mean(name, config.names(scope))


def _example(dataset: Node | None) -> str:
    """Path of a dataset that is one file, as an example."""
    path = dataset.value if dataset is not None else None
    return f", such as '{path}'" if isinstance(path, str) and "{" not in path else ""


def _files_advice(section: str, names: list[str]) -> str:
    if not names:
        return f"A command names the {section} of its task one by one."
    if len(names) == 1:
        return f"Did you mean '{{{names[0]}}}'?"
    shown = ", ".join(f"'{{{name}}}'" for name in names[:_MAX_NAMES])
    return f"The {section} of the task are {shown}{' and others' if names[_MAX_NAMES:] else ''}."


def _names(node: Node | None) -> list[str]:
    """Names of datasets in a list or a map of a task."""
    if node is None:
        return []
    if isinstance(node.value, list):
        return [str(each.value) for each in node.value]
    return list(map_items(node)) if isinstance(node.value, dict) else [str(node.value)]
