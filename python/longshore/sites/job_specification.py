"""Reads job specifications, version 1: resources in two forms, and requirements of subsystems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from longshore.config.merge import Node, map_items, plain_map, plain_value
from longshore.config.quantities import parse_count
from longshore.contract.algorithms import JobSpecification, MatchAlgorithm, Requirement, ResourceNeed
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value

# Reads requirements of subsystems in their three forms.


_PLAIN_KEYS: Final = ("subsystem", "name", "field", "match", "min", "max", "range")
_FORMS: Final = "For example '{subsystem: software, name: stack, range: {min: \"0.5.1\"}}'."


def read_requires(node: Node, algorithms: Mapping[str, MatchAlgorithm]) -> tuple[Requirement, ...]:
    """Read a list ``requires``, whose items name a subsystem, an algorithm and its options.

    Without ``subsystem``, ``name`` is the subsystem. Raises `ConfigError` if an item is wrong.
    """
    if not isinstance(node.value, list):
        raise ConfigError(
            f"'requires' must be a list, not {quote_value(plain_value(node))}", origin=node.origin, hint=_FORMS
        )
    return tuple(_read_item(item, algorithms) for item in node.value)


def read_subsystem_map(node: Node, algorithms: Mapping[str, MatchAlgorithm]) -> tuple[Requirement, ...]:
    """Read a map of subsystems to algorithms with their options, as tasks of a job specification have it.

    Raises `ConfigError` if a value is wrong.
    """
    found = []
    for subsystem, below in map_items(node).items():
        if not isinstance(below.value, dict):
            raise ConfigError(
                f"the requirements of '{subsystem}' must be a map of algorithms, not {quote_value(plain_value(below))}",
                origin=below.origin,
                hint=f"For example '{subsystem}: {{match: [{{type: shm}}]}}'.",
            )
        for algorithm, items in below.value.items():
            listed = items.value if isinstance(items.value, list) else [items]
            drafts = [
                Requirement(subsystem=subsystem, algorithm=algorithm, options=_options(item), origin=item.origin)
                for item in listed
            ]
            found += [_make(draft, algorithms) for draft in drafts]
    return tuple(found)


def _read_item(node: Node, algorithms: Mapping[str, MatchAlgorithm]) -> Requirement:
    items = map_items(node)
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"an item of 'requires' must be a map, not {quote_value(plain_value(node))}",
            origin=node.origin,
            hint=_FORMS,
        )
    known = dict.fromkeys((*_PLAIN_KEYS, *algorithms))
    for key, item in items.items():
        if key not in known:
            hint = did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known)
            raise ConfigError(f"a requirement has no key '{key}'", origin=item.origin, hint=hint)
    names = {key: str(items[key].value) for key in ("subsystem", "name") if key in items and items[key].value}
    subsystem = names.get("subsystem") or names.get("name")
    if not subsystem:
        raise ConfigError("a requirement must name a 'subsystem'", origin=node.origin, hint=_FORMS)
    member = names.get("name", "") if "subsystem" in names else ""
    algorithm, options = _find_algorithm(node, items, algorithms, has_member=bool(member))
    draft = Requirement(subsystem=subsystem, algorithm=algorithm, options=options, name=member, origin=node.origin)
    return _make(draft, algorithms)


def _find_algorithm(
    node: Node, items: Mapping[str, Node], algorithms: Mapping[str, MatchAlgorithm], *, has_member: bool
) -> tuple[str, dict[str, YamlValue]]:
    """Find the algorithm of a requirement and its options."""
    written = [key for key in items if key in algorithms]
    has_bounds = not items.keys().isdisjoint({"min", "max"})
    if len(written) + has_bounds > 1:
        both = " and ".join(f"'{key}'" for key in [*written, *(["min or max"] if has_bounds else [])])
        raise ConfigError(
            f"a requirement has one algorithm, not {both}", origin=node.origin, hint="Write one item of the list each."
        )
    field = {"field": plain_value(items["field"])} if "field" in items else {}
    if has_bounds:
        bounds = {key: plain_value(items[key]) for key in ("min", "max") if key in items}
        return "range", {**field, **bounds}
    if written:
        node = items[written[0]]
        if written[0] == "match" and not isinstance(node.value, dict):
            return "match", {**field, "value": plain_value(node)}
        return written[0], {**field, **_options(node)}
    if field or not has_member:
        # A requirement without a condition would hold everywhere.
        raise ConfigError(
            "a requirement needs 'match', or 'range' with 'min', 'max' or both", origin=node.origin, hint=_FORMS
        )
    return "match", {}


def _options(node: Node) -> dict[str, YamlValue]:
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"options of a requirement must be a map, not {quote_value(plain_value(node))}",
            origin=node.origin,
            hint=_FORMS,
        )
    return plain_map(node)


def _make(draft: Requirement, algorithms: Mapping[str, MatchAlgorithm]) -> Requirement:
    """Return a requirement after its algorithm has checked its options."""
    check = algorithms.get(draft.algorithm)
    if check is None:
        hint = did_you_mean(draft.algorithm, algorithms, likeness=NAME_LIKENESS)
        known = name_all(sorted(algorithms))
        raise ConfigError(
            f"there is no algorithm '{draft.algorithm}' for requirements",
            origin=draft.origin,
            hint=f"{hint} {known}".strip(),
        )
    try:
        check(draft.options, None)
    except ConfigError as error:
        raise ConfigError(error.message, origin=error.origin or draft.origin, hint=error.hint) from None
    return draft


# Reads job specifications, version 1: the list form of resources, the form of named groups, and requirements.


SLOT: Final = "slot"
"""Type of a group that is no vertex."""
_TOP_KEYS: Final = ("version", "resources", "task", "tasks", "attributes")
_RESOURCE_KEYS: Final = (
    "type",
    "count",
    "replicas",
    "with",
    "label",
    "requires",
    "unit",
    "exclusive",
    "schedule",
    "attributes",
)
_TASK_KEYS: Final = ("command", "slot", "count", "resources", "resource", "attributes", "name", "distribution")
_MAX_DEPTH: Final = 30
Algorithms = Mapping[str, MatchAlgorithm]


def read_job_specification(node: Node, algorithms: Algorithms) -> JobSpecification:
    """Read a job specification; `algorithms` check requirements, by name.

    Raises `ConfigError` at the wrong key or value.
    """
    top = _map(node, "a job specification")
    _refuse_unknown(top, _TOP_KEYS, "a job specification")
    version = top.get("version")
    if version is None or version.value not in {1, "1"}:
        raise ConfigError(
            "a job specification must have 'version: 1'", origin=version.origin if version else node.origin
        )
    resources = top.get("resources")
    if resources is None or not resources.value:
        raise ConfigError("a job specification must have 'resources'", origin=node.origin)
    groups = _read_groups(resources, algorithms)
    parameters = _read_parameters(top.get("attributes"))
    for task in _read_tasks(top):
        _refuse_unknown(map_items(task), _TASK_KEYS, "a task")
        groups = _add_task_requirements(groups, task, algorithms)
        parameters |= _read_parameters(map_items(task).get("attributes"))
    return JobSpecification(groups=tuple(groups.values()), parameters=parameters)


def _read_groups(resources: Node, algorithms: Algorithms) -> dict[str, ResourceNeed]:
    """Read the groups of both forms; keys are names, or the index in a list."""
    if isinstance(resources.value, list):
        return {str(index): _read_need(item, algorithms, 0) for index, item in enumerate(resources.value)}
    items = _map(resources, "'resources'")
    return {
        name: msgspec.structs.replace(need, label=need.label or name)
        for name, need in ((name, _read_need(item, algorithms, 0)) for name, item in items.items())
    }


def _read_need(node: Node, algorithms: Algorithms, depth: int) -> ResourceNeed:
    items = _map(node, "a resource")
    _refuse_unknown(items, _RESOURCE_KEYS, "a resource")
    if depth > _MAX_DEPTH:
        raise ConfigError(f"resources are nested more than {_MAX_DEPTH} times", origin=node.origin)
    kind = items.get("type")
    if kind is None or not isinstance(kind.value, str) or not kind.value:
        raise ConfigError("a resource must have a 'type', such as node or core", origin=(kind or node).origin)
    below = items.get("with")
    children: tuple[ResourceNeed, ...] = ()
    if below is not None and below.value is not None:
        children = _sum_equal([_read_need(item, algorithms, depth + 1) for item in _list(below, "with")])
    if kind.value == SLOT and not children:
        raise ConfigError("a 'slot' must have 'with': it consists of other resources", origin=node.origin)
    requires = items.get("requires")
    label = items.get("label")
    return ResourceNeed(
        type=kind.value,
        count=_read_count(items),
        requires=() if requires is None else read_requires(requires, algorithms),
        children=children,
        label="" if label is None else label.text,
        origin=node.origin,
    )


def _read_count(items: Mapping[str, Node]) -> int:
    """Read ``replicas`` or ``count``, which may be a map with ``min``."""
    for key in ("replicas", "count"):
        found = items.get(key)
        if found is None:
            continue
        least = map_items(found).get("min", found)
        return parse_count(plain_value(least), key, least.origin, least=1)
    return 1


def _sum_equal(needs: Iterable[ResourceNeed]) -> tuple[ResourceNeed, ...]:
    """Sum up plain resources of one type."""
    found: dict[object, ResourceNeed] = {}
    for index, need in enumerate(needs):
        is_plain = not need.children and not need.requires
        key: object = need.type if is_plain else index
        known = found.get(key)
        found[key] = need if known is None else msgspec.structs.replace(known, count=known.count + need.count)
    return tuple(found.values())


def _read_tasks(top: Mapping[str, Node]) -> list[Node]:
    found: list[Node] = []
    for key in ("task", "tasks"):
        node = top.get(key)
        if node is None or node.value is None:
            continue
        found += node.value if isinstance(node.value, list) else [node]
    for task in found:
        _map(task, "a task")
    return found


def _add_task_requirements(
    groups: dict[str, ResourceNeed], task: Node, algorithms: Algorithms
) -> dict[str, ResourceNeed]:
    """Add the requirements of a task to its slot."""
    items = map_items(task)
    named = items.get("slot") or items.get("resource") or items.get("resources")
    written = items.get("resources")
    label = named.value if named is not None and isinstance(named.value, str) else None
    if label is not None:
        assert named is not None
        if not any(_has_label(need, label) for need in groups.values()):
            labels = sorted({each for need in groups.values() for each in _labels(need)})
            known = name_all(labels) if labels else "No resource has a 'label'."
            raise ConfigError(f"no slot has the label '{label}'", origin=named.origin, hint=known)
    if written is None or not isinstance(written.value, dict):
        return groups
    requires = read_subsystem_map(written, algorithms)
    return {
        name: _with_requirements(need, label, requires) if label is None or _has_label(need, label) else need
        for name, need in groups.items()
    }


def _with_requirements(need: ResourceNeed, label: str | None, requires: tuple[Requirement, ...]) -> ResourceNeed:
    """Return a need whose slot with the label, or first slot, has more requirements."""
    is_slot = need.label == label if label is not None else need.type == SLOT or not _has_slot(need)
    if is_slot:
        return msgspec.structs.replace(need, requires=(*need.requires, *requires))
    children = tuple(_with_requirements(child, label, requires) for child in need.children)
    return msgspec.structs.replace(need, children=children)


def _has_label(need: ResourceNeed, label: str) -> bool:
    return label in _labels(need)


def _labels(need: ResourceNeed) -> set[str]:
    own = {need.label} if need.label else set()
    return own.union(*(_labels(child) for child in need.children))


def _has_slot(need: ResourceNeed) -> bool:
    return need.type == SLOT or any(map(_has_slot, need.children))


def _read_parameters(attributes: Node | None) -> dict[str, float | str]:
    """Read ``attributes.parameter``: numbers and texts."""
    found: dict[str, float | str] = {}
    for name, node in map_items(map_items(attributes).get("parameter")).items():
        if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
            raise ConfigError(
                f"the parameter '{name}' must be a number or a text, not {quote_value(plain_value(node))}",
                origin=node.origin,
            )
        found[name] = node.value if isinstance(node.value, str) else float(node.value)
    return found


def _refuse_unknown(items: Mapping[str, Node], known: tuple[str, ...], what: str) -> None:
    for key, node in items.items():
        if key not in known:
            hint = did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known)
            raise ConfigError(f"{what} has no key '{key}'", origin=node.origin, hint=hint)


def _map(node: Node, what: str) -> Mapping[str, Node]:
    if not isinstance(node.value, dict):
        raise ConfigError(f"{what} must be a map, not {quote_value(plain_value(node))}", origin=node.origin)
    return node.value


def _list(node: Node, key: str) -> list[Node]:
    if not isinstance(node.value, list):
        raise ConfigError(f"'{key}' must be a list, not {quote_value(plain_value(node))}", origin=node.origin)
    return node.value
