"""Stages of a configuration: layers, draft with a chosen site and service, and resolved configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from longshore.app.configure.layers import Layers, Overrides, file_layer, read_layers, schema_keys
from longshore.app.configure.schemas import configuration_schema
from longshore.app.configure.secret_values import note_layers
from longshore.app.configure.service_lookup import (
    BPS_PACKAGE,
    SERVICE_VARIABLE,
    default_service,
    find_service,
    find_service_plugin,
    names_foreign_code,
    short_name,
)
from longshore.app.configure.site import (
    ResolvedSite,
    choose_site,
    chosen_service,
    is_described,
    resolve_site,
    site_folders,
    site_layers,
    unknown_site,
)
from longshore.app.payload.lsst import is_lsst, lsst_layer
from longshore.config.explain import KeyExplanation, explain_key
from longshore.config.interpolate import FunctionCaller, Scope
from longshore.config.merge import PACKAGED_LAYERS, Layer, LayerRank, make_layer, map_items, merge_over
from longshore.config.quantities import parse_bool
from longshore.config.search import Config
from longshore.contract.capabilities import backend_options
from longshore.contract.service import WmsService
from longshore.errors import CodeRefusedError, ConfigError, Origin
from longshore.model.values import YamlValue
from longshore.sites.profile import ResolvedSiteProfile
from longshore.world.read.set_options import parse_variables
from longshore.world.read.site_profiles import SiteFolderKind, SitePath
from longshore.world.read.yaml_includes import SourceFile

CONVERT_FROM: Final = "convertFrom"
"""Key of the site and the service whose requests are converted to those of this machine; a fallback sets it."""
LOOK_HINT: Final = "'config lint --import' and 'draw --import' import it, as a submission does."
"""Way out of a command that only looks at a configuration, and needs its code."""
_CHOSEN_BY_USER: Final = frozenset(
    rank.label for rank in (LayerRank.SYSTEM, LayerRank.USER, LayerRank.ENVIRONMENT, LayerRank.COMMAND_LINE)
)
"""Layers with what the user or the administrator of the machine writes, and nobody else."""
DEFAULT_LAYERS: Final = PACKAGED_LAYERS | {LayerRank.SITE.label}
"""Layers with values that no person chose for this run."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Merged configuration at one site.

    `base` is the merge without any site, used to look up sites; `sites` is their search path. `config` is the merge
    of all layers, with `site_layers` (site, kind of payload, service) and, of highest rank, `top_layers`. `site` is
    empty if unknown. `profile` includes inherited values.
    """

    layers: Layers
    base: Config
    sites: SitePath
    config: Config
    site: str
    service: str
    service_origin: Origin | None
    profile: ResolvedSiteProfile | None = None
    site_layers: tuple[Layer, ...] = ()
    top_layers: tuple[Layer, ...] = ()

    @property
    def path(self) -> Path:
        """Path of the user's file."""
        return self.layers.path

    @property
    def env(self) -> Mapping[str, str]:
        """Environment, with ``PWD`` set to the physical directory."""
        return self.layers.env

    @property
    def all_layers(self) -> tuple[Layer, ...]:
        """All merged layers."""
        return (*self.layers.stack.layers, *self.site_layers, *self.top_layers)

    @cached_property
    def resolved_site(self) -> ResolvedSite:
        """Settings and limits of the site; raises `ConfigError` if one of them is wrong."""
        if not self.site:
            return ResolvedSite(name="", settings={}, limits={})
        return resolve_site(self.config, self.site, self.profile, env=self.env, service=self.service)

    def read_files(self) -> tuple[SourceFile, ...]:
        """All files read: the user's, the machine's, and site profiles that are not shipped with a package."""
        return (*self.layers.files, *self.sites.files.values())

    def scope(self, **current: str) -> Scope:
        """Return the search scope of the whole run, optionally narrowed by BPS's current values."""
        return Scope(current={**current, "curr_site": self.site}, env=self.env)

    def search(self, key: str) -> YamlValue:
        """Return a key's value for the whole run, variables replaced; empty text if undefined."""
        return self.config.search(key, self.scope()).value

    def text(self, key: str) -> str:
        """Return a key's value as text; raises `ConfigError` for a list or map."""
        found = self.config.search(key, self.scope())
        if isinstance(found.value, list | dict):
            raise ConfigError(f"'{key}' must be text, not a list or a map", origin=found.origin)
        return "" if found.value is None else str(found.value)

    def flag(self, key: str) -> bool:
        """Return a key's value as a boolean, false if undefined; raises `ConfigError` for other values."""
        value = self.search(key)
        return value is not None and value != "" and parse_bool(value, key, self.origin(key))

    def origin(self, key: str) -> Origin | None:
        """Return the origin of a key's value."""
        return self.config.search(key, self.scope()).origin

    def user_origin(self, key: str, label: str) -> Origin | None:
        """Return where the user wrote a key for a label, or `None`.

        ``requestResources.gpu`` stands for the map that holds it.
        """
        name, _, below = key.partition(".")
        hit = self.config.lookup(name, self.scope(curr_pipetask=label, curr_cluster=label))
        node = hit.node if hit else None
        if below and map_items(node):
            node = map_items(node).get(below)
        return node.origin if node and node.origin.layer not in PACKAGED_LAYERS else None

    def with_top_layer(self, layer: Layer) -> Self:
        """Return a copy with one more layer of highest rank."""
        config = Config(merge_over(self.config.root, layer), self.config.caller, self.config.values)
        return replace(self, config=config, top_layers=(*self.top_layers, layer))

    def load_service(self, name: str = "", origin: Origin | None = None) -> WmsService:
        """Import the service of the run, or one that another key names at `origin`.

        Raises `CodeRefusedError` if only a file names its class and the command only looks, `UnknownServiceError` if
        it is none.
        """
        is_chosen = False
        if not name:
            name, origin = self.service, self.service_origin
            is_chosen = origin is not None and (origin.layer in _CHOSEN_BY_USER or self._is_own_profile(origin.file))
        if not self.layers.overrides.imports_code and not is_chosen and names_foreign_code(name):
            raise CodeRefusedError(
                f"'{name}'",
                "is code, and a command that only looks at a configuration imports none",
                origin=origin,
                hint=f"{LOOK_HINT} Other commands use it with {SERVICE_VARIABLE}={name}.",
            )
        return find_service(name, origin=origin)

    def _is_own_profile(self, file: str) -> bool:
        """Whether a file is one of the site's profiles that the user or the operator of the machine wrote."""
        profiles = (self.sites.find(each.name) for each in (self.profile.chain if self.profile else ()))
        own = (SiteFolderKind.USER, SiteFolderKind.SYSTEM)
        return any(each and each.place in own and str(each.path) == file for each in profiles)

    def is_bps_file(self, site: str = "") -> bool:
        """Tell whether the configuration was written for BPS, where a site needs no description."""
        service = str(self.base.search("wmsServiceClass", Scope(current={"curr_site": site}, env=self.env)).value or "")
        return service.startswith(BPS_PACKAGE) or is_lsst(self.base, site=site, env=self.env, folder=self.path.parent)

    @property
    def has_service_of_bps(self) -> bool:
        """Whether nobody names the service, and LSST's defaults do: it is the one that BPS uses by default."""
        origin = self.service_origin
        return origin is not None and origin.layer in PACKAGED_LAYERS and self.service != default_service()

    def at_site(self, name: str, origin: Origin | None = None) -> Self:
        """Return the configuration for jobs at another site; an empty name is a site without description.

        `origin` is where the name was written. Raises `ConfigError` if its profile is wrong. A site that nothing
        describes raises it as well, unless the configuration was written for BPS.
        """
        caller, values = self.config.caller, self.config.values
        # The site may choose payload and service, which bring their own defaults.
        if name and not is_described(name, self.base, self.sites) and not self.is_bps_file(name):
            raise unknown_site(name, self.base, self.sites, origin)
        profile, added = _site_layers(self.base, name, self.sites)
        note_layers(added, self.env)
        stack = self.layers.stack.with_layers(*added)
        config = Config(stack.root(), caller, values)
        if default_layers := _payload_layers(config, name, self.layers):
            stack = stack.with_layers(*default_layers)
            config = Config(stack.root(), caller, values)
        service, service_origin = chosen_service(config, name, self.env)
        if service_layers := _service_layers(service):
            default_layers += service_layers
            config = Config(stack.with_layers(*service_layers).root(), caller, values)
        for layer in self.top_layers:
            config = Config(merge_over(config.root, layer), caller, values)
        return replace(
            self,
            config=config,
            site=name,
            service=service,
            service_origin=service_origin,
            profile=profile,
            site_layers=(*added, *default_layers),
        )


