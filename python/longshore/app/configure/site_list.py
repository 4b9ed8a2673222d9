"""Lists the sites that can be named, and shows one with all it inherits and where each value of it was written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from longshore.app.configure.layers import read_surroundings
from longshore.app.configure.schemas import profile_schema
from longshore.app.configure.site import refuse_wrong, service_of, site_folders, site_profile, unknown_site
from longshore.config.lint.schema_check import check
from longshore.config.values.merge import LayerRank, LayerStack, Node, layer_from_mapping, overlay, plain, plain_map
from longshore.config.values.search import Config
from longshore.errors import ConfigError, UsageError
from longshore.model.values import YamlValue
from longshore.origin import Origin
from longshore.world.read.site_profiles import SitePath


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A site in the list.

    Attributes
    ----------
    service
        Short name of its service; ``None`` where it does not say.
    place
        Kind of place where its profile lies; ``configuration`` for a section.
    error
        What is wrong with it.
    """

    name: str
    service: str | None
    title: str
    place: str
    origin: Origin
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A site with all it inherits.

    Attributes
    ----------
    chain
        Names of the sites it consists of, weakest first.
    values
        All that is said of it.
    origins
        Each value that is no map, by the steps that lead to it, with the place where it was written.
    """

    listed: Listed
    chain: tuple[str, ...]
    values: Mapping[str, YamlValue]
    origins: Mapping[tuple[str, ...], tuple[YamlValue, Origin]] = field(default_factory=dict)


def list_sites(site_path: Sequence[str]) -> list[Listed]:
    """All sites, in the order of their names; one that cannot be read is in the list with what is wrong with it.

    Parameters
    ----------
    site_path
        Directories of ``--site-path``.

    Raises
    ------
    UsageError
        One of these is not there.
    ConfigError
        The configuration of this machine or user is wrong.
    """
    first, sites = _around(site_path)
    section = first.at("site")
    own = section.value if section and isinstance(section.value, dict) else {}
    names = sorted({*sites.all, *own})
    return [_listed(name, first, sites) for name in names]


def show_site(name: str, site_path: Sequence[str]) -> Shown:
    """One site.

    Parameters
    ----------
    name
        Its name.
    site_path
        As for `list_sites`.

    Raises
    ------
    UsageError
        A directory is not there.
    ConfigError
        There is no such site, or its profile is wrong.
    """
    first, sites = _around(site_path)
    resolved = site_profile(first, name, sites)
    section = first.at("site", name)
    if resolved is None and section is None:
        raise unknown_site(name, first, sites, None)
    root = resolved.root if resolved else Node({}, Origin(""))
    refuse_wrong(check(root, profile_schema()))
    if section:
        root = overlay(root, section)
    chain = tuple(dict.fromkeys(profile.name for profile in resolved.chain)) if resolved else (name,)
    return Shown(
        listed=_listed(name, first, sites), chain=chain, values=plain_map(root), origins=dict(_origins(root, ()))
    )


def _around(site_path: Sequence[str]) -> tuple[Config, SitePath]:
    """What is configured before any run names a file."""
    for folder in site_path:
        if not Path(folder).is_dir():
            raise UsageError(f"'--site-path' names '{folder}', which is no directory")
    env = dict(os.environ)
    layers, _, _ = read_surroundings(env)
    stack = LayerStack().with_layers(*layers)
    if site_path:
        given = layer_from_mapping({"sitePath": list(site_path)}, "--site-path", LayerRank.COMMAND_LINE)
        stack = stack.with_layers(given)
    first = Config(stack.root())
    return first, SitePath(site_folders(first, env), env)


def _listed(name: str, first: Config, sites: SitePath) -> Listed:
    file = sites.all.get(name)
    section = first.at("site", name)
    place = file.place.value if file else "configuration"
    origin = Origin(str(file.path)) if file else section.origin if section else Origin("")
    try:
        title = sites.head(file).title if file else ""
        service = service_of(name, first, sites) or None
    except ConfigError as error:
        return Listed(
            name=name, service=None, title="", place=place, origin=error.origin or origin, error=error.message
        )
    return Listed(name=name, service=service, title=title, place=place, origin=origin)


def _origins(node: Node, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[YamlValue, Origin]]]:
    if isinstance(node.value, dict) and node.value:
        for name, below in node.value.items():
            yield from _origins(below, (*steps, name))
    else:
        yield steps, (plain(node), node.origin)
