"""Sites as a run sees them: the one that it names, its profile as layers with origins, and the list of all."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.config.interpolate import Interpolator, Scope
from longshore.config.layers import read_base_layers
from longshore.config.merge import (
    PACKAGED_LAYERS,
    Layer,
    LayerRank,
    LayerStack,
    Node,
    make_layer,
    map_items,
    overlay,
    plain_map,
    plain_value,
)
from longshore.config.schema import PROFILE_ONLY_KEYS, RENAMED_KEYS, Finding, Severity, check_schema, setting_value
from longshore.config.schemas import profile_schema, site_schema
from longshore.config.search import Config
from longshore.config.service_lookup import default_service, default_site_by_name, short_name
from longshore.errors import ConfigError, FilesError, Origin, UsageError
from longshore.model.values import YamlValue
from longshore.model.wording import did_you_mean, name_all, quote_value
from longshore.sites.limits import SiteLimits, lower_limits, read_limits
from longshore.sites.profile import (
    ResolvedSiteProfile,
    SiteProfile,
    host_matches,
    only_site,
    parent_names,
    profile_layer,
    rename_keys,
    resolve_profile,
    site_description,
)
from longshore.sites.profile_files import SiteFolderKind, SitePath
from longshore.system.host import host_name
from longshore.system.reading import can_see_folder

# Site of a run: choice of the site, its profile as configuration layers, and its resolved settings.


AUTO: Final = "auto"
"""Value of ``computeSite`` for any site that is described."""
_EXPANDED_KEYS: Final = ("scratch", "container", "group")
"""Profile keys whose variables are replaced; the maps of services are left to the services."""


class ResolvedSite(msgspec.Struct, frozen=True, kw_only=True):
    """Resolved settings of a site under the keys of a profile, its resource limits, and notes on ignored values."""

    name: str
    settings: Mapping[str, Any]
    limits: SiteLimits
    notes: tuple[str, ...] = ()
    origin: Origin | None = None
    origins: Mapping[str, Origin] = msgspec.field(default_factory=dict)
    """As those of `longshore.contract.service.Site`."""

    @property
    def umask(self) -> int | None:
        """Umask for files of the run; ``None`` if not set."""
        text = self.settings.get("umask")
        return int(text, 8) if text else None


def site_folders(base: Config, env: Mapping[str, str]) -> list[Path]:
    """Return the folders of ``sitePath``; raises `ConfigError` if one is missing."""
    found = base.search("sitePath", Scope(env=env))
    value = found.value
    names = [str(name) for name in value] if isinstance(value, list) else str(value or "").split(os.pathsep)
    # `os.path`, unlike `Path`, gives an answer for unknown users and for names that are too long.
    folders = [Path(os.path.expanduser(name)) for name in names if name]  # noqa: PTH111
    for folder in folders:
        if not os.path.isdir(folder):  # noqa: PTH112
            raise ConfigError(f"'sitePath' names '{folder}', which is no directory", origin=found.origin)
    return folders


def choose_site(base: Config, env: Mapping[str, str], sites: SitePath) -> str:
    """Return the site of the whole run; empty if none is named and none matches this host.

    Of several candidates (a list, a pattern or ``auto``) the first is taken: `longshore.plan.site_choice` chooses among
    them when a run is made. A map under ``computeSite``, which BPS accepts, names none.
    Raises `ConfigError` if several sites match this host, or a candidate is unknown.
    """
    written = base.search("computeSite", Scope(env=env))
    named = written.as_written
    if isinstance(named, str | list) and (found := candidates_of(named, base, sites, written.origin)) is not None:
        return found[0]
    if named and not isinstance(named, dict):
        return str(named)
    name, origin = chosen_service(base, "", env)
    service = short_name(name)
    asked = origin is not None and origin.layer not in PACKAGED_LAYERS
    here = _sites_matching_host(host_name(), base, sites)
    fit = [name for name in here if not asked or service_of_site(name, base, sites) == service]
    if only := only_site(host_name(), [(name, _site_source(name, base, sites)) for name in fit]):
        return only
    return default_site_by_name(service)


def chosen_service(config: Config, site: str, env: Mapping[str, str]) -> tuple[str, Origin | None]:
    """Return the service of jobs at a site, and where it was written; an empty value names none."""
    found = config.search("wmsServiceClass", Scope(current={"curr_site": site}, env=env))
    if found.value:
        return found.text, found.origin
    node = found.node
    while node is not None and not node.value:
        node = node.replaced_node
    return (node.text, node.origin) if node is not None else (default_service(), found.origin)


def candidates_of(
    value: YamlValue, base: Config, sites: SitePath, origin: Origin | None = None
) -> tuple[str, ...] | None:
    """Return the candidates that ``computeSite`` has; ``None`` if it names one site, or none.

    ``auto`` stands for all sites that are described, except those that Longshore ships. A text with ``*``, ``?`` or
    ``[`` is a pattern. Raises `ConfigError` as `candidate_sites`, and where ``auto`` finds no site.
    """
    if isinstance(value, list):
        return candidate_sites([str(name) for name in value], base, sites, origin)
    if not isinstance(value, str) or is_described(value, base, sites):
        return None
    if value == AUTO:
        profiles = [name for name, file in sites.all.items() if file.place is not SiteFolderKind.PACKAGE]
        found = dict.fromkeys([*map_items(base.node_at("site")), *sorted(profiles)])
        if not found:
            raise ConfigError(
                "'computeSite' is 'auto', and no site is described" if origin else "no site is described",
                origin=origin,
                hint="Describe sites in profiles or sections 'site.NAME'; 'longshore site list' shows those there are.",
            )
        return tuple(found)
    return candidate_sites([value], base, sites, origin) if set("*?[") & set(value) else None


def candidate_sites(
    names: Sequence[str], base: Config, sites: SitePath, origin: Origin | None = None
) -> tuple[str, ...]:
    """Return the sites that a list under ``computeSite`` names, in its order; ``gpu-*`` stands for all that match.

    Raises `ConfigError` for an unknown site, and where nothing matches.
    """
    known = sorted({*sites.all, *map_items(base.node_at("site"))})
    found: dict[str, None] = {}
    for name in names:
        matches = fnmatch.filter(known, name)
        if not matches and not set("*?[") & set(name):
            raise unknown_site(name, base, sites, origin)
        found |= dict.fromkeys(matches)
    if not found:
        written = ", ".join(f"'{name}'" for name in names)
        raise ConfigError(
            f"no site matches {written}" if names else "'computeSite' is an empty list, which names no site",
            origin=origin,
            hint="'longshore site list' shows the sites there are.",
        )
    return tuple(found)


def site_layers(base: Config, name: str, sites: SitePath) -> tuple[ResolvedSiteProfile | None, tuple[Layer, ...]]:
    """Return the profile of a site and the layers of the site, none if nothing describes it.

    The profile is merged at the root, together with the keys of the user's section for the site that BPS does not
    know. Raises `ConfigError` if its profile is wrong.
    """
    resolved = site_profile(base, name, sites)
    section = _site_section(base, name)
    layers = []
    if resolved:
        raise_first_error(check_schema(resolved.root, profile_schema()))
        layers.append(Layer(name, LayerRank.SITE, profile_layer(resolved.marked)))
    if section and (keys := rename_keys(section)):
        below = Node({"site": Node({name: Node(keys, section.origin)}, section.origin)}, section.origin)
        layers.append(Layer(name, LayerRank.SITE, below))
    return resolved, tuple(layers)


def site_profile(base: Config, name: str, sites: SitePath) -> ResolvedSiteProfile | None:
    """Return a site's profile with inherited values; ``None`` for a section without ``inherits``.

    Raises `ConfigError` if the profile cannot be read, inherits itself, or inherits an unknown site.
    """
    file = sites.find(name)
    section = _site_section(base, name)
    inherits = map_items(section).get("inherits")
    if file is None and inherits is None:
        return None
    profile = sites.profile(file) if file else SiteProfile(name=name, root=Node({}, Origin("")), personal=True)
    if inherits is not None:
        root = overlay(profile.root, Node({"inherits": inherits}, profile.root.origin))
        profile = msgspec.structs.replace(profile, root=root)

    def find(parent: str, origin: Origin) -> SiteProfile:
        if found := sites.find(parent):
            return sites.profile(found)
        if (own := _site_section(base, parent)) is not None:
            return SiteProfile(name=parent, root=own, personal=True)
        raise unknown_site(parent, base, sites, origin)

    return resolve_profile(profile, find)


def resolve_site(
    config: Config, name: str, profile: ResolvedSiteProfile | None, *, env: Mapping[str, str], service: str
) -> ResolvedSite:
    """Resolve the settings and limits of a site from the configuration with its layers.

    `service` is the short name of the service; its own map is kept under any name. Raises `ConfigError` if a value is
    wrong or the site is disabled.
    """
    section = _site_section(config, name)
    if (reason := why_disabled(profile, section)) is not None:
        raise ConfigError(
            f"the site '{name}' is disabled: {reason.value}",
            origin=reason.origin,
            hint="Choose another site: 'longshore site list' shows those there are.",
        )
    schema = site_schema()
    keys = [
        key for key in schema["properties"] if key not in PROFILE_ONLY_KEYS - {"limits"} and key not in RENAMED_KEYS
    ]
    whole = site_description(config, name, dict.fromkeys([*keys, short_name(service)]))
    notes = []
    settings: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    own: Node | None = None
    for key, node in map_items(whole).items():
        findings = check_schema(Node({key: node}, node.origin), schema)
        if problem := next((finding for finding in findings if finding.severity is Severity.ERROR), None):
            if node.replaced_node is not None or node.origin.layer == LayerRank.SITE.label:
                raise ConfigError(problem.message, origin=problem.origin, hint=problem.hint)
            notes.append(
                f"{problem.origin}: '{key}' is used as a variable only: as a setting of the site, {problem.message}"
            )
        elif key == "limits":
            own = node
        elif node.value is not None:
            settings[key] = setting_value(node, schema["properties"].get(key), schema)
            origins[key] = node.origin
            origins |= {f"{key}.{part}": item.origin for part, item in map_items(node).items()}
    scope = Scope(current={"curr_site": name}, env=env)
    for key in _EXPANDED_KEYS:
        if isinstance(settings.get(key), str):
            template = Interpolator(config, scope).template(settings[key], map_items(whole)[key].origin)
            settings[key] = template.render({})
    limits, raised = combine_limits(profile, own, name)
    origin = profile.chain[-1].root.origin if profile else section.origin if section else None
    return ResolvedSite(
        name=name, settings=settings, limits=limits, notes=(*notes, *raised), origin=origin, origins=origins
    )


def refuse_missing_scratch(config: Config, site: ResolvedSite) -> None:
    """Raise `FilesError` at the value of ``scratch`` if a site has one that is no directory on this machine."""
    scratch = site.settings.get("scratch")
    if not scratch or can_see_folder(Path(scratch)):
        return
    written = map_items(site_description(config, site.name, {"scratch": None})).get("scratch")
    raise FilesError(
        f"'scratch' of the site '{site.name}' is '{scratch}', which is no directory",
        origin=written.origin if written is not None else site.origin,
        hint="Make it, name another one, or leave the key out: jobs then use the directory of the machine ($TMPDIR).",
    )


def why_disabled(profile: ResolvedSiteProfile | None, section: Node | None) -> Node | None:
    """Return the reason for which a site is disabled, by its profile or the section over it; ``None`` if it is not."""
    found = {**map_items(profile.root if profile else None), **map_items(section)}.get("disabled")
    return found if found is not None and found.value is not None else None


def is_described(name: str, base: Config, sites: SitePath) -> bool:
    """Tell whether a site has a profile or a section."""
    return sites.find(name) is not None or _site_section(base, name) is not None


def unknown_site(name: str, base: Config, sites: SitePath, origin: Origin | None) -> ConfigError:
    """Return the error for an undefined site."""
    names = [*sites.all, *map_items(base.node_at("site"))]
    hint = did_you_mean(name, names) or name_all(dict.fromkeys(names))
    error = ConfigError(f"there is no site '{name}'", origin=origin, hint=f"{hint} More: longshore site list")
    # A traceback has it, for who asks with '--debug'.
    error.add_note(f"Profiles are searched for in {', '.join(str(folder) for _, folder in sites.folders())}")
    return error


def raise_first_error(findings: Iterable[Finding], *, command: str = "") -> None:
    """Raise the first error among findings, with the number of others; `command` lists them all."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        more = len(errors) - 1
        shown_by = f": {command}" if command else ""
        others = f" (and {more} more error{'s' if more > 1 else ''}{shown_by})" if more else ""
        raise ConfigError(errors[0].message + others, origin=errors[0].origin, hint=errors[0].hint)


def combine_limits(resolved: ResolvedSiteProfile | None, own: Node | None, name: str) -> tuple[SiteLimits, list[str]]:
    """Return the limits of a profile, lowered by those of the user's section, and a note per ignored limit."""
    if resolved is None:
        return read_limits(own), []
    limits, first_notes = lower_limits(
        read_limits(resolved.limits(personal=False)), read_limits(resolved.limits(personal=True)), name
    )
    limits, notes = lower_limits(limits, read_limits(own), name)
    return limits, [*first_notes, *notes]


def _site_section(base: Config, name: str) -> Node | None:
    found = base.node_at("site", name)
    return found if found is not None and isinstance(found.value, dict) else None


def _sites_matching_host(host: str, base: Config, sites: SitePath) -> list[str]:
    """Return the sites whose host patterns match; patterns in the user's section win over the profile's."""
    patterns = {name: sites.hosts(file) for name, file in sites.all.items()}
    for name in map_items(base.node_at("site")):
        hosts = base.node_at("site", name, "hosts")
        if hosts is not None and isinstance(hosts.value, list):
            patterns[name] = tuple(each.text for each in hosts.value)
    return [name for name, these in patterns.items() if host_matches(host, these)]


def service_of_site(name: str, base: Config, sites: SitePath, seen: tuple[str, ...] = ()) -> str:
    """Return the short name of a site's service, read from profile heads; empty if not given."""
    section = _site_section(base, name)
    own = plain_map(section)
    file = sites.find(name)
    head = sites.head(file) if file else None
    if service := own.get("wmsServiceClass") or own.get("service") or (head.service if head else ""):
        return short_name(str(service))
    inherits = parent_names(map_items(section).get("inherits"))
    for parent in reversed(inherits or (head.inherits if head else ())):
        if parent not in seen and (service := service_of_site(parent, base, sites, (*seen, name))):
            return service
    return ""


def _site_source(name: str, base: Config, sites: SitePath) -> str:
    file = sites.find(name)
    section = _site_section(base, name)
    return str(file.path) if file else quote_value(section.origin) if section else name


# Lists available sites, and shows one site with inherited values and the origin of each.


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
    disabled = reason.text if reason else None
    return KnownSite(name=name, service=service, title=title, place=place, origin=origin, disabled=disabled)


def _value_origins(node: Node, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[YamlValue, Origin]]]:
    if isinstance(node.value, dict) and node.value:
        for name, below in node.value.items():
            yield from _value_origins(below, (*steps, name))
    else:
        yield steps, (plain_value(node), node.origin)
