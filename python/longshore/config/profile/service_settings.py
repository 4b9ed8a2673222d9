"""Collects the settings for one workload manager: its own map, raw directive lines, and the container command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from longshore.config.values.interpolate import Template, shown
from longshore.config.values.merge import Marker, Node, plain
from longshore.config.values.search import SECTIONS, Config, Scope
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.origin import Origin

OwnValue: TypeAlias = "bool | int | float | str | Template | list[OwnValue] | dict[str, OwnValue] | None"
"""A value of a service's own map; a text that differs per job is a template."""
Values: TypeAlias = dict[str, OwnValue]

LINES: Final = "directives"
"""Key of raw directive lines, in a configuration and in the result."""
CONTAINER: Final = "container"


class Words(msgspec.Struct, frozen=True):
    """Configuration keys that belong to one service.

    Attributes
    ----------
    map
        Key of its own map.
    lines
        Keys of raw lines, of which there may be several spellings.
    keys
        Keys of single values that only this service uses.
    maps
        Keys of further maps, those of nested maps with dots: ``profile.condor``.
    """

    map: str
    lines: tuple[str, ...] = (LINES,)
    keys: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()


Fill: TypeAlias = Callable[[str, str, Origin], Template]
"""Interpolates the text of a key, but for variables that differ per job."""


class Gathered(msgspec.Struct, frozen=True):
    """Settings for a service, and where each was written.

    Attributes
    ----------
    values
        The service's own map with raw lines under `LINES`, the command in front of others under `CONTAINER`, and single
        values and further maps under their keys.
    given
        Origin of each of them, by the same keys.
    """

    values: Values
    given: Mapping[str, Origin]


def gathered(config: Config, scope: Scope, words: Words, fill: Fill) -> Gathered:
    """Merge the settings for a service over all sections of a job; the strongest section wins per key.

    A null value removes the value of weaker sections; it is kept, because it also removes what the service itself knows
    of the site. Raw lines add up, those of the site first; null removes all weaker ones.

    Raises
    ------
    ConfigError
        A value is of the wrong kind.
    """
    values: Values = {}
    maps: dict[str, Values] = {name: {} for name in words.maps}
    given: dict[str, Origin] = {}
    sections = list(_sections(config, scope))
    for _, section in sections:
        for key, below in _map_under(section, words.map):
            values[key] = _filled(f"{words.map}.{key}", below, fill)
            given[key] = below.origin
        for name in words.maps:
            for key, below in _map_under(section, name):
                maps[name][key] = _filled(f"{name}.{key}", below, fill)
                values[name] = maps[name]
                given[name] = below.origin
        for key in words.keys:
            if key in section:
                values[key] = _filled(key, section[key], fill)
                given[key] = section[key].origin
    lines = _lines(sections, words, fill, given)
    if lines is not None:
        values[LINES] = lines
    if container := _container(sections, fill, given):
        values[CONTAINER] = container
    return Gathered(values, given)


def _map_under(section: Mapping[str, Node], path: str) -> Iterator[tuple[str, Node]]:
    """The items of a map of a section; empty where the map is missing."""
    *outer, last = path.split(".")
    for name in outer:
        section = _map_of(section.get(name))
    node = section.get(last)
    if node is None or node.value is None:
        return
    if not isinstance(node.value, dict):
        raise ConfigError(f"'{path}' must be a map, not {shown(plain(node))}", origin=node.origin)
    yield from node.value.items()


def rendered(values: Mapping[str, OwnValue], known: Mapping[str, object]) -> dict[str, YamlValue]:
    """The settings of one job, from the values of its free variables."""
    return {key: _rendered(value, known) for key, value in values.items()}


def waits(values: Mapping[str, OwnValue]) -> bool:
    """Whether any value differs per job."""
    return any(map(_waits, values.values()))


def _sections(config: Config, scope: Scope) -> Iterator[tuple[str, Mapping[str, Node]]]:
    """Name and map of each section that applies to a job, weakest first; the root and the site describe places."""
    yield "", _map_of(config.root)
    for name in reversed(SECTIONS):
        if name in _CHOSEN:
            # Without a chosen part, a search looks at all parts of a section; here, a site may be called `slurm`.
            choice = scope.current.get(f"curr_{name}")
            yield name, _map_of(config.at(name, str(choice)) if choice else None)
        else:
            yield name, _map_of(config.at(name))
    if isinstance(scope.searchobj, Node):
        yield "searchobj", _map_of(scope.searchobj)


def _map_of(node: Node | None) -> Mapping[str, Node]:
    return node.value if node is not None and isinstance(node.value, dict) else {}


_CHOSEN: Final = frozenset({"cluster", "pipetask", "site", "cloud"})
_PLACES: Final = ("", "cloud", "site")


def _lines(
    sections: Sequence[tuple[str, Mapping[str, Node]]], words: Words, fill: Fill, given: dict[str, Origin]
) -> list[OwnValue] | None:
    """Raw lines of all sections; ``None`` where no section has the key."""
    found: list[OwnValue] | None = None
    of_place: dict[str, list[OwnValue]] = {}
    for name, section in sections:
        for key in words.lines:
            node = section.get(key)
            if node is None:
                continue
            given[LINES] = node.origin
            own = _listed(key, node, fill)
            if name in _PLACES:
                # Settings of a site come from the strongest section, like its other values.
                of_place[key] = own
                found = [line for lines in of_place.values() for line in lines]
            else:
                found = [] if node.value is None else [*(found or ()), *own]
    return found


def _listed(key: str, node: Node, fill: Fill) -> list[OwnValue]:
    if node.value is None:
        return []
    nodes = node.value if isinstance(node.value, list) else [node]
    for each in nodes:
        if isinstance(each.value, dict | list | bool) or each.value is None:
            raise ConfigError(
                f"'{key}' must be lines of text, not {shown(plain(each))}",
                origin=each.origin,
                hint=f'For example \'{key}: ["-t 00:05", "-C haswell"]\'.',
            )
    return [_filled(key, each, fill) for each in nodes]


def _container(sections: Sequence[tuple[str, Mapping[str, Node]]], fill: Fill, given: dict[str, Origin]) -> OwnValue:
    """The command in front of others, from the strongest section that has one."""
    for _, section in reversed(sections):
        node = section.get(CONTAINER)
        if node is not None:
            given[CONTAINER] = node.origin
            return _filled(CONTAINER, node, fill)
    return None


def _filled(key: str, node: Node, fill: Fill) -> OwnValue:
    if isinstance(node.value, list):
        return [_filled(key, each, fill) for each in node.value]
    if isinstance(node.value, dict):
        return {name: _filled(f"{key}.{name}", below, fill) for name, below in node.value.items()}
    if not isinstance(node.value, str):
        return None if isinstance(node.value, Marker) else node.value
    template = fill(key, node.value, node.origin)
    return template if template.names else template.render({})


def _rendered(value: OwnValue, known: Mapping[str, object]) -> YamlValue:
    if isinstance(value, Template):
        return value.render(known)
    if isinstance(value, list):
        return [_rendered(each, known) for each in value]
    if isinstance(value, dict):
        return rendered(value, known)
    return value


def _waits(value: OwnValue) -> bool:
    if isinstance(value, list):
        return any(map(_waits, value))
    return waits(value) if isinstance(value, dict) else isinstance(value, Template)
