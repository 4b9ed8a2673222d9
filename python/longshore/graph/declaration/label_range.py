"""Selects the labels of a range ``BEGIN..END`` of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longshore.config.merge import Node
from longshore.errors import ConfigError
from longshore.graph.declaration.description import read_names, unknown_name
from longshore.origin import Origin

RANGE_SIGN: Final = ".."


def range_labels(written: str, tasks: Mapping[str, Node], origin: Origin | None) -> list[str]:
    """Labels of the tasks on all paths from one task to another, both included.

    An LSST range is a slice of the sorted labels, which depends on the sort order if the pipeline is not a chain. This
    range depends on the graph only; for a chain both are equal. Without ``BEGIN``, the range is all ancestors of
    ``END``; without ``END``, all descendants of ``BEGIN``.

    Raises `ConfigError` if a label is unknown or no path connects the two.
    """
    begin, _, end = written.partition(RANGE_SIGN)
    for label in (begin, end):
        if label and label not in tasks:
            raise unknown_name("task", label, tasks, origin, f"the range '{written}'")
    parents = _parents(tasks)
    children: dict[str, set[str]] = {label: set() for label in tasks}
    for label, needed in parents.items():
        for parent in needed:
            children[parent].add(label)
    kept = _reachable(begin, children) if begin else set(tasks)
    kept &= _reachable(end, parents) if end else set(tasks)
    if not kept:
        backwards = begin in _reachable(end, children)
        raise ConfigError(
            f"the range '{written}' holds nothing: '{end}' needs nothing that comes from '{begin}'",
            origin=origin,
            hint=f"Did you mean '{end}{RANGE_SIGN}{begin}'?"
            if backwards
            else "A list of labels has commas between them.",
        )
    return [label for label in tasks if label in kept]


def _parents(tasks: Mapping[str, Node]) -> dict[str, set[str]]:
    """Parents of each label: the producers of its inputs, and the labels in ``after``."""
    made_by: dict[str, set[str]] = {}
    for label, task in tasks.items():
        for dataset in _section_names(label, task, "outputs"):
            made_by.setdefault(dataset, set()).add(label)
    found = {}
    for label, task in tasks.items():
        needed = set(_section_names(label, task, "after")) & tasks.keys()
        found[label] = needed.union(*(made_by.get(dataset, ()) for dataset in _section_names(label, task, "inputs")))
    return found


def _section_names(label: str, task: Node, section: str) -> list[str]:
    """Names in a section of a task: a list of them, or a map that defines them in place."""
    items = task.value if isinstance(task.value, dict) else {}
    node = items.get(section)
    if node is not None and isinstance(node.value, dict):
        return list(node.value)
    return list(read_names(node, f"'{section}' of the task '{label}'"))


def _reachable(start: str, links: Mapping[str, set[str]]) -> set[str]:
    """A label and all labels reachable from it."""
    found, stack = {start}, [start]
    while stack:
        new = links[stack.pop()] - found
        found |= new
        stack += new
    return found
