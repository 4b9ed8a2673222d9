"""Resolution of a run: its generated configuration, name, directory and service, with the service's probe."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from longshore.config.interpolate import GENERATE_HINT, GENERATE_KEY, FunctionCaller, Interpolator, parse_call
from longshore.config.layers import FILE_NAME, Layers, Overrides
from longshore.config.lint import find_choices
from longshore.config.merge import (
    PACKAGED_LAYERS,
    Layer,
    LayerRank,
    Marker,
    Node,
    make_layer,
    map_items,
    plain_map,
    to_node,
)
from longshore.config.notices import SECTION, read_notices
from longshore.config.plugins import SHIPPED_PROGRAMS, shipped_path, template_texts
from longshore.config.quantities import parse_concurrency_maximums, parse_count, parse_pool, parse_walltime
from longshore.config.retries import ValueReader, parse_signals
from longshore.config.schema import Finding, Severity
from longshore.config.search import Config
from longshore.config.service_lookup import default_service, default_site, short_name
from longshore.contract.capabilities import BackendOptions
from longshore.contract.executor import ExecutorOwner
from longshore.contract.service import Context, PingReport, RunPaths, Site, WmsService
from longshore.errors import ConfigError, FilesError, Origin, ServiceError, SubmissionRefusedError
from longshore.model.file_identity import FileIdentity, FolderLinks
from longshore.model.sites import SiteDecision
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value
from longshore.plan.configuration import (
    CONVERT_FROM,
    Configuration,
    Draft,
    ResolvedConfiguration,
    environment_choices,
    make_caller,
    make_draft,
    payload_identity,
    read_draft,
    read_original_site,
)
from longshore.plan.lint import StaticCheck, check_configuration, service_of_keys
from longshore.plan.probe import SITE_LIMIT_S, note_unanswered_probe, probe
from longshore.progress import Progress, inform, warn
from longshore.sites.inherited_environment import select_inherited
from longshore.sites.limits import executor_limits, job_ceilings, user_maximums
from longshore.sites.pilots import read_pilot
from longshore.sites.profile import executor_settings, site_description
from longshore.sites.requests import SINGLE
from longshore.sites.site import ResolvedSite, refuse_missing_scratch
from longshore.system.host import user_folder
from longshore.system.links import DiskLinks

# Generated configuration: calls the functions of ``bpsGenerateConfig`` and merges their results.


_MAX_NESTED_CALLS: Final = 100


def generate(draft: Draft, warnings: Iterable[Finding]) -> tuple[Draft, list[Finding]]:
    """Call each function that generates configuration once, then choose the site and lint again.

    Returns the configuration without the key, and the warnings that remain. Raises `ConfigError` if a function is
    forbidden, missing, fails, or returns no valid configuration.
    """
    caller = make_caller(draft)
    calling = replace(draft, config=Config(draft.config.root, caller))
    layers: list[Layer] = []
    while (found := next(_find_calls(calling.config.root, ()), None)) is not None:
        layers.append(_generated_layer(calling, caller, *found))
        calling = calling.with_top_layer(layers[-1])
    if not layers:
        return draft, list(warnings)
    # A function may choose another site, or forbid later functions.
    chosen = make_draft(draft.layers.with_layers(layers), caller)
    if chosen.site_errors:
        raise chosen.site_errors[0]
    refuse_late_functions(draft, chosen)
    # Lint calls no function; other functions are called once, when their value is needed.
    chosen = replace(chosen, config=Config(chosen.config.root))
    try:
        return chosen, check_configuration(chosen)
    except ConfigError as error:
        if error.origin and error.origin.layer.startswith(GENERATE_KEY):
            function = error.origin.layer.removeprefix(GENERATE_KEY).strip()
            error.message = f"what '{function}' returned is wrong: {error.message}"
        raise


def is_generated(configuration: Configuration) -> bool:
    """Tell whether a function generates parts of a configuration."""
    return next(_find_calls(configuration.config.root, ()), None) is not None


def keep_generated(draft: Draft, recorded: Iterable[tuple[str, YamlValue, Origin | None]]) -> Draft:
    """Return a draft with values that its functions returned before, given by dotted key, without calling them again.

    Functions that returned none of these values, because the call was written since, are called as ever.
    """
    values = [
        (key, value, origin) for key, value, origin in recorded if origin and origin.layer.startswith(GENERATE_KEY)
    ]
    known = {origin.layer.removeprefix(GENERATE_KEY).strip().removesuffix("()") for _, _, origin in values}
    calls = [
        (steps, written)
        for steps, _, written in _find_calls(draft.config.root, ())
        if str(written.value).partition("(")[0].strip() in known
    ]
    if not calls:
        return draft
    origin = calls[0][1].origin
    nodes = [_node_at((*steps, GENERATE_KEY), Node(Marker.DELETE, origin)) for steps, _ in calls]
    nodes += [_node_at(tuple(key.split(".")), to_node(value, origin)) for key, value, origin in values]
    layers = [Layer(GENERATE_KEY, LayerRank.COMMAND_LINE, node) for node in nodes]
    return make_draft(draft.layers.with_layers(layers))


def _node_at(steps: tuple[str, ...], node: Node) -> Node:
    for step in reversed(steps):
        node = Node({step: node}, node.origin)
    return node


def refuse_late_functions(before: Configuration, after: Configuration) -> None:
    """Refuse generating functions of a site profile that was chosen after functions were called.

    Raises `ConfigError` if the profile names such a function.
    """
    known = {written.origin for layer in before.all_layers for _, _, written in _find_calls(layer.root, ())}
    for layer in after.all_layers:
        for _, _, written in _find_calls(layer.root, ()):
            if written.origin not in known:
                raise ConfigError(
                    f"'{GENERATE_KEY}' of the site '{after.site}' comes too late: functions are called for "
                    "the site of the "
                    "run as a whole",
                    origin=written.origin,
                    hint=f"Choose the site by 'computeSite' at the root, or write '{GENERATE_KEY}' there.",
                )


def _find_calls(section: Node, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node, Node]]:
    """Iterate over sections with ``bpsGenerateConfig``: path, section and value."""
    for key, node in map_items(section).items():
        if key != GENERATE_KEY:
            yield from _find_calls(node, (*steps, key))
        elif not any(node.value is nothing or node.value == "" for nothing in (None, Marker.DELETE)):
            yield steps, section, node


def _generated_layer(
    configuration: Configuration, caller: FunctionCaller, steps: tuple[str, ...], section: Node, written: Node
) -> Layer:
    """Return the layer that a function generates, placed at its section, without the key itself."""
    if not isinstance(written.value, str):
        raise ConfigError(
            f"'{GENERATE_KEY}' must be the call of a function, not {quote_value(written.value)}",
            origin=written.origin,
            hint=GENERATE_HINT,
        )
    scope = replace(configuration.scope(), searchobj=section)
    text = (
        Interpolator(configuration.config, scope).template(written.value, written.origin, name=GENERATE_KEY).render({})
    )
    call = parse_call(text, written.origin, hint=GENERATE_HINT)
    returned = caller(call)
    if not isinstance(returned, Mapping):
        raise ConfigError(
            f"'{call.name}' returns {quote_value(returned)}, which is no map",
            origin=written.origin,
            hint="It has to return a dict: values per key of the configuration.",
        )
    origin = msgspec.structs.replace(written.origin, layer=f"{GENERATE_KEY} {call.name}()")
    values = to_node(_to_yaml_value(returned, call.name, written.origin, ()), origin).value
    assert isinstance(values, dict)
    root = _node_at(steps, Node({**values, GENERATE_KEY: Node(Marker.DELETE, origin)}, origin))
    return Layer(origin.layer, LayerRank.COMMAND_LINE, root)


def _to_yaml_value(value: object, function: str, origin: Origin, steps: tuple[str, ...]) -> YamlValue:
    """Convert a returned value to plain maps, lists and scalars; raises `ConfigError` for other types."""
    if len(steps) > _MAX_NESTED_CALLS:
        raise ConfigError(f"'{function}' returns maps and lists more than {_MAX_NESTED_CALLS} deep", origin=origin)
    if isinstance(value, Mapping):
        return {
            _check_key(key, function, origin): _to_yaml_value(each, function, origin, (*steps, str(key)))
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_to_yaml_value(each, function, origin, (*steps, str(number))) for number, each in enumerate(value)]
    if isinstance(value, str):
        return _check_text(str(value), function, origin)
    if value is None or (isinstance(value, bool | int | float) and type(value) in {bool, int, float}):
        return value
    raise ConfigError(
        f"'{function}' returns {'.'.join(steps)} as '{type(value).__name__}', which is no YAML data",
        origin=origin,
        hint="Return maps, lists, texts, numbers, true, false and null only; 'str(...)' makes a text of anything.",
    )


def _check_key(key: object, function: str, origin: Origin) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigError(f"'{function}' returns {quote_value(key)} as a key, and keys are texts", origin=origin)
    if key == GENERATE_KEY:
        raise ConfigError(
            f"'{function}' returns '{GENERATE_KEY}', and only what is written can ask for that",
            origin=origin,
            hint="Let it call the other function itself.",
        )
    return _check_text(key, function, origin)


def _check_text(text: str, function: str, origin: Origin) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"'{function}' returns {text!a}, which is not UTF-8 text", origin=origin) from None
    return text


_Stage = TypeVar("_Stage", bound=Configuration)
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class ResolvedRun(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Last stage of a configuration: a run whose service was probed.

    `id` is the reserved id, empty if the run will not be written; `paths` is the future run directory; `context` is
    the contract's `Context` with the probe. `static` limits a static check, in which nothing was probed.
    """

    id: str = ""
    configuration: ResolvedConfiguration
    service: WmsService
    paths: RunPaths
    context: Context
    static: StaticCheck | None = None
    decision: SiteDecision | None = None
    """Choice of its site, if there were candidates."""

    @cached_property
    def _links(self) -> FolderLinks | None:
        """Links of this host's folders; ``None`` where jobs do not see its file system."""
        file_system = self.configuration.resolved_site.settings.get("fileSystem")
        is_apart = file_system == "transfer" or (file_system == "scratch" and self.service.traits.transfers_files)
        return None if is_apart else DiskLinks()

    def file_identity(self, directory: str | None = None) -> FileIdentity:
        """Return which paths name one file; relative ones start in a directory, by default the run directory."""
        return FileIdentity(str(self.paths.root) if directory is None else directory, self._links)

    @cached_property
    def _by_site(self) -> dict[str, ResolvedConfiguration]:
        """Configuration for jobs at each site that was asked for."""
        return {}

    def at_site(self, name: str, origin: Origin | None = None) -> ResolvedConfiguration:
        """Return the configuration for jobs at a site, cached; raises `ConfigError` if the site is unknown or wrong."""
        if name == self.configuration.site:
            return self.configuration
        if name not in self._by_site:
            self._by_site[name] = self.configuration.at_site(name, origin)
        return self._by_site[name]


class ExistingRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose configuration is read anew: its name, directory, service and generated values stay.

    `generated` has the recorded values with key and origin.
    """

    name: str
    root: Path
    service: str
    generated: Sequence[tuple[str, YamlValue, Origin | None]] = ()

    def keep_values(self, configuration: ResolvedConfiguration) -> ResolvedConfiguration:
        """Return the configuration with the run's name and directory.

        Raises `SubmissionRefusedError` if it names another service: a run keeps its own.
        """
        if short_name(configuration.service) != short_name(self.service):
            raise SubmissionRefusedError(
                f"the run belongs to the service '{self.service}', and '{configuration.service}' is chosen now",
                origin=configuration.service_origin,
                hint="Submit a new run to another service.",
            )
        values: dict[str, YamlValue] = {"bps_defined": {"uniqProcName": self.name}}
        if Path(configuration.text("submitPath")).absolute() != self.root:
            # Else it stays as written, in what the run records of its configuration.
            values["submitPath"] = str(self.root)
        return configuration.with_top_layer(make_layer(values, "run directory", LayerRank.COMMAND_LINE))


def resolve_run(
    path: Path | Layers,
    overrides: Overrides | None = None,
    *,
    now: float,
    progress: Progress,
    run_id: str = "",
    existing: ExistingRun | None = None,
    with_probe: bool = True,
) -> ResolvedRun:
    """Resolve a run from its configuration file, or its layers; `path`, `overrides` and `now` are those of `Layers`.

    `run_id` is the reserved id if the run will be written. Without a probe, the service is not asked. Raises
    `LongshoreError` if the configuration is wrong or the service cannot be used.
    """
    draft = read_draft(path, overrides, now=now)
    if existing is not None:
        draft = keep_generated(draft, existing.generated)
    draft, warnings = generate(draft, check_configuration(draft))
    note_warnings(warnings, progress)
    return resolve_draft(draft, progress=progress, run_id=run_id, existing=existing, with_probe=with_probe)


def resolve_draft(
    draft: Draft,
    *,
    progress: Progress,
    run_id: str = "",
    static: StaticCheck | None = None,
    existing: ExistingRun | None = None,
    with_probe: bool = True,
) -> ResolvedRun:
    """Resolve a run from its draft; the service is not asked without a probe, or where `static` does not allow it.

    Raises `LongshoreError` if a value is wrong or the service cannot be used.
    """
    configuration = resolve_configuration(draft, is_static=static is not None)
    if existing is not None:
        configuration = existing.keep_values(configuration)
    service = configuration.load_service()
    configuration = at_default_site(configuration, service)
    for note in (
        *configuration.resolved_site.notes,
        *_unused_site_notes(configuration),
        *_backend_option_notes(configuration, service),
    ):
        progress.note(note)
    for fact in (*_environment_notes(configuration, service), *_inheritance_notes(configuration, service)):
        # The environment is not the user's configuration, and a variable left out does no harm by itself.
        inform(progress, fact)
    paths = RunPaths(Path(configuration.text("submitPath")).absolute())
    # As BPS has it: a job that runs elsewhere must not take the path, or a variable in it, for one of its own place.
    configuration = configuration.with_values({"submitPath": str(paths.root)})
    context = service_context(configuration, service, paths, is_static=static is not None)
    if static is not None:
        # This machine can be asked without anybody else.
        if static.is_service_known and (static.with_probe or service.traits.runs_on_submit_host):
            context = msgspec.structs.replace(context, probe=probe(service, context, limit_s=SITE_LIMIT_S))
    elif with_probe:
        context = msgspec.structs.replace(context, probe=probe(service, context))
        if existing is None and configuration.has_service_of_bps:
            _refuse_unusable_default(configuration, context.probe)
        if context.probe is None:
            note_unanswered_probe(configuration.service, "FILE", progress)
    return ResolvedRun(
        id=run_id, configuration=configuration, service=service, paths=paths, context=context, static=static
    )


def _refuse_unusable_default(configuration: Configuration, report: PingReport | None) -> None:
    """Raise `ServiceError` if nobody named the service, and the one that BPS uses by default cannot be used here."""
    if report is None or report.ok:
        return
    raise ServiceError(
        f"'{configuration.path}' names no 'wmsServiceClass', which means '{configuration.service}', as with BPS, and "
        f"that cannot be used here: {report.message}",
        hint=f"Name a service: --wms-service-class {default_service()} is this machine, for one run; 'wmsServiceClass: "
        f"{default_service()}' in '{user_folder(configuration.env) / FILE_NAME}' is the default of all runs that name "
        "none. 'longshore site list' shows sites for --compute-site, which name theirs. 'longshore ping "
        f"--wms-service-class {configuration.service}' shows what is missing.",
    )


def resolve_configuration(draft: Draft, *, is_static: bool = False) -> ResolvedConfiguration:
    """Call user functions and fix the run's name; raises `ConfigError` if name or directory are wrong.

    A static check accepts a directory with variables that the environment lacks: another machine may set them.
    """
    resolved = ResolvedConfiguration(
        layers=draft.layers,
        base=draft.base,
        sites=draft.sites,
        config=Config(draft.config.root, make_caller(draft)),
        site=draft.site,
        service=draft.service,
        service_origin=draft.service_origin,
        profile=draft.profile,
        site_layers=draft.site_layers,
        top_layers=draft.top_layers,
    )
    name = {"bps_defined": {"uniqProcName": _checked_run_name(resolved, is_static=is_static).replace("/", "_")}}
    return resolved.with_top_layer(make_layer(name, "bps_defined", LayerRank.COMMAND_LINE))


def note_warnings(warnings: Iterable[Finding], progress: Progress) -> None:
    """Print warnings and notes of lint, each with its origin and remedy."""
    for warning in warnings:
        text = f"{warning.origin}: {warning.message}" + (f". {warning.hint}" if warning.hint else "")
        if warning.severity is Severity.NOTE:
            # The file may be meant for other sites, too.
            inform(progress, text)
        else:
            warn(progress, text)


def _checked_run_name(configuration: Configuration, *, is_static: bool) -> str:
    """Return ``outputRun``, after a check that it and ``submitPath`` are valid file names."""
    for key in ("outputRun", "submitPath"):
        if not configuration.text(key):
            raise ConfigError(
                f"'{key}' must have a value", origin=configuration.origin(key), hint="It has a default: leave it out."
            )
        if control_character := re.search(r"[\x00-\x1f\x7f]", configuration.text(key)):
            raise ConfigError(
                f"'{key}' contains the control character {control_character[0]!a}",
                origin=configuration.origin(key),
                hint="Programs that read the path line by line would not find it.",
            )
    variable = _unset_variable(configuration, "submitPath")
    if variable and not is_static:
        raise ConfigError(
            f"'submitPath' uses '{variable}', which is not in the environment",
            origin=configuration.origin("submitPath"),
            hint="Set the variable, or write the path out.",
        )
    return configuration.text("outputRun")


def _unset_variable(configuration: Configuration, key: str) -> str:
    """Return a reference to the environment that stays in the text of a key; the value of a variable has none."""
    scope = configuration.scope()
    hit = configuration.config.lookup(key, scope)
    if hit is None or not isinstance(hit.value, str) or hit.is_data:
        return ""
    parts = Interpolator(configuration.config, scope).parts(hit.value, hit.origin)
    written = (part for part in parts if type(part) is str)
    found = (re.search(r"\$\{?[A-Za-z_]\w*\}?", part) for part in written)
    return next((each[0] for each in found if each), "")


def at_default_site(configuration: _Stage, service: WmsService) -> _Stage:
    """Choose the default site of the service if no site is chosen.

    A configuration that was written for BPS needs no site. Raises `ConfigError` if jobs of another one run on other
    machines and no site is given.
    """
    if configuration.site:
        return configuration
    if service.traits.runs_on_submit_host and (site := default_site(type(service))):
        return configuration.at_site(site)
    if configuration.is_bps_file():
        return configuration
    raise ConfigError(
        f"'computeSite' must name the site of '{configuration.service}' at which jobs run",
        origin=configuration.service_origin,
        hint="'longshore site list' shows the sites there are; --compute-site NAME chooses one.",
    )


def _unused_site_notes(configuration: Configuration) -> list[str]:
    """Note that jobs run at no site of the user's section ``site``."""
    root = configuration.config.root
    used = {configuration.site, *(name for name, _ in find_choices(root, "computeSite"))}
    written = {
        name: node.origin
        for name, node in map_items(map_items(root).get("site")).items()
        if node.origin.layer not in PACKAGED_LAYERS | {LayerRank.SITE.label}
    }
    if not written or not used.isdisjoint(written) or any("{" in name for name in used):
        return []
    names = ", ".join(f"'{name}'" for name in written)
    place = next(iter(written.values()))
    return [f"{place}: no key of 'site' has an effect: it has {names}, and the run's site is '{configuration.site}'"]


