"""Settings of the choice of a site: ``siteSelection``, and the algorithms that its keys name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.config.merge import Node, map_items, plain_map, plain_value
from longshore.config.quantities import parse_count, parse_walltime
from longshore.config.search import Config
from longshore.contract.algorithms import (
    GraphBackend,
    JobSpecification,
    MatchAlgorithm,
    Requirement,
    SelectionAlgorithm,
    SelectionSettings,
)
from longshore.errors import ConfigError, Origin
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all
from longshore.sites.job_specification import read_job_specification, read_requires
from longshore.world.plugins import SITE_GRAPHS, SITE_MATCH, SITE_SELECTION, all_plugins, find_plugin
from longshore.world.read.yaml_includes import read_yaml

SECTION: Final = "siteSelection"
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("match", "select", "probe"),
    "match": ("requires", "jobSpecification", "graph"),
    "probe": ("timeout", "stale"),
}


class ChoiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a choice; `options` has all keys of ``siteSelection.select``."""

    requires: tuple[Requirement, ...] = ()
    specification: JobSpecification | None = None
    backend: GraphBackend
    algorithms: Mapping[str, MatchAlgorithm]
    name: str = "first"
    select: SelectionAlgorithm
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    seed: int | None = None
    timeout_s: float = 5.0
    stale_s: float = 60.0


def read_choice_settings(config: Config, folder: Path) -> ChoiceSettings:
    """Read ``siteSelection``; files are looked up beside the user's file, in `folder`.

    Raises `ConfigError` if a key, an algorithm or a value is wrong.
    """
    section = config.node_at(SECTION)
    parts = _parts(section)
    algorithms = {name: _load(SITE_MATCH, name, "algorithm for requirements", None) for name in all_plugins(SITE_MATCH)}
    match, select, probe = (map_items(parts.get(key)) for key in ("match", "select", "probe"))
    chosen = select.get("name")
    name = str(chosen.value) if chosen is not None and chosen.value else "first"
    graph = match.get("graph")
    seed = select.get("seed")
    settings = ChoiceSettings(
        requires=read_requires(match["requires"], algorithms) if "requires" in match else (),
        specification=_read_specification(match.get("jobSpecification"), folder, algorithms),
        backend=_load(
            SITE_GRAPHS, str(graph.value) if graph else "memory", "backend of graphs", graph.origin if graph else None
        ),
        algorithms=algorithms,
        name=name,
        select=_load(SITE_SELECTION, name, "algorithm of selection", chosen.origin if chosen else None),
        options=plain_map(parts.get("select")),
        seed=None if seed is None or seed.value is None else parse_count(plain_value(seed), "seed", seed.origin),
        timeout_s=_seconds(probe.get("timeout"), "timeout", 5.0),
        stale_s=_seconds(probe.get("stale"), "stale", 60.0),
    )
    try:
        # Options are checked before any site is asked.
        settings.select((), SelectionSettings(options=settings.options))
    except ConfigError as error:
        origin = error.origin or (parts["select"].origin if "select" in parts else None)
        raise ConfigError(error.message, origin=origin, hint=error.hint) from None
    return settings


def _parts(section: Node | None) -> Mapping[str, Node]:
    """Return the maps of ``siteSelection``; raises `ConfigError` for another value or an unknown key."""
    if section is None or section.value is None:
        return {}
    for path, node in (("", section), *((key, map_items(section).get(key)) for key in ("match", "select", "probe"))):
        if node is None or node.value is None:
            continue
        name = f"{SECTION}.{path}".rstrip(".")
        if not isinstance(node.value, dict):
            raise ConfigError(f"'{name}' must be a map", origin=node.origin)
        known = _KEYS.get(path)
        for key, item in node.value.items() if known else ():
            assert known is not None
            if key not in known:
                hint = did_you_mean(key, known, likeness=NAME_LIKENESS) or name_all(known)
                raise ConfigError(f"'{name}' has no key '{key}'", origin=item.origin, hint=hint)
    return map_items(section)


def _load(group: str, name: str, what: str, origin: Origin | None) -> Any:
    plugin = find_plugin(group, name)
    names = sorted(all_plugins(group)) if plugin is None else []
    if plugin is None:
        hint = f"{did_you_mean(name, names, likeness=NAME_LIKENESS)} {name_all(names)}"
        raise ConfigError(f"there is no {what} '{name}'", origin=origin, hint=hint.strip())
    try:
        found: Callable[..., Any] = plugin.load()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"the {what} '{name}' cannot be loaded: {error}", origin=origin) from error
    return found


def _read_specification(
    node: Node | None, folder: Path, algorithms: Mapping[str, MatchAlgorithm]
) -> JobSpecification | None:
    """Read a job specification, in place or from the file that is named."""
    if node is None or node.value is None:
        return None
    if isinstance(node.value, dict):
        return read_job_specification(node, algorithms)
    if not isinstance(node.value, str):
        raise ConfigError("'jobSpecification' must be a map or the name of a file", origin=node.origin)
    return read_job_specification(read_yaml(folder / Path(node.value).expanduser()), algorithms)


def _seconds(node: Node | None, key: str, default: float) -> float:
    if node is None or node.value is None:
        return default
    return parse_walltime(plain_value(node), f"{SECTION}.probe.{key}", node.origin)
