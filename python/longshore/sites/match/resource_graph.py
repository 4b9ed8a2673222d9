"""Reads the resource graph of a profile: its nested form, or JSON Graph Format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longshore.config.values.quantities import parse_count
from longshore.contract.site_match import Metadata, ResourceGraph, Vertex
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.sites.match.json_graph import read_json_graph
from longshore.sites.match.vertex_pool import VertexPool, make_graph

_KEYS: Final = ("type", "count", "size", "with", "subsystems")
_MAX_DEPTH: Final = 50
_ROOT_TYPE: Final = "cluster"


def read_resource_graph(value: YamlValue, subsystem_graphs: Mapping[str, YamlValue] | None = None) -> ResourceGraph:
    """Read a graph in either form.

    `subsystem_graphs` has a graph in JSON Graph Format per subsystem, with edges from vertices of the first graph.
    Raises `ConfigError` if a graph is wrong.
    """
    pool = VertexPool()
    if isinstance(value, dict) and "graph" in value:
        return make_graph(read_json_graph(value, subsystem_graphs or {}, pool))
    if subsystem_graphs:
        raise ConfigError("graphs of subsystems belong to a graph in JSON Graph Format, which has 'graph' at its top")
    root, _ = _read_vertex(value, {}, pool, 0)
    return make_graph(root)


def _read_vertex(
    value: YamlValue, inherited: Mapping[str, tuple[Metadata, ...]], pool: VertexPool, depth: int
) -> tuple[Vertex, int]:
    """Read a vertex and its count; subsystems hold for all vertices below it."""
    if not isinstance(value, dict):
        raise ConfigError(f"a vertex of 'resourceGraph' must be a map, not {quote_value(value)}")
    for key in value:
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS, likeness=NAME_LIKENESS) or name_all(_KEYS)
            raise ConfigError(f"a vertex of 'resourceGraph' has no key '{key}'", hint=hint)
    if depth > _MAX_DEPTH:
        raise ConfigError(f"'resourceGraph' is nested more than {_MAX_DEPTH} times")
    kind = value.get("type", _ROOT_TYPE if depth == 0 else None)
    if not isinstance(kind, str) or not kind:
        raise ConfigError("a vertex of 'resourceGraph' must have a 'type', such as node or core")
    below = value.get("with") or []
    if not isinstance(below, list):
        raise ConfigError(f"'with' in 'resourceGraph' must be a list, not {quote_value(below)}")
    subsystems = {**inherited, **_read_subsystems(value.get("subsystems"), inherited)}
    children = [_read_vertex(item, subsystems, pool, depth + 1) for item in below]
    count, size = (parse_count(value.get(key, 1), f"resourceGraph.{key}", least=1) for key in ("count", "size"))
    return pool.make(kind, size, subsystems, children), count


def _read_subsystems(
    value: YamlValue, inherited: Mapping[str, tuple[Metadata, ...]]
) -> dict[str, tuple[Metadata, ...]]:
    """Read the members of each subsystem: a list of maps, or a map of versions."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"'subsystems' in 'resourceGraph' must be a map, not {quote_value(value)}")
    found: dict[str, tuple[Metadata, ...]] = {}
    for name, members in value.items():
        if isinstance(members, dict):
            listed: list[YamlValue] = [{"name": each, "version": version} for each, version in members.items()]
        elif isinstance(members, list):
            listed = [{"name": each} if isinstance(each, str) else each for each in members]
        else:
            listed = [members]
        found[name] = (*inherited.get(name, ()), *(_read_member(name, member) for member in listed))
    return found


def _read_member(subsystem: str, member: YamlValue) -> Metadata:
    if not isinstance(member, dict):
        raise ConfigError(
            f"a member of the subsystem '{subsystem}' must be a name or a map, not {quote_value(member)}",
            hint="For example 'software: {stack: \"0.5.2\"}' or 'io: [{type: shm}]'.",
        )
    if isinstance(member.get("version"), float):
        raise ConfigError(
            f"the version {member['version']} in the subsystem '{subsystem}' must be text",
            hint="Write it in quotation marks: as a number, 2024.10 is 2024.1.",
        )
    return {key: str(value) if key == "version" else value for key, value in member.items()}