def _inheritance_notes(configuration: Configuration, service: WmsService) -> list[str]:
    rule = configuration.resolved_site.settings.get("inheritEnvironment", "all")
    _, names = select_inherited(configuration.env.keys() - service.traits.required_variables, rule)
    if not names:
        return []
    what = f"jobs do not inherit {', '.join(names)}"
    return [f"{what}: the names look like secrets or are a scheduler's; 'inheritEnvironment' can name them"]


def _environment_notes(configuration: Configuration, service: WmsService) -> Iterator[str]:
    """Yield what variables for the workload manager's own programs choose, and which have no effect."""
    traits, env = service.traits, configuration.env
    chosen = environment_choices(service, env)
    for name, (key, value) in chosen.items():
        root, *below = key.split(".")
        node = configuration.config.node_at(root, *below)
        if node is not None and node.origin.file == f"${name}":
            yield f"'{key}' is '{value}', by the variable {name}"
    others = [name for name in env if traits.option_variables and name.startswith(traits.option_variables)]
    if left := sorted(set(others) - chosen.keys()):
        is_inside = bool(env.get(traits.enclosing_variable))
        where = (
            "this is a job, whose submitter set them" if is_inside else "keys of the configuration say what they ask"
        )
        yield f"{', '.join(left)} {'have' if left[1:] else 'has'} no effect: {where}"


