"""Detects the kind of a pipeline, lists the files it needs, and selects some of its tasks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from longshore.config.merge import Node, drop_deleted_keys, plain_value
from longshore.errors import ConfigError
from longshore.graph.declaration.description import (
    PIPELINE_KEYS,
    NeededFile,
    check_keys,
    map_items,
    read_declaration,
    read_names,
    unknown_name,
)
from longshore.graph.declaration.label_range import RANGE_SIGN, range_labels
from longshore.model.wording import quote_value
from longshore.origin import Origin


class PipelineKind(StrEnum):
    """Kind of a pipeline."""

    COMMANDS = "commands"
    """Every task has a command: this package reads it."""
    LSST = "lsst"
    """Tasks name classes of LSST's, or the pipeline imports another."""


def pipeline_kind(node: Node) -> PipelineKind:
    """Kind of a pipeline.

    Raises `ConfigError` if the pipeline is of neither kind, or of both.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    tasks = map_items(top.get("tasks"), "'tasks'")
    with_class = {label: task for label, task in tasks.items() if _names_class(task)}
    with_command = {label: task for label, task in tasks.items() if _has(task, "command")}
    if with_class and with_command:
        one, other = next(iter(with_class)), next(iter(with_command))
        message = f"the task '{one}' names a class of LSST's, and '{other}' a command: a pipeline has either"
        if one == other:
            message = f"the task '{one}' names both a class of LSST's and a command"
        raise ConfigError(message, origin=with_class[one].origin)
    if with_class or (not tasks and ("imports" in top or "instrument" in top)):
        return PipelineKind.LSST
    if not tasks:
        check_keys(top, (*PIPELINE_KEYS, "imports", "parameters"), "a pipeline")
        raise ConfigError("the pipeline has no 'tasks'", origin=node.origin)
    return PipelineKind.COMMANDS


def _names_class(task: Node) -> bool:
    # LSST's short form is the class alone.
    return isinstance(task.value, str) or _has(task, "class")


def _has(task: Node, key: str) -> bool:
    return isinstance(task.value, dict) and key in task.value


def needed_files(node: Node) -> list[NeededFile]:
    """Tables to read and glob patterns to list, each once."""
    return read_declaration(node).files


def select_tasks(node: Node, names: Iterable[str], origin: Origin | None = None) -> Node:
    """Select tasks of a pipeline; the outputs of the others must exist already.

    `names` are labels, names in ``subsets``, or one range of labels, ``BEGIN..END``.

    Raises `ConfigError` if a label or subset is unknown, or a range is not the only name.
    """
    node = drop_deleted_keys(node)
    top = map_items(node, "the pipeline")
    tasks = map_items(top.get("tasks"), "'tasks'")
    subsets = {
        name: subset_labels(name, item, tasks) for name, item in map_items(top.get("subsets"), "'subsets'").items()
    }
    names, kept = list(names), set[str]()
    for name in names:
        if name in subsets:
            kept.update(subsets[name])
        elif name in tasks:
            kept.add(name)
        elif RANGE_SIGN in name:
            if len(names) > 1:
                hint = "Name all labels, or subsets, with commas between them."
                raise ConfigError(f"the range '{name}' must stand alone", origin=origin, hint=hint)
            kept.update(range_labels(name, tasks, origin))
        else:
            raise unknown_name("subset or task", name, [*subsets, *tasks], origin, "the payload")
    datasets = dict(map_items(top.get("datasets"), "'datasets'"))
    for label, task in tasks.items():
        if label not in kept:
            for name, path in inline_datasets(task):
                datasets.setdefault(name, path)
    remaining = {label: drop_parents(task, tasks.keys() - kept) for label, task in tasks.items() if label in kept}
    datasets_origin = top["datasets"].origin if "datasets" in top else node.origin
    changed = {"tasks": Node(remaining, top["tasks"].origin), "datasets": Node(dict(datasets), datasets_origin)}
    return Node({**top, **changed}, node.origin)


def subset_labels(name: str, node: Node, tasks: Iterable[str]) -> list[str]:
    """Labels of a subset, each checked to exist."""
    # LSST's own form is a map with the labels under `subset`.
    items = node.value if isinstance(node.value, dict) else {"subset": node}
    if "subset" not in items:
        raise ConfigError(
            f"the subset '{name}' must be a list of labels, not {quote_value(plain_value(node))}", origin=node.origin
        )
    labels = read_names(items["subset"], f"the subset '{name}'")
    for label, origin in labels.items():
        if label not in tasks:
            raise unknown_name("task", label, tasks, origin, f"the subset '{name}'")
    return list(labels)


def inline_datasets(task: Node) -> Iterable[tuple[str, Node]]:
    """Datasets that a task defines in its ``inputs`` and ``outputs``."""
    items = task.value if isinstance(task.value, dict) else {}
    for section in ("inputs", "outputs"):
        defined = items[section].value if section in items else None
        if isinstance(defined, dict):
            yield from ((name, path) for name, path in defined.items() if path.value is not None)


def drop_parents(task: Node, dropped: set[str]) -> Node:
    """Remove dropped labels from the ``after`` of a task."""
    if not isinstance(task.value, dict) or "after" not in task.value:
        return task
    after = task.value["after"]
    labels = after.value if isinstance(after.value, list) else [after]
    kept = [label for label in labels if not (isinstance(label.value, str) and label.value in dropped)]
    return Node({**task.value, "after": Node(kept, after.origin)}, task.origin)
