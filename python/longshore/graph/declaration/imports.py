"""Merges a pipeline with its imports and substitutes its parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.config.merge import Node, drop_deleted_keys, plain_value
from longshore.config.templates import split_fields, substitute_values
from longshore.errors import ConfigError
from longshore.graph.declaration.description import (
    check_identifier,
    check_keys,
    map_items,
    read_names,
    read_text,
    unknown_name,
)
from longshore.graph.declaration.pipeline_parts import drop_parents, inline_datasets, subset_labels
from longshore.model.wording import quote_value
from longshore.origin import Origin

_KEYS: Final = ("location", "include", "exclude", "labeledSubsetModifyMode")
_MODES: Final = ("DROP", "EDIT")
_SECTIONS: Final = ("dimensions", "relations", "datasets", "parameters", "subsets", "tasks")
"""Sections whose items pass from an imported pipeline to the one that imports it."""


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that another one imports."""

    location: Node
    """Path of the pipeline's file."""
    include: Mapping[str, Origin] | None = None
    exclude: Mapping[str, Origin] | None = None
    """Labels or subsets to take, or to leave out, with their origins; ``None`` if not given."""
    edits: bool = False
    """Whether subsets lose the labels that are left out; otherwise such subsets are dropped."""


def read_imports(node: Node) -> list[Import]:
    """Imports of a pipeline, in their order."""
    items = map_items(drop_deleted_keys(node), "the pipeline").get("imports")
    if items is None or items.value is None:
        return []
    return [_read_import(item) for item in (items.value if isinstance(items.value, list) else [items])]


def _read_import(node: Node) -> Import:
    if not isinstance(node.value, dict):
        read_text(node, "what 'imports' names")
        return Import(location=node)
    what = "an import"
    check_keys(node.value, _KEYS, what)
    if "location" not in node.value:
        raise ConfigError("an import has no 'location'", origin=node.origin, hint="Give it the path of a pipeline.")
    read_text(node.value["location"], "'location' of an import")
    include, exclude = (
        read_names(node.value[key], f"'{key}' of {what}") if key in node.value else None
        for key in ("include", "exclude")
    )
    if include is not None and exclude is not None:
        raise ConfigError(
            "an import has both 'include' and 'exclude'", origin=node.origin, hint="What is not included is left out."
        )
    return Import(location=node.value["location"], include=include, exclude=exclude, edits=_edits_subsets(node.value))


def _edits_subsets(items: Mapping[str, Node]) -> bool:
    mode = items.get("labeledSubsetModifyMode")
    if mode is None or mode.value is None:
        return False
    if mode.value not in _MODES:
        raise ConfigError(
            f"'labeledSubsetModifyMode' must be {' or '.join(_MODES)}, not {quote_value(plain_value(mode))}",
            origin=mode.origin,
        )
    return bool(mode.value == "EDIT")


def select_imported(node: Node, item: Import) -> tuple[Node, frozenset[str]]:
    """Part of an imported pipeline that the import selects, and the labels that it leaves out.

    Outputs of the tasks that are left out stay known as datasets. The pipeline must have no imports of its own.

    Raises `ConfigError` if a label or subset is unknown.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    tasks = map_items(top.get("tasks"), "'tasks'")
    subsets = map_items(top.get("subsets"), "'subsets'")
    named = item.include if item.include is not None else item.exclude
    if named is None:
        return node, frozenset()
    members = {name: subset_labels(name, each, tasks) for name, each in subsets.items()}
    labels: set[str] = set()
    for name, origin in named.items():
        if name not in members and name not in tasks:
            where = f"the import of '{node.origin.file}'"
            raise unknown_name("subset or task", name, [*members, *tasks], origin, where)
        labels.update(members.get(name, (name,)))
    kept = labels if item.include is not None else tasks.keys() - labels
    datasets = dict(map_items(top.get("datasets"), "'datasets'"))
    for label in tasks.keys() - kept:
        for name, path in inline_datasets(tasks[label]):
            datasets.setdefault(name, path)
    sections = {
        "tasks": {label: task for label, task in tasks.items() if label in kept},
        "subsets": dict(_remaining_subsets(subsets, members, kept, edits=item.edits)),
        "datasets": datasets,
    }
    changed = {
        key: Node(dict(value), top[key].origin if key in top else node.origin) for key, value in sections.items()
    }
    return Node({**top, **changed}, node.origin), frozenset(tasks.keys() - kept)


def _remaining_subsets(
    subsets: Mapping[str, Node], members: Mapping[str, Sequence[str]], kept: Collection[str], *, edits: bool
) -> Iterable[tuple[str, Node]]:
    """Subsets that remain, with their remaining labels."""
    for name, node in subsets.items():
        left = [label for label in members[name] if label in kept]
        if len(left) == len(members[name]):
            yield name, node
        elif edits and left:
            yield name, Node([Node(label, node.origin) for label in left], node.origin)


def merge_imports(node: Node, imported: Sequence[tuple[Node, frozenset[str]]]) -> Node:
    """Merge a pipeline with its imports; the pipeline's own definitions win.

    Each import comes with the labels that it leaves out: no task waits for these any more.

    Raises `ConfigError` if two imports define one name differently and the pipeline does not define it.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    others = [map_items(drop_deleted_keys(each), "the pipeline") for each, _ in imported]
    found = {key: value for key, value in top.items() if key != "imports"}
    for section in _SECTIONS:
        own = map_items(top.get(section), f"'{section}'")
        items: dict[str, Node] = {}
        for other in others:
            for name, item in map_items(other.get(section), f"'{section}'").items():
                first = items.setdefault(name, item)
                if name not in own and plain_value(first) != plain_value(item):
                    raise _conflict_error(section, name, first, item)
        items |= {name: _override(items.get(name), item, section) for name, item in own.items()}
        if items or section in top:
            found[section] = Node(items, top[section].origin if section in top else node.origin)
    lost = {label for _, labels in imported for label in labels}
    if "tasks" in found and lost:
        tasks = map_items(found["tasks"], "'tasks'")
        kept = {label: drop_parents(task, lost - tasks.keys()) for label, task in tasks.items()}
        found["tasks"] = Node(dict(kept), found["tasks"].origin)
    return Node(found, node.origin)


