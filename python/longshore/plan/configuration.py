"""A configuration from its layers to a draft at a site to the resolved one; the files and functions that it names."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec
from msgspec.structs import replace

from longshore.config.explain import KeyExplanation, explain_key
from longshore.config.includes import SourceFile
from longshore.config.interpolate import FunctionCall, FunctionCaller, Scope
from longshore.config.layers import (
    OPTIONS,
    Layers,
    Overrides,
    file_layer,
    parse_variables,
    read_layers,
    read_layers_without_file,
    schema_keys,
)
from longshore.config.merge import PACKAGED_LAYERS, Layer, LayerRank, Node, make_layer, map_items, merge_over, nest
from longshore.config.plugins import all_plugins, lacks_package
from longshore.config.quantities import parse_bool
from longshore.config.schemas import configuration_schema, key_table
from longshore.config.search import Config
from longshore.config.secret_values import note_layers
from longshore.config.service_lookup import (
    BPS_PACKAGE,
    SERVICE_VARIABLE,
    default_service,
    find_service,
    find_service_plugin,
    names_foreign_code,
    short_name,
)
from longshore.config.yaml_text import read_as_bps
from longshore.contract.capabilities import BackendOptions
from longshore.contract.service import WmsService
from longshore.errors import CodeRefusedError, ConfigError, FilesError, LongshoreError, Origin, UsageError
from longshore.graphs.payload_files import is_lsst, locate_file, lsst_layer
from longshore.model.values import YamlValue
from longshore.model.wording import did_you_mean, name_all, quote_value
from longshore.sites.inherited_environment import is_of_scheduler
from longshore.sites.profile import ResolvedSiteProfile
from longshore.sites.profile_files import SiteFolderKind, SitePath
from longshore.sites.site import (
    ResolvedSite,
    choose_site,
    chosen_service,
    is_described,
    resolve_site,
    site_folders,
    site_layers,
    unknown_site,
)
from longshore.system.reading import can_see, can_see_file, can_see_folder

# Stages of a configuration: layers, draft with a chosen site and service, and resolved configuration.


CONVERT_FROM: Final = "convertFrom"
"""Key of the site and the service whose requests are converted to those of this machine; a fallback sets it."""
LOOK_HINT: Final = "'config lint --import' and 'draw --import' import it, as a submission does."
"""Way out of a command that only looks at a configuration, and needs its code."""
_CHOSEN_BY_USER: Final = frozenset(
    rank.label for rank in (LayerRank.SYSTEM, LayerRank.USER, LayerRank.ENVIRONMENT, LayerRank.COMMAND_LINE)
)
"""Layers with what the user or the administrator of the machine writes, and nobody else."""


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
    is_of_bps: bool = False
    """Whether the run was written for BPS: `config` has the values that BPS reads, and no texts of numbers."""

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
        return found.text

    def flag(self, key: str) -> bool:
        """Return a key's value as a boolean, false if undefined; raises `ConfigError` for other values."""
        value = self.search(key)
        return value is not None and value != "" and parse_bool(value, key, self.origin(key))

    def origin(self, key: str) -> Origin | None:
        """Return the origin of a key's value."""
        return self.config.search(key, self.scope()).origin

    def user_origin(self, key: str, label: str) -> Origin | None:
        """Return where the user wrote a key for a label, or `None`.

        ``requestResources.gpu`` stands for the map that holds it, and ``directives.0`` for the first line of a list.
        """
        name, *below = key.split(".")
        hit = self.config.lookup(name, self.scope(curr_pipetask=label, curr_cluster=label))
        node = hit.node if hit else None
        for part in below:
            items = map_items(node)
            if items:
                node = items.get(part)
            elif node is not None and isinstance(node.value, list) and part.isdecimal() and int(part) < len(node.value):
                node = node.value[int(part)]
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
        is_code = names_foreign_code(name) and not lacks_package(name)
        if not self.layers.overrides.imports_code and not is_chosen and is_code:
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
        if is_of_bps := service.startswith(BPS_PACKAGE) or self.is_bps_file(name):
            config = Config(read_as_bps(config.root), caller, values)
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
            is_of_bps=is_of_bps,
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
    if not site_errors and any(map(is_of_scheduler, env)):
        # Its errors are those of whatever needs it.
        with suppress(LongshoreError):
            draft = _add_environment(draft)
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
    site = found.text or configuration.site
    return configuration if site == configuration.site else configuration.at_site(site, found.origin)