def _backend_option_notes(configuration: Configuration, service: WmsService) -> list[str]:
    """Note the key where the service takes no options, and lint does not judge it."""
    if isinstance(service, BackendOptions) or not configuration.text("backendOptions"):
        return []
    known = service_of_keys(configuration)
    if known is not None and known.is_known and not configuration.search(CONVERT_FROM):
        return []
    return [f"the service '{configuration.service}' has no options of its own: 'backendOptions' has no effect"]


def service_context(
    configuration: Configuration, service: WmsService, run: RunPaths, *, is_static: bool = False
) -> Context:
    """Return the contract's `Context` for a service, without its probe.

    Raises `FilesError` if the site's scratch is no directory, except in a static check.
    """
    site = configuration.resolved_site
    if not is_static and service.traits.runs_on_submit_host:
        refuse_missing_scratch(configuration.config, site)
    section = configuration.config.node_at("site", configuration.site)
    job_defaults = {"account": configuration.text("accountingGroup"), "queue": configuration.text("queue")}
    settings = {
        **site.settings,
        **_own_map(configuration, service),
        **{key: value for key, value in job_defaults.items() if value},
    }
    return Context(
        settings=service_settings(configuration, service, settings),
        # The section of the site has job values, too.
        site=Site(
            name=configuration.site,
            settings={**plain_map(section), **settings},
            origin=site.origin,
            origins=site.origins,
        ),
        paths=run,
        templates=template_texts(type(service))
        | {name: shipped_path("bin", name).read_text("utf-8") for name in SHIPPED_PROGRAMS}
        | _read_templates(site),
    )