def _conflict_error(section: str, name: str, first: Node, second: Node) -> ConfigError:
    kind = section.removesuffix("s")
    return ConfigError(
        f"two imported pipelines define the {kind} '{name}' in different ways",
        origin=second.origin,
        hint=f"The other one is at {first.origin}. Define it in the pipeline that imports them, or exclude one.",
    )


def _override(imported: Node | None, own: Node, section: str) -> Node:
    """Definition of the importing pipeline; for a task, merged over the imported one."""
    if section != "tasks" or imported is None:
        return own
    if not isinstance(imported.value, dict) or not isinstance(own.value, dict):
        return own
    return Node({**imported.value, **own.value}, own.origin)


# ---------------------------------------------------------------------------------------------------------- parameters


def substitute_parameters(node: Node) -> Node:
    """Replace the names of parameters by their values.

    A text that is only a parameter's name becomes its value, of any type; within a text, the value is inserted as text.

    Raises `ConfigError` if a parameter has no value or an invalid name, or a map or list would stand within a text.
    """
    top = map_items(drop_deleted_keys(node), "the pipeline")
    parameters = map_items(top.get("parameters"), "'parameters'")
    for name, value in parameters.items():
        check_identifier(name, "parameters", value.origin)
        for section in ("dimensions", "datasets"):
            if name in map_items(top.get(section), f"'{section}'"):
                message = f"'{name}' is in '{section}' and cannot be a parameter as well"
                raise ConfigError(message, origin=value.origin)
        if value.value is None:
            raise ConfigError(f"the parameter '{name}' has no value", origin=value.origin)
    rest = {key: value for key, value in top.items() if key != "parameters"}
    if not parameters:
        return Node(rest, node.origin)
    return Node({key: _substitute(value, parameters) for key, value in rest.items()}, node.origin)


def _substitute(node: Node, parameters: Mapping[str, Node]) -> Node:
    value = node.value
    if isinstance(value, dict):
        return Node({key: _substitute(item, parameters) for key, item in value.items()}, node.origin)
    if isinstance(value, list):
        return Node([_substitute(item, parameters) for item in value], node.origin)
    if not isinstance(value, str) or "{" not in value:
        return node
    parts = split_fields(value)
    used = {part.name for part in parts if not isinstance(part, str)} & parameters.keys()
    if not used:
        return node
    if len(parts) == 1 and used and value == f"{{{(name := next(iter(used)))}}}":
        return Node(parameters[name].value, node.origin)
    return Node(
        substitute_values(value, {name: _parameter_text(name, parameters[name], node) for name in used}, node.origin),
        node.origin,
    )


def _parameter_text(name: str, parameter: Node, user: Node) -> Any:
    if isinstance(parameter.value, dict | list):
        raise ConfigError(
            f"the parameter '{name}' is no text, and stands within one: {quote_value(plain_value(user))}",
            origin=user.origin,
            hint=f"Let the text be '{{{name}}}' and nothing else, or give the parameter a text.",
        )
    return parameter.value