@contextmanager
def _collect_errors(site_errors: list[ConfigError]) -> Iterator[None]:
    """Collect a `ConfigError` and continue after the block."""
    try:
        yield
    except ConfigError as error:
        site_errors.append(error)


def _add_environment(draft: Draft) -> Draft:
    """Return the draft with what variables of the user choose for the programs of the workload manager."""
    rank = LayerRank.ENVIRONMENT
    layers: list[Layer] = []
    for name, (key, value) in environment_choices(draft.load_service(), draft.env).items():
        path = key.split(".")
        known = draft.config.node_at(*path)
        # A variable of Longshore itself is the nearer one.
        if known is None or known.origin.layer != rank.label:
            layers.append(Layer(f"${name}", rank, nest(Node(value, Origin(f"${name}", layer=rank.label)), path)))
    return replace(draft, layers=draft.layers.with_layers(layers)).at_site(draft.site) if layers else draft


def environment_choices(service: WmsService, env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the key and the value of each variable that chooses something for the workload manager's own programs.

    In a job of the workload manager they are those of whoever submitted that job, and choose nothing.
    """
    if env.get(service.traits.enclosing_variable):
        return {}
    return {name: (key, env[name]) for name, key in service.traits.environment_keys.items() if env.get(name)}


def _add_backend_options(draft: Draft) -> Draft:
    """Return the draft with the values that the service reads from ``backendOptions``.

    Raises `UsageError` if the option of the command has no effect on the service; of the key, lint tells.
    """
    text = draft.text("backendOptions")
    if not text:
        return draft
    origin, service = draft.origin("backendOptions"), draft.load_service()
    if not isinstance(service, BackendOptions):
        # In place of a workload manager that takes them, this machine runs the jobs without them.
        if origin is not None and origin.file == OPTIONS and not draft.search(CONVERT_FROM):
            why = service.traits.unused_keys.get("backendOptions", "'--set' sets keys of jobs")
            raise UsageError(
                f"'--backend-options' has no effect: the service '{short_name(draft.service)}' takes no options",
                hint=f"Leave it out: {why}.",
            )
        return draft
    try:
        values = service.backend_options(text)
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
    if path is not None and path.is_file():
        layer = file_layer(short_name(service), LayerRank.SERVICE, path)
    else:
        layer = make_layer(key_table(plugin).defaults() if plugin else {}, short_name(service), LayerRank.SERVICE)
    return [layer] if layer.root.value else []


# Attributes of a run for reports, and the identity of its payload.


_PAYLOAD_FILES: Final = ("pipelineYaml", "wfformat", "qgraphFile", "graphFile")
_RUN_ATTRIBUTES: Final = {
    "operator": "bps_operator",
    "project": "bps_project",
    "campaign": "bps_campaign",
    "payloadName": "bps_payload",
}


def run_attributes(configuration: Configuration) -> dict[str, str]:
    """Return BPS's attributes of the run for reports."""
    attributes = {name: configuration.text(key) for key, name in _RUN_ATTRIBUTES.items()}
    return {
        "bps_isjob": "True",
        **attributes,
        "bps_run": configuration.text("uniqProcName"),
        "bps_runsite": configuration.site,
    }


def payload_identity(configuration: Configuration) -> str:
    """Return the identity of a payload, which keys its run-time history.

    Unrelated payloads may have tasks of the same label. A named payload is identified by its name, its project and
    the name of its pipeline file, wherever that is; an unnamed one by the path of that file. A pipeline inside the
    user's file is identified by that file.
    """
    name = next((text for key in _PAYLOAD_FILES if (text := configuration.text(key))), "")
    file, _, labels = name.partition("#")
    path = Path(file) if file else configuration.path
    origin = configuration.origin("payloadName")
    if origin is not None and origin.layer not in PACKAGED_LAYERS:
        words = [configuration.text("project"), configuration.text("payloadName"), path.name]
    else:
        # An unnamed payload would have the name of the user's file, which many share.
        words = [configuration.text("project"), str(_absolute_path(path, configuration))]
    return "/".join([*words, labels] if labels else words)


def _absolute_path(path: Path, configuration: Configuration) -> Path:
    """Return the absolute path of a file, looked up in the current directory, then beside the user's file."""
    return (path if can_see_file(path) else configuration.path.parent / path).resolve()


# User functions: imports and calls functions that a configuration names, unless a layer forbids that.


_KEY: Final = "allowFunctions"
_Result = TypeVar("_Result")
_IMPORT_HINT: Final = "It is named by its module and its own name, joined by a dot; PYTHONPATH must lead to the module."


def make_caller(configuration: Configuration) -> FunctionCaller:
    """Return a caller for user functions; it refuses calls that a layer forbids."""

    def caller(call: FunctionCall) -> object:
        refuse_functions(configuration, quote_value(call.text), call.origin)
        return call_builtin_or_imported(call)

    return caller


def refuse_functions(configuration: Configuration, what: str, origin: Origin | None) -> None:
    """Refuse to call a user function if a layer forbids functions.

    `what` is the function in quotes, `origin` where it was written. Raises `ConfigError` if a layer forbids it, or the
    command only looks at the configuration.
    """
    if not configuration.layers.overrides.imports_code:
        raise CodeRefusedError(
            what,
            "calls a function, and a command that only looks at a configuration calls none",
            origin=origin,
            hint=LOOK_HINT,
        )
    forbidden = next(filter(None, map(_find_prohibition, configuration.all_layers)), None)
    if forbidden is not None:
        raise ConfigError(
            f"{what} calls a function, which '{_KEY}' forbids",
            origin=origin,
            hint=f"It is forbidden at {forbidden.origin}.",
        )


def call_builtin_or_imported(call: FunctionCall) -> object:
    """Call a built-in or imported function and return its result; raises `ConfigError` if missing or failed."""
    # Imported here, because the program ends otherwise with it.
    from longshore.config.foreign_code import import_named

    module, _, name = call.name.rpartition(".")
    try:
        function = getattr(import_named(module or "builtins", quote_value(call.text), call.origin), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"the function '{call.name}' cannot be imported: {error}",
            origin=call.origin,
            hint=_IMPORT_HINT,
        ) from error
    try:
        # A command's output is its result, perhaps JSON; output of a function must not mix with it.
        with redirect_stdout(sys.stderr):
            return function(*call.arguments, **call.options)
    except Exception as error:  # user functions may raise any exception
        raise ConfigError(
            f"{quote_value(call.text)} fails: {type(error).__name__}: {str(error)[:200]}", origin=call.origin
        ) from error


def _find_prohibition(layer: Layer) -> Node | None:
    """Return the value that forbids functions in a layer; one layer suffices, so users cannot override a site."""
    root = map_items(layer.root)
    # A plain key of the command line is in a section of its own.
    for section in (root, map_items(root.get("bps_cmdline"))):
        node = section.get(_KEY)
        while node is not None and node.value is not False:
            node = node.replaced_node
        if node is not None:
            return node
    return None


def find_function(
    configuration: Configuration, key: str, *, group: str, what: str, built_in_names: Collection[str] = ()
) -> Callable[..., object]:
    """Import the function that a key names, from an entry point of `group` or by dotted path.

    `what` is the noun for such functions in errors; `built_in_names` are further names for the hint. Raises
    `ConfigError` if the function is unknown, cannot be imported, or functions are forbidden.
    """
    name, origin = configuration.text(key).strip(), configuration.origin(key)
    plugins = all_plugins(group)
    try:
        if name in plugins:
            plugin: Callable[..., object] = plugins[name].load()
            return plugin
        module, _, function = name.rpartition(".")
        if module:
            from longshore.config.foreign_code import import_named

            if not lacks_package(module):
                refuse_functions(configuration, f"'{key}: {name}'", origin)
            imported: Callable[..., object] = getattr(import_named(module, f"'{key}'", origin), function)
            return imported
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"the {what} '{name}' cannot be imported: {error}",
            origin=origin,
            hint=_IMPORT_HINT,
        ) from error
    known = [*built_in_names, *sorted(plugins)]
    raise ConfigError(
        f"there is no {what} '{name}'",
        origin=origin,
        hint=did_you_mean(name, known) or f"{name_all(known)} A dotted name leads to others.",
    )