class Draft(Configuration, frozen=True, kw_only=True):
    """Second stage: site and service are chosen; user functions were not called.

    `site_errors` are errors of the site, whose layers are then missing.
    """

    site_errors: tuple[ConfigError, ...] = ()


class ResolvedConfiguration(Configuration, frozen=True, kw_only=True):
    """Third stage: user functions were called; the site and the run's name are fixed."""

    def with_values(self, values: Mapping[str, str]) -> ResolvedConfiguration:
        """Return a copy with values that win over all layers (BPS: ``current``)."""
        config = Config(self.config.root, self.config.caller, {**self.config.values, **values})
        return replace(self, config=config) if values else self


def read_draft(path: Path | Layers, overrides: Overrides | None = None, *, now: float) -> Draft:
    """Read a configuration and choose its site; parameters are those of `Layers`, which may be read already.

    Raises `ConfigError` if a file cannot be read or the site is wrong, `UsageError` if a ``--set`` is malformed.
    """
    layers = path if isinstance(path, Layers) else read_layers(path, overrides, now=now)
    draft = make_draft(layers)
    if draft.site_errors:
        raise draft.site_errors[0]
    return draft


def read_draft_without_code(path: Path, overrides: Overrides | None = None) -> Draft:
    """Read a configuration to look at it: code that only its files name is not imported; raises as `read_draft`."""
    given = overrides or Overrides()
    return read_draft(path, Overrides(given.options, given.sets, imports_code=False), now=time.time())


