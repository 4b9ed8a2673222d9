"""Lists available sites, and shows one site with inherited values and the origin of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from longshore.app.configure.layers import read_base_layers
from longshore.app.configure.schemas import profile_schema
from longshore.app.configure.site import (
    is_described,
    raise_first_error,
    service_of_site,
    site_folders,
    site_profile,
    unknown_site,
    why_disabled,
)
from longshore.config.merge import (
    LayerRank,
    LayerStack,
    Node,
    make_layer,
    map_items,
    overlay,
    plain_map,
    plain_value,
)
from longshore.config.schema import check_schema
from longshore.config.search import Config
from longshore.errors import ConfigError, Origin, UsageError
from longshore.model.values import YamlValue
from longshore.system.reading import can_see_folder
from longshore.world.read.site_profiles import SitePath


class KnownSite(msgspec.Struct, frozen=True, kw_only=True):
    """Site in the list.

    `service` is ``None`` if the site names none. `place` is the kind of folder that holds its profile, or
    ``configuration`` for a section. `disabled` is the reason for which it is disabled, and `error` says what is wrong
    with it.
    """

    name: str
    service: str | None
    title: str
    place: str
    origin: Origin
    disabled: str | None = None
    error: str | None = None


class SiteDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Site with inherited values.

    `chain` names the inherited sites, weakest first. `origins` maps the path of each value that is no map to its
    origin.
    """

    entry: KnownSite
    chain: tuple[str, ...]
    values: Mapping[str, YamlValue]
    origins: Mapping[tuple[str, ...], tuple[YamlValue, Origin]] = msgspec.field(default_factory=dict)


def list_sites(site_path: Sequence[str] = ()) -> list[KnownSite]:
    """List all sites by name; a site that cannot be read is listed with its error.

    `site_path` holds the folders of ``--site-path``. Raises `UsageError` if one of these is missing, `ConfigError` if
    the configuration of this machine or user is wrong.
    """
    base, sites = _read_sites(site_path)
    names = sorted({*sites.all, *map_items(base.node_at("site"))})
    return [_known_site(name, base, sites) for name in names]


def show_site(name: str, site_path: Sequence[str]) -> SiteDescription:
    """Return one site with inherited values and origins.

    `site_path` is that of `list_sites`. Raises `UsageError` if a folder is missing, `ConfigError` if the site is
    unknown or its profile is wrong.
    """
    base, sites = _read_sites(site_path)
    resolved = site_profile(base, name, sites)
    section = base.node_at("site", name)
    if resolved is None and section is None:
        raise _unknown_site(name, base, sites)
    root = resolved.root if resolved else Node({}, Origin(""))
    raise_first_error(check_schema(root, profile_schema()))
    if section:
        root = overlay(root, section)
    chain = tuple(dict.fromkeys(profile.name for profile in resolved.chain)) if resolved else (name,)
    return SiteDescription(
        entry=_known_site(name, base, sites),
        chain=chain,
        values=plain_map(root),
        origins=dict(_value_origins(root, ())),
    )


def require_site(name: str, site_path: Sequence[str]) -> None:
    """Raise `ConfigError` if there is no such site; `site_path` is that of `list_sites`."""
    base, sites = _read_sites(site_path)
    if not is_described(name, base, sites):
        raise _unknown_site(name, base, sites)


def _unknown_site(name: str, base: Config, sites: SitePath) -> ConfigError:
    error = unknown_site(name, base, sites, None)
    hint = f"{error.hint} Sections in the file of a run are not read here."
    return ConfigError(error.message, origin=error.origin, hint=hint)


def _read_sites(site_path: Sequence[str]) -> tuple[Config, SitePath]:
    """Return the configuration of machine and user, without any run's file, and the site search path."""
    for folder in site_path:
        if not can_see_folder(Path(folder)):
            raise UsageError(f"'--site-path' names '{folder}', which is no directory")
    env = dict(os.environ)
    layers, _, _ = read_base_layers(env)
    stack = LayerStack().with_layers(*layers)
    if site_path:
        given = make_layer({"sitePath": list(site_path)}, "--site-path", LayerRank.COMMAND_LINE)
        stack = stack.with_layers(given)
    base = Config(stack.root())
    return base, SitePath(site_folders(base, env), env)


def _known_site(name: str, base: Config, sites: SitePath) -> KnownSite:
    file = sites.all.get(name)
    section = base.node_at("site", name)
    place = file.place.value if file else "configuration"
    origin = Origin(str(file.path)) if file else section.origin if section else Origin("")
    try:
        title = sites.head(file).title if file else ""
        service = service_of_site(name, base, sites) or None
        reason = why_disabled(site_profile(base, name, sites), section)
    except ConfigError as error:
        return KnownSite(
            name=name, service=None, title="", place=place, origin=error.origin or origin, error=error.message
        )
    disabled = str(reason.value) if reason else None
    return KnownSite(name=name, service=service, title=title, place=place, origin=origin, disabled=disabled)


def _value_origins(node: Node, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[YamlValue, Origin]]]:
    if isinstance(node.value, dict) and node.value:
        for name, below in node.value.items():
            yield from _value_origins(below, (*steps, name))
    else:
        yield steps, (plain_value(node), node.origin)