def call_function(
    configuration: Configuration, key: str, function: Callable[..., object], *arguments: object, returns: type[_Result]
) -> _Result:
    """Call a user function and check the type of its result.

    Raises `ConfigError` if it fails or returns another type; a `LongshoreError` of the function passes through.
    """
    name, origin = configuration.text(key).strip(), configuration.origin(key)
    try:
        found = function(*arguments)
    except LongshoreError as error:
        error.origin = error.origin or origin
        raise
    except Exception as error:  # user functions may raise any exception
        raise ConfigError(f"'{name}' fails: {type(error).__name__}: {str(error)[:200]}", origin=origin) from error
    if not isinstance(found, returns):
        raise ConfigError(f"'{name}' returns a {type(found).__name__}, and no {returns.__name__}", origin=origin)
    return found


def find_payload_file(configuration: Configuration, key: str) -> Path:
    """Return the path of the file that a key names; see `find_file`."""
    return find_file(configuration, configuration.text(key), f"'{key}'", configuration.origin(key))


def find_file(
    configuration: Configuration, name: str, what: str, origin: Origin | None, *, folder: Path | None = None
) -> Path:
    """Return the path of a named file, looked up in the current directory, then beside the user's file.

    `name` has its variables replaced; `what` and `origin` name the file and its place in errors. `folder` replaces
    the folder of the user's file. Raises `FilesError` if the file is in neither folder.
    """
    folder = folder or configuration.path.parent
    if path := locate_file(name, folder):
        return path
    absolute_paths = dict.fromkeys(path.absolute() for path in (Path(name), folder / name))
    other = next((path for path in absolute_paths if can_see(path)), None)
    raise FilesError(
        f"{what} names the file '{name}', which " + ("is no regular file" if other else "does not exist"),
        origin=origin,
        hint=f"'{other}' is a directory or a device."
        if other
        else "Looked for " + " and ".join(f"'{path}'" for path in absolute_paths) + ".",
    )