def make_draft(
    layers: Layers,
    caller: FunctionCaller | None = None,
    *,
    open_sites: Callable[[Sequence[Path], Mapping[str, str]], SitePath] = SitePath,
) -> Draft:
    """Choose site and service, and merge their layers; `caller` calls user functions where already allowed.

    `open_sites` makes the search path of profiles; a check of a profile leaves wrong values out.
    """
    base = Config(layers.stack.root(), caller)
    env = layers.env
    site_errors: list[ConfigError] = []
    sites = open_sites((), env)
    with _collect_errors(site_errors):
        sites = open_sites(site_folders(base, env), env)
    draft = Draft(layers=layers, base=base, sites=sites, config=base, site="", service="", service_origin=None)
    with _collect_errors(site_errors):
        # Without a site, the service that the payload brings decides.
        brought = _payload_layers(base, "", layers)
        wanted = Config(layers.stack.with_layers(*brought).root(), caller) if brought else base
        name, written = choose_site(wanted, env, sites), base.search("computeSite", Scope(env=env))
        draft = draft.at_site(name, written.origin)
        if isinstance(written.value, dict | list) or (name and str(written.value or name) != name):
            chosen: dict[str, object] = {"computeSite": name or None}
            if base.node_at("bps_cmdline", "computeSite") is not None:
                chosen["bps_cmdline"] = {"computeSite": name}
            draft = draft.with_top_layer(make_layer(chosen, "computed", LayerRank.COMMAND_LINE))
    if not site_errors:
        # A look does without them, or says itself what it needs.
        with _collect_errors(site_errors), suppress(CodeRefusedError):
            draft = _add_backend_options(draft)
    return replace(draft, site_errors=tuple(site_errors))


def read_original_site(configuration: Configuration) -> tuple[str, str] | None:
    """Return the site and the service whose requests are converted; ``None`` if none are.

    Raises `ConfigError` if the value has another form.
    """
    found = configuration.config.search(CONVERT_FROM, configuration.scope())
    if not found.value:
        return None
    if isinstance(found.value, dict) and set(found.value) == {"site", "service"}:
        return str(found.value["site"]), str(found.value["service"])
    raise ConfigError(f"'{CONVERT_FROM}' must be a map with 'site' and 'service'", origin=found.origin)


