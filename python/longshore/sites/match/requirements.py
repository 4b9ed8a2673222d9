"""Reads requirements of subsystems in their three forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longshore.config.values.merge import Node, map_items, plain_map, plain_value
from longshore.contract.site_match import MatchAlgorithm, Requirement
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value

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