def read_named_file(path: Path, origin: Origin | None) -> bytes:
    """Return the content of a file; raises `FilesError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=origin) from error


# Configuration at a site that options choose, with or without a file.


def draft_at_site(service: str | None, *, path: Path | None, site: str, site_path: Sequence[str], now: float) -> Draft:
    """Read a configuration at a site, or the site alone where there is no file; parameters are those of `ping`.

    Raises `ConfigError` if a file cannot be read or the site is wrong, `UsageError` if a folder is missing.
    """
    overrides = site_overrides(service, site, site_path)
    if path is not None:
        return read_draft(path, overrides, now=now)
    draft = make_draft(read_layers_without_file(overrides, now=now))
    if draft.site_errors:
        raise draft.site_errors[0]
    return draft


def site_overrides(service: str | None, site: str, site_path: Sequence[str]) -> Overrides:
    """Return the options that choose a service, a site and folders; raises `UsageError` if a folder is missing."""
    for folder in site_path:
        if not can_see_folder(Path(folder)):
            raise UsageError(f"'--site-path' names '{folder}', which is no directory")
    given = {"wmsServiceClass": service, "computeSite": site, "sitePath": os.pathsep.join(site_path)}
    return Overrides({key: value for key, value in given.items() if value}, imports_code=False)