def _own_map(configuration: Configuration, service: WmsService) -> dict[str, Any]:
    """Return the service's own map, by its key, where the schema of sites lacks a plug-in's key."""
    key = service.traits.settings_key
    if key in configuration.resolved_site.settings:
        return {}
    found = plain_map(site_description(configuration.config, configuration.site, [key])).get(key)
    return {key: found} if isinstance(found, dict) else {}


def service_settings(
    configuration: Configuration, service: WmsService, site_settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the service's own settings: those of the engine and of its executor."""
    written = configuration.config.search("resources", configuration.scope()).node
    site = configuration.resolved_site
    limits, ceilings = executor_limits(site.limits), job_ceilings(site.limits)
    return {
        "retries_on_lost": read_value(configuration, "retryOnLost", parse_count, 1),
        "grace_s": read_value(configuration, "killGrace", parse_walltime, 10.0),
        "max_fast_failures": read_value(configuration, "maxFastFailures", parse_count, 100),
        "fast_failure_s": read_value(configuration, "fastFailureTime", parse_walltime, 10.0),
        "umask": site.umask,
        "concurrency_limits": _read_concurrency_limits(configuration, "concurrencyLimits")
        | (user_maximums(site.limits, configuration.site) if isinstance(service, ExecutorOwner) else {})
        | ({SINGLE: 1} if read_original_site(configuration) else {}),
        "max_jobs": _read_concurrency_limits(configuration, "maxJobs"),
        "share_machine": service.traits.runs_on_submit_host and configuration.flag("shareMachine"),
        "history": payload_identity(configuration),
        **({"notify": notify} if (notify := to_builtins(read_notices(configuration.config.node_at(SECTION)))) else {}),
        **({"run": _run_values(configuration, service)} if service.traits.run_keys else {}),
        "executor": ({"pool": parse_pool(written)} if written else {})
        | executor_settings(service.traits.settings_key, site_settings)
        | ({"limits": limits} if limits else {})
        | ({"ceilings": ceilings} if ceilings else {})
        | _kill_settings(configuration)
        | (_pilot_settings(configuration) if service.traits.has_pilots else {}),
    }


def _pilot_settings(configuration: Configuration) -> dict[str, object]:
    """Return the settings of pilots, and what all their allocations have, if jobs may run in pilots."""
    if not {name for name, _ in find_choices(configuration.config.root, "packing")} - {"job"}:
        return {}
    found = configuration.config.search("pilot", configuration.scope())
    named = {key: configuration.text(key) for key in ("queue", "accountingGroup", "accountingUser")}
    return {
        "pilot": read_pilot(found.node),
        "pilot_attributes": {key: value for key, value in named.items() if value},
    }


def _read_concurrency_limits(configuration: Configuration, key: str) -> dict[str, int]:
    written = configuration.config.search(key, configuration.scope()).node
    return {} if written is None else parse_concurrency_maximums(written, key)


def _run_values(configuration: Configuration, service: WmsService) -> dict[str, YamlValue]:
    """Return the run's values of the service's own keys; a map's keys are variables within the map."""
    config, scope = configuration.config, configuration.scope()
    found: dict[str, YamlValue] = {}
    for key in service.traits.run_keys:
        hit = config.search(key, scope)
        if not hit.is_found or hit.value is None or hit.value == "":
            continue
        node = hit.node
        if node is None or not isinstance(node.value, dict):
            found[key] = hit.value
            continue
        found[key] = {name: config.search(name, replace(scope, searchobj=node)).value for name in node.value}
    return found


def read_value(
    configuration: Configuration, key: str, read: ValueReader[_Value], default: _Default
) -> _Value | _Default:
    """Return a value of the run, or a default if undefined."""
    value = configuration.search(key)
    return default if value is None or value == "" else read(value, key, configuration.origin(key))


def _kill_settings(configuration: Configuration) -> dict[str, object]:
    """Return how an executor ends jobs that exceed their limits, if not the default."""
    found: dict[str, object] = {}
    if (chosen := read_value(configuration, "killSignals", parse_signals, ())) not in {(), (signal.SIGTERM,)}:
        found["signals"] = list(chosen)
    if (grace := read_value(configuration, "killGrace", parse_walltime, 10.0)) != 10.0:
        found["grace_s"] = grace
    return found


def template_files(site: ResolvedSite) -> dict[str, Path]:
    """Return the template files that a site overrides."""
    folder = Path(site.origin.file).parent if site.origin else Path()
    templates: dict[str, str] = site.settings.get("templates") or {}
    return {name: folder / Path(path).expanduser() for name, path in templates.items()}


def _read_templates(site: ResolvedSite) -> dict[str, str]:
    """Return the texts of the templates that a site overrides."""
    texts: dict[str, str] = {}
    for name, path in template_files(site).items():
        try:
            texts[name] = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FilesError(
                f"the template '{name}' of the site '{site.name}' cannot be read: {error}", origin=site.origin
            ) from error
    return texts
