"""Collects the settings for one workload manager: its own map, raw directive lines, and the container command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from longshore.config.values.merge import Marker, Node, map_items, plain_value
from longshore.config.values.scope import Scope
from longshore.config.values.search import LABEL_SECTIONS, SECTIONS, Config
from longshore.config.values.templates import Template
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.origin import Origin

SettingValue: TypeAlias = "bool | int | float | str | Template | list[SettingValue] | dict[str, SettingValue] | None"
"""A value of a service's own map; a text that differs per job is a template."""
SettingValues: TypeAlias = dict[str, SettingValue]

DIRECTIVES_KEY: Final = "directives"
"""Key of raw directive lines, in a configuration and in the result."""
CONTAINER: Final = "container"


class ServiceKeys(msgspec.Struct, frozen=True):
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
        Keys of further maps, those of nested maps with dots: ``profile.pool``.
    """

    map: str
    lines: tuple[str, ...] = (DIRECTIVES_KEY,)
    keys: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()


Interpolate: TypeAlias = Callable[[str, str, Origin], Template]
"""Interpolates the text of a key, but for variables that differ per job."""


class ServiceSettings(msgspec.Struct, frozen=True):
    """Settings for a service, and where each was written.

    Attributes
    ----------
        The service's own map, with raw lines under `DIRECTIVES_KEY`, the command prefix under
        `CONTAINER`, and single values and further maps under their keys.
        single values and further maps under their keys.
    origins
        Origin of each of them, by the same keys.
    """

    values: SettingValues
    origins: Mapping[str, Origin]


def gather_service_settings(
    config: Config, scope: Scope, keys: ServiceKeys, interpolate: Interpolate
) -> ServiceSettings:
    """Merge the settings for a service over all sections of a job; the strongest section wins per key.

    A null value removes the value of weaker sections; it is kept, because it also removes what the service itself knows
    of the site. Raw lines add up, those of the site first; null removes all weaker ones.

    Raises
    ------
    ConfigError
        A value is of the wrong kind.
    """
    values: SettingValues = {}
    maps: dict[str, SettingValues] = {name: {} for name in keys.maps}
    origins: dict[str, Origin] = {}
    sections = list(_sections(config, scope))
    for _, section in sections:
        for key, below in _map_under(section, keys.map):
            values[key] = _interpolate(f"{keys.map}.{key}", below, interpolate)
            origins[key] = below.origin
        for name in keys.maps:
            for key, below in _map_under(section, name):
                maps[name][key] = _interpolate(f"{name}.{key}", below, interpolate)
                values[name] = maps[name]
                origins[name] = below.origin
        for key in keys.keys:
            if key in section:
                values[key] = _interpolate(key, section[key], interpolate)
                origins[key] = section[key].origin
    lines = _gather_directives(sections, keys, interpolate, origins)
    if lines is not None:
        values[DIRECTIVES_KEY] = lines
    if container := _read_container(sections, interpolate, origins):
        values[CONTAINER] = container
    return ServiceSettings(values, origins)


def _map_under(section: Mapping[str, Node], path: str) -> Iterator[tuple[str, Node]]:
    """The items of a map of a section; empty where the map is missing."""
    *outer, last = path.split(".")
    for name in outer:
        section = map_items(section.get(name))
    node = section.get(last)
    if node is None or node.value is None:
        return
    if not isinstance(node.value, dict):
        raise ConfigError(f"'{path}' must be a map, not {quote_value(plain_value(node))}", origin=node.origin)
    yield from node.value.items()


def render_settings(values: Mapping[str, SettingValue], known: Mapping[str, object]) -> dict[str, YamlValue]:
    """The settings of one job, from the values of its free variables."""
    return {key: _render_value(value, known) for key, value in values.items()}


def varies_per_job(values: Mapping[str, SettingValue]) -> bool:
    """Whether any value differs per job."""
    return any(map(_value_varies, values.values()))


def _sections(config: Config, scope: Scope) -> Iterator[tuple[str, Mapping[str, Node]]]:
    """Name and map of each section that applies to a job, weakest first; the root and the site describe places."""
    yield "", map_items(config.root)
    for name in reversed(SECTIONS):
        if name in LABEL_SECTIONS:
            # Without a chosen part, a search looks at all parts of a section; here, a site may have the map's name.
            choice = scope.current.get(f"curr_{name}")
            yield name, map_items(config.node_at(name, str(choice)) if choice else None)
        else:
            yield name, map_items(config.node_at(name))
    if isinstance(scope.searchobj, Node):
        yield "searchobj", map_items(scope.searchobj)


_SITE_SECTIONS: Final = ("", "cloud", "site")


def _gather_directives(
    sections: Sequence[tuple[str, Mapping[str, Node]]],
    keys: ServiceKeys,
    interpolate: Interpolate,
    origins: dict[str, Origin],
) -> list[SettingValue] | None:
    """Raw lines of all sections; ``None`` where no section has the key."""
    found: list[SettingValue] | None = None
    site_lines: dict[str, list[SettingValue]] = {}
    for name, section in sections:
        for key in keys.lines:
            node = section.get(key)
            if node is None:
                continue
            origins[DIRECTIVES_KEY] = node.origin
            new_lines = _interpolate_lines(key, node, interpolate)
            if name in _SITE_SECTIONS:
                # Settings of a site come from the strongest section, like its other values.
                site_lines[key] = new_lines
                found = [line for lines in site_lines.values() for line in lines]
            else:
                found = [] if node.value is None else [*(found or ()), *new_lines]
    return found


def _interpolate_lines(key: str, node: Node, interpolate: Interpolate) -> list[SettingValue]:
    if node.value is None:
        return []
    nodes = node.value if isinstance(node.value, list) else [node]
    for each in nodes:
        if isinstance(each.value, dict | list | bool) or each.value is None:
            raise ConfigError(
                f"'{key}' must be lines of text, not {quote_value(plain_value(each))}",
                origin=each.origin,
                hint=f'For example \'{key}: ["-t 00:05", "-C haswell"]\'.',
            )
    return [_interpolate(key, each, interpolate) for each in nodes]


def _read_container(
    sections: Sequence[tuple[str, Mapping[str, Node]]], interpolate: Interpolate, origins: dict[str, Origin]
) -> SettingValue:
    """The command in front of others, from the strongest section that has one."""
    for _, section in reversed(sections):
        node = section.get(CONTAINER)
        if node is not None:
            origins[CONTAINER] = node.origin
            return _interpolate(CONTAINER, node, interpolate)
    return None


def _interpolate(key: str, node: Node, interpolate: Interpolate) -> SettingValue:
    if isinstance(node.value, list):
        return [_interpolate(key, each, interpolate) for each in node.value]
    if isinstance(node.value, dict):
        return {name: _interpolate(f"{key}.{name}", below, interpolate) for name, below in node.value.items()}
    if not isinstance(node.value, str):
        return None if isinstance(node.value, Marker) else node.value
    template = interpolate(key, node.value, node.origin)
    return template if template.names else template.render({})


def _render_value(value: SettingValue, known: Mapping[str, object]) -> YamlValue:
    if isinstance(value, Template):
        return value.render(known)
    if isinstance(value, list):
        return [_render_value(each, known) for each in value]
    if isinstance(value, dict):
        return render_settings(value, known)
    return value


def _value_varies(value: SettingValue) -> bool:
    if isinstance(value, list):
        return any(map(_value_varies, value))
    return varies_per_job(value) if isinstance(value, dict) else isinstance(value, Template)