def explain_keys(
    configuration: Configuration, keys: Iterable[str], *, current: Mapping[str, str], given: Iterable[str]
) -> dict[str, KeyExplanation]:
    """Look up keys and explain where each value comes from; a key that fails maps to its error.

    `current` holds BPS's current values that choose sections, such as ``curr_pipetask``; `given` holds further ones
    as ``NAME=VALUE``. Raises `UsageError` if such a pair is malformed, and `ConfigError` if the label or cluster is at
    an unknown site.
    """
    # A job's values have its labels for `{label}` and `{jobLabel}`.
    label = current.get("curr_pipetask") or current.get("curr_cluster")
    names = {"label": label, "jobLabel": current.get("curr_cluster") or label} if label else {}
    scope = Scope(current={**names, **parse_variables(given), **current}, env=configuration.env, of_attempts=True)
    configuration = _with_run_name(configuration)
    if "curr_site" not in scope.current:
        configuration = _at_chosen_site(configuration, scope)
        if configuration.site:
            scope = replace(scope, current={**scope.current, "curr_site": configuration.site})
    known, schema = schema_keys(), configuration_schema()
    return {key: explain_key(configuration.config, key, scope, known, schema) for key in keys}


def _with_run_name(configuration: Configuration) -> Configuration:
    """Return the configuration with ``uniqProcName``, as the run would have it."""
    try:
        name = configuration.text("outputRun").replace("/", "_")
    except ConfigError:
        return configuration  # the error is that of a value, not of the keys that are explained
    if not name or "uniqProcName" in configuration.config:
        return configuration
    return configuration.with_top_layer(
        make_layer({"bps_defined": {"uniqProcName": name}}, "computed", LayerRank.DEFAULTS)
    )


def _at_chosen_site(configuration: Configuration, scope: Scope) -> Configuration:
    """Return the configuration at the site that the section of a label or a cluster chooses, as for its jobs."""
    if not {"curr_pipetask", "curr_cluster"} & scope.current.keys():
        return configuration
    found = configuration.config.search("computeSite", scope)
    site = str(found.value or configuration.site)
    return configuration if site == configuration.site else configuration.at_site(site, found.origin)


@contextmanager
def _collect_errors(site_errors: list[ConfigError]) -> Iterator[None]:
    """Collect a `ConfigError` and continue after the block."""
    try:
        yield
    except ConfigError as error:
        site_errors.append(error)


def _add_backend_options(draft: Draft) -> Draft:
    """Return the draft with the values that the service reads from ``backendOptions``."""
    text = draft.text("backendOptions")
    if not text:
        return draft
    origin = draft.origin("backendOptions")
    try:
        values = backend_options(draft.load_service(), text)
    except CodeRefusedError:
        raise
    except ConfigError as error:
        raise ConfigError(error.message, origin=origin, hint=error.hint) from error
    return draft.with_top_layer(make_layer({"bps_cmdline": dict(values)}, "backendOptions", LayerRank.COMMAND_LINE))


def _site_layers(base: Config, name: str, sites: SitePath) -> tuple[ResolvedSiteProfile | None, tuple[Layer, ...]]:
    if not name:
        return None, ()
    # Found as a value by every search; a task's own value wins over it.
    default = make_layer({"computeSite": name}, "computed", LayerRank.DEFAULTS)
    profile, layers = site_layers(base, name, sites)
    return profile, (default, *layers)


def _payload_layers(config: Config, site: str, layers: Layers) -> list[Layer]:
    """Return the defaults of the kind of payload, if it has any.

    A file that names the class by which BPS reaches Longshore has chosen: its service is the site's, or Longshore's
    default.
    """
    if not is_lsst(config, site=site, env=layers.env, folder=layers.path.parent):
        return []
    return [lsst_layer(with_service=not layers.names_bridge)]


def _service_layers(service: str) -> list[Layer]:
    plugin = find_service_plugin(service)
    path = plugin.folder / "defaults.yaml" if plugin and plugin.folder else None
    if path is None or not path.is_file():
        return []
    layer = file_layer(short_name(service), LayerRank.SERVICE, path)
    return [layer] if layer.root.value else []
