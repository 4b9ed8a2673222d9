"""Compiles the job profile of a label at a site: request, environment, and the service's settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from longshore.config.command_lines import CommandTemplate, read_command_template
from longshore.config.core_keys import TABLE
from longshore.config.interpolate import DEFAULT_SCOPE, Interpolator, RawValue, Scope, evaluate_amount
from longshore.config.merge import PACKAGED_LAYERS, Node, map_items, plain_value
from longshore.config.quantities import (
    parse_bool,
    parse_count,
    parse_exit_codes,
    parse_memory,
    parse_request_field,
    parse_resource_request,
)
from longshore.config.retries import ValueReader, parse_multiplier, parse_packing, read_rules
from longshore.config.schema import find_key_schema, setting_value
from longshore.config.search import LABEL_SECTIONS, SECTIONS, Config
from longshore.config.templates import Template, column_names
from longshore.config.value_types import TEXT
from longshore.errors import ConfigError, Origin
from longshore.model.values import JsonSchema, YamlValue
from longshore.model.wording import did_you_mean, quote_value
from longshore.model.workflow import JobSettings, Request, parse_concurrency_limits

# Collects the settings for one workload manager: its own map, raw directive lines, and the container command.


SettingValue: TypeAlias = "bool | int | float | str | Template | list[SettingValue] | dict[str, SettingValue] | None"
"""A value of a service's own map; a text that differs per job is a template."""
SettingValues: TypeAlias = dict[str, SettingValue]

DIRECTIVES_KEY: Final = "directives"
"""Key of raw directive lines, in a configuration and in the result."""
CONTAINER: Final = "container"
_LITERALS: Final = "attrs."
"""Prefix of attributes of jobs, which are numbers or texts as their values are."""


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
    schema
        Returns the schema of configurations, which tells texts from numbers; without it, numbers stay numbers.
    """

    map: str
    lines: tuple[str, ...] = (DIRECTIVES_KEY,)
    keys: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    schema: Callable[[], JsonSchema] | None = None


Interpolate: TypeAlias = Callable[[str, str, Origin], Template]
"""Interpolates the text of a key, but for variables that differ per job."""


class _Reader(NamedTuple):
    """Reads settings: interpolates texts, and tells by the schema where a number is a text."""

    interpolate: Interpolate
    schema: Callable[[], JsonSchema] | None

    def scalar(self, key: str, node: Node) -> SettingValue:
        """A number or a truth value; its text if it was written in another way, and the schema has texts there."""
        value = plain_value(node)
        if node.written and self.schema is not None and not key.startswith(_LITERALS):
            whole = self.schema()
            value = setting_value(node, find_key_schema(key.split("."), whole), whole)
        return cast("SettingValue", value)


class ServiceSettings(msgspec.Struct, frozen=True):
    """Settings for a service, and where each was written.

    Attributes
    ----------
        The service's own map, with raw lines under `DIRECTIVES_KEY`, the command prefix under
        `CONTAINER`, and single values and further maps under their keys.
        single values and further maps under their keys.
    origins
        Origin of each of them, by the same keys; that of an item by its path: ``directives.0``, ``engineJob.cpu``.
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
    read = _Reader(interpolate, keys.schema)
    values: SettingValues = {}
    maps: dict[str, SettingValues] = {name: {} for name in keys.maps}
    origins: dict[str, Origin] = {}
    sections = list(_sections(config, scope))
    for _, section in sections:
        for key, below in _map_under(section, keys.map):
            values[key] = _interpolate(f"{keys.map}.{key}", below, read)
            origins |= _item_origins(key, below)
        for name in keys.maps:
            for key, below in _map_under(section, name):
                maps[name][key] = _interpolate(f"{name}.{key}", below, read)
                values[name] = maps[name]
                origins |= {name: below.origin, f"{name}.{key}": below.origin}
        for key in keys.keys:
            if key in section:
                values[key] = _interpolate(key, section[key], read)
                origins[key] = section[key].origin
    lines = _gather_directives(sections, keys, read, origins)
    if lines is not None:
        values[DIRECTIVES_KEY] = lines
    if container := _read_container(sections, read, origins):
        values[CONTAINER] = container
    return ServiceSettings(values, origins)


def _item_origins(key: str, node: Node) -> dict[str, Origin]:
    """Return the origins of a value and of its items, by their paths."""
    items = enumerate(node.value) if isinstance(node.value, list) else map_items(node).items()
    return {key: node.origin, **{f"{key}.{name}": item.origin for name, item in items}}


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
    read: _Reader,
    origins: dict[str, Origin],
) -> list[SettingValue] | None:
    """Raw lines of all sections; ``None`` where no section has the key."""
    found: list[tuple[SettingValue, Origin]] | None = None
    site_lines: dict[str, list[tuple[SettingValue, Origin]]] = {}
    for name, section in sections:
        for key in keys.lines:
            node = section.get(key)
            if node is None:
                continue
            origins[DIRECTIVES_KEY] = node.origin
            new_lines = _interpolate_lines(key, node, read)
            if name in _SITE_SECTIONS:
                # Settings of a site come from the strongest section, like its other values.
                site_lines[key] = new_lines
                found = [line for lines in site_lines.values() for line in lines]
            else:
                found = [] if node.value is None else [*(found or ()), *new_lines]
    if found is None:
        return None
    origins |= {f"{DIRECTIVES_KEY}.{number}": origin for number, (_, origin) in enumerate(found)}
    return [line for line, _ in found]


def _interpolate_lines(key: str, node: Node, read: _Reader) -> list[tuple[SettingValue, Origin]]:
    """Interpolate lines, each with its origin."""
    if node.value is None:
        return []
    nodes = node.value if isinstance(node.value, list) else [node]
    for each in nodes:
        if not each.has_text:
            raise ConfigError(
                f"'{key}' must be lines of text, not {quote_value(plain_value(each))}",
                origin=each.origin,
                hint=f'For example \'{key}: ["-t 00:05", "-C haswell"]\'.',
            )
    return [(_interpolate(key, Node(each.text, each.origin), read), each.origin) for each in nodes]


def _read_container(
    sections: Sequence[tuple[str, Mapping[str, Node]]], read: _Reader, origins: dict[str, Origin]
) -> SettingValue:
    """The command in front of others, from the strongest section that has one."""
    for _, section in reversed(sections):
        node = section.get(CONTAINER)
        if node is not None:
            origins[CONTAINER] = node.origin
            return _interpolate(CONTAINER, node, read)
    return None


def _interpolate(key: str, node: Node, read: _Reader) -> SettingValue:
    if isinstance(node.value, list):
        return [_interpolate(key, each, read) for each in node.value]
    if isinstance(node.value, dict):
        return {name: _interpolate(f"{key}.{name}", below, read) for name, below in node.value.items()}
    if not isinstance(node.value, str):
        return read.scalar(key, node)
    template = read.interpolate(key, node.value, node.origin)
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


# The profile: settings of a label, with templates for what differs per job.


class JobProfile(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Settings of the jobs of one label at one site, with templates for values that differ per job.

    Attributes
    ----------
    settings
        What they share. Of `JobSettings.attributes`, ``requestMemoryMax`` is in bytes and ``memoryMultiplier`` is there
        only when memory is to grow.
    command
        ``runQuantumCommand``: a shell line, or a program and its arguments; ``None`` where the configuration has none.
    environment
        Variables whose values differ per job.
    request
        Keys of the request whose values differ per job; a resource NAME as ``requestResources.NAME``.
    service_settings
        The map of `JobSettings.service_settings` where a value in it varies per job; else empty.
    origins
        Where the value of each key was written, for keys with a value; a variable NAME as ``environment.NAME``, a key
        NAME of the service's own map as ``own.NAME``.
    cluster_keys
        Keys of the request that the section of the cluster sets, and so for all its tasks together.
    """

    settings: JobSettings
    command: CommandTemplate | None = None
    environment: Mapping[str, Template] = msgspec.field(default_factory=dict)
    request: Mapping[str, Template] = msgspec.field(default_factory=dict)
    service_settings: Mapping[str, SettingValue] = msgspec.field(default_factory=dict)
    origins: Mapping[str, Origin] = msgspec.field(default_factory=dict)
    cluster_keys: frozenset[str] = frozenset()

    def service_settings_of(self, values: Mapping[str, object]) -> Mapping[str, YamlValue]:
        """The service's own map of a job, from the values of its free variables."""
        return (
            render_settings(self.service_settings, values) if self.service_settings else self.settings.service_settings
        )

    def request_of(self, values: Mapping[str, object]) -> Request:
        """The request of a job, from the values of its free variables.

        Raises
        ------
        ConfigError
            With these values, an amount is invalid.
        """
        if not self.request:
            return self.settings.request
        key = self.request_key(values)
        found = self._requests.get(key)
        if found is None:
            found = msgspec.structs.replace(self.settings.request, **self.amounts_of(values))
            self._requests[key] = found
        return found

    def request_key(self, values: Mapping[str, object]) -> tuple[object, ...]:
        """Values that the request of a job uses: jobs with equal ones have equal requests."""
        return tuple([values.get(name) for name in self.request_names])

    @cached_property
    def request_names(self) -> tuple[str, ...]:
        """Names of the free variables that the request uses."""
        return tuple(sorted({name for template in self.request.values() for name in template.names}))

    @cached_property
    def _requests(self) -> dict[tuple[object, ...], Request]:
        """Requests so far, by the values that they use: many jobs share theirs."""
        return {}

    def amounts_of(self, values: Mapping[str, object]) -> dict[str, object]:
        """Fields of the request that differ per job, from the values of a job's free variables.

        Raises
        ------
        ConfigError
            With these values, an amount is invalid.
        """
        amounts: dict[str, object] = {}
        resources: dict[str, int] = {}
        for key, template in self.request.items():
            name, _, resource = key.partition(".")
            try:
                text = evaluate_amount(template.render(values), template.origin)
                if resource:
                    resources[resource] = parse_count(text, key, template.origin)
                else:
                    amounts |= parse_request_field(name, text, template.origin)
            except ConfigError as error:
                raise _add_job(error, template, values) from None
        if resources:
            amounts["resources"] = {**self.settings.request.resources, **resources}
        return amounts


def _add_job(error: ConfigError, template: Template, values: Mapping[str, object]) -> ConfigError:
    """The error of an amount, with the job and the values that it uses: one row of a long table is wrong."""
    used = ", ".join(f"'{name}' is {quote_value(str(values[name]))}" for name in sorted(template.names & values.keys()))
    job = f"in the job '{values['jobName']}', " if "jobName" in values else ""
    return ConfigError(f"{error.message}; {job}{used}", origin=error.origin, hint=error.hint)


# Explains columns in a request that the jobs of a label have no value for.


def refuse_unknown_columns(text: str, place: str, free: Collection[str], origin: Origin | None) -> None:
    """Refuse a request whose text still names a column after the interpolation: no job can have such an amount.

    `place` is the key with the section of the label, such as ``pipetask.sort.requestMemory``; `free` are the names
    with a value per job. Raises `ConfigError`, with the missing dimension or column.
    """
    for name in column_names(text):
        label, _, key = place.removeprefix("pipetask.").partition(".")
        base, _, column = name.partition(".")
        lacks = f"'{base}' has no column '{column}'" if base in free else f"the job has no dimension '{base}'"
        raise ConfigError(
            f"'{key}' of '{label}' uses '{{{name}}}', but {lacks}",
            origin=origin,
            hint=did_you_mean(name, [each for each in free if "." in each]) or f"Set '{place}'.",
        )


# Compiles the job profile of a label at a site.


REQUEST_KEYS: Final = ("requestCpus", "requestMemory", "requestDisk", "requestWalltime", "requestResources")
ATTRIBUTE_KEYS: Final = tuple(row.name for row in TABLE.rows if row.passed)
# Not `profile` and `attrs`: they are maps of one workload manager's keys, which its service reads. Not `computeSite`
# and `computeCloud` either: those are `JobSettings.site` and `cloud`.
_TEXT_ATTRIBUTES: Final = frozenset(row.name for row in TABLE.rows if row.passed and row.type is TEXT)
"""Those that are texts; the others are numbers or truth values."""
_LINE_KEYS: Final = ("preCmdline", "postCmdline")
"""Those that each attempt runs, as it runs its command."""
AttributeValue: TypeAlias = str | int | float | bool
DEFAULT_MEMORY_RETRIES: Final = 5
"""Default number of retries where memory may grow (BPS: ``DEFAULT_MEM_RETRIES``)."""

_MAX_EXIT_CODE: Final = 255
_NO_ORIGIN: Final = Origin("")
_Result = TypeVar("_Result")
_Default = TypeVar("_Default")


def compile_profile(
    config: Config,
    label: str,
    scope: Scope = DEFAULT_SCOPE,
    *,
    cluster: str | None = None,
    with_command: bool = True,
    command: Node | None = None,
    service_keys: ServiceKeys | None = None,
) -> JobProfile:
    """Search all values for the jobs of a label, once.

    Parameters
    ----------
    config
        The merged configuration.
    label
        Label of the jobs' tasks; chooses the section of ``pipetask``.
    scope
        Parameters of the searches. Without ``curr_site`` and ``curr_cloud``, ``computeSite`` and ``computeCloud``
        choose these sections. Free variables are known per job only: they win over variables of the configuration and
        stay fields. Values of ``environment`` use no environment variables of the scope: these are written as
        ``<ENV:X>``, for the job to expand.
    cluster
        Chooses the section of ``cluster``; without it the label does, as in BPS.
    with_command
        Whether the jobs run ``runQuantumCommand``.
    command
        The command where the configuration has none.
    service_keys
        Keys of the service, where the jobs go to one with a map of its own.

    Raises
    ------
    ConfigError
        A value is wrong, or (as `UndefinedVariableError`) a command uses an undefined variable.
    """
    current = {"curr_pipetask": label, "curr_cluster": cluster or label}
    compiler = _Compiler(config, replace(scope, current=current), label, cluster or label)
    compiler.choose_section("curr_site", "computeSite", scope.current.get("curr_site"))
    compiler.choose_section("curr_cloud", "computeCloud", scope.current.get("curr_cloud"))
    runs = read_command_template(config, compiler.scope, command) if with_command else None
    return compiler.profile(runs, service_keys)


class _Compiler:
    """The searches for one profile; variables that several values use are interpolated once."""

    def __init__(self, config: Config, scope: Scope, label: str, job_label: str) -> None:
        self.config = config
        self.origins: dict[str, Origin] = {}
        self._label = label
        self._cluster_items = map_items(config.node_at("cluster", job_label))
        self._names = {"label": label, "jobLabel": job_label}
        self._set_scope(scope)

    def _set_scope(self, scope: Scope) -> None:
        self.scope = scope
        self._interpolator = Interpolator(self.config, scope)
        self._request_interpolator = Interpolator(self.config, scope, defers_calls=True)
        # A shared value cannot wait for the values of one job, but the jobs' label is known.
        label_values = {name: value for name, value in self._names.items() if name in scope.free}
        shared = replace(
            scope, current={**scope.current, **label_values}, free=frozenset(scope.free).difference(label_values)
        )
        self._shared_interpolator = Interpolator(self.config, shared)
        self._line_interpolator = Interpolator(self.config, replace(shared, of_attempts=True, is_shell_line=True))

    def choose_section(self, choice_key: str, key: str, name: YamlValue) -> None:
        """Choose one more section for the searches that follow, by its name or the value of a key."""
        chosen = self.text(key)
        if name := name or chosen:
            self._set_scope(replace(self.scope, current={**self.scope.current, choice_key: name}))

    def profile(self, command: CommandTemplate | None, service_keys: ServiceKeys | None = None) -> JobProfile:
        """Compile the profile around a command."""
        request, defaulted, per_job = self.request()
        environment, templates = self.environment()
        settings_map = self.gather_settings(service_keys).values if service_keys else {}
        is_varying = varies_per_job(settings_map)
        settings = JobSettings(
            label=self._label,
            request=request,
            defaulted=defaulted,
            environment=environment,
            number_of_retries=self.retries(),
            retry_unless_exit=self.checked("retryUnlessExit", parse_exit_codes, ()),
            rules=read_rules(self, defaulted),
            working_directory=self.text("workingDirectory"),
            limit_threads=self.checked("limitThreads", parse_bool, default=False),
            site=self._chosen("curr_site"),
            cloud=self._chosen("curr_cloud"),
            attributes=self.attributes(),
            service_settings={} if is_varying else settings_map,
        )
        cluster_keys = frozenset(key for key in REQUEST_KEYS if key in self.origins and self._is_set_by_cluster(key))
        return JobProfile(
            settings=settings,
            command=command,
            environment=templates,
            request=per_job,
            service_settings=settings_map if is_varying else {},
            origins=self.origins,
            cluster_keys=cluster_keys,
        )

    def _chosen(self, choice_key: str) -> str | None:
        name = self.scope.current.get(choice_key)
        return None if name is None else str(name)

    def _is_set_by_cluster(self, key: str) -> bool:
        hit = self.config.lookup(key, self.scope)
        return hit is not None and hit.node is not None and hit.node is self._cluster_items.get(key)

    # ---------------------------------------------------------------------------------------- shared settings

    def constant(self, key: str, *, as_text: bool = False) -> tuple[YamlValue, Origin | None]:
        """Value and origin of a key that must not differ per job; ``None`` where the key is missing.

        With `as_text`, a number and a truth value are their text, as it was written.
        """
        hit = self.config.lookup(key, self.scope)
        if hit is None:
            return None, None
        if hit.value is not None:
            self.origins[key] = hit.origin or _NO_ORIGIN
        if not isinstance(hit.value, str):
            return hit.text if as_text and hit.has_text else hit.plain_value(), hit.origin
        values = self._line_interpolator if key in _LINE_KEYS else self._shared_interpolator
        template = values.template(hit.value, hit.origin, name=key)
        if template.names:
            raise ConfigError(
                f"'{key}' must be the same for all jobs of a label, but {quote_value(hit.value)} uses "
                + ", ".join(f"'{name}'" for name in sorted(template.names)),
                origin=hit.origin,
            )
        return template.render({}), hit.origin

    def text(self, key: str) -> str | None:
        """The text of a key; ``None`` where the key is missing."""
        value, origin = self.constant(key, as_text=True)
        if isinstance(value, list | dict | bool):
            raise ConfigError(f"'{key}' must be text, not {quote_value(value)}", origin=origin)
        return None if value is None or not str(value) else str(value)

    def checked(self, key: str, check: ValueReader[_Result], default: _Default) -> _Result | _Default:
        """The value of a key, as `check` reads it; `default` where the key is missing or null."""
        value, origin = self.constant(key)
        return default if value is None else check(value, key, origin)

    def found(self, key: str) -> RawValue | None:
        """The value of a key as written; ``None`` where the key is missing."""
        return self.config.lookup(key, self.scope)

    def filled(self, key: str, text: str, origin: Origin | None) -> Template:
        """Interpolate a text, but for variables that differ per job."""
        return self._interpolator.template(text, origin, name=key)

    def gather_settings(self, service_keys: ServiceKeys) -> ServiceSettings:
        """Settings for the service, from all sections."""

        def fill(key: str, text: str, origin: Origin) -> Template:
            return self._shared_interpolator.template(text, origin, name=key)

        found = gather_service_settings(self.config, self.scope, service_keys, fill)
        self.origins.update({f"own.{key}": origin for key, origin in found.origins.items()})
        return found

    def memory_multiplier(self) -> float | None:
        """Growth factor of memory; ``None`` where memory does not grow."""
        value, origin = self.constant("memoryMultiplier")
        return None if value is None or isinstance(value, bool) else parse_multiplier(value, "memoryMultiplier", origin)

    def retries(self) -> int:
        """Number of retries of a job."""
        is_shared = self.checked("retryOnMemory", parse_count, None) is None
        default = DEFAULT_MEMORY_RETRIES if is_shared and self.memory_multiplier() else 0
        retries: int = self.checked("numberOfRetries", parse_count, default)
        return retries

    def attributes(self) -> dict[str, AttributeValue]:
        """Job attributes that only some workload managers support, where they are set."""
        attributes: dict[str, AttributeValue] = {}
        if factor := self.memory_multiplier():
            attributes["memoryMultiplier"] = factor
        if memory_max := self.checked("requestMemoryMax", parse_memory, 0):
            attributes["requestMemoryMax"] = memory_max
        for key in ATTRIBUTE_KEYS:
            value, origin = self.constant(key, as_text=key in _TEXT_ATTRIBUTES)
            if isinstance(value, list | dict):
                raise ConfigError(f"'{key}' must be one value, not {quote_value(value)}", origin=origin)
            if value is not None and value != "":
                attributes[key] = value
        if packing := self.checked("packing", parse_packing, ""):
            attributes["packing"] = packing
        if "abortOnValue" in attributes:
            attributes["abortOnValue"] = self._exit_code("abortOnValue", attributes["abortOnValue"])
        if "concurrencyLimit" in attributes:
            try:
                parse_concurrency_limits(str(attributes["concurrencyLimit"]))
            except ValueError as error:
                raise ConfigError(
                    f"'concurrencyLimit' has '{error}', which is not the name of a limit",
                    origin=self.origins["concurrencyLimit"],
                    hint="Separate names by commas; add an amount where it is not 1: 'db_limit, tape:2'.",
                ) from None
        return attributes

    def _exit_code(self, key: str, value: YamlValue) -> int:
        """An exit code other than 0."""
        code: int = parse_count(value, key, self.origins[key], least=1)
        if code > _MAX_EXIT_CODE:
            raise ConfigError(
                f"'{key}' must be an exit code from 1 to {_MAX_EXIT_CODE}, not {quote_value(value)}",
                origin=self.origins[key],
            )
        return code

    # ------------------------------------------------------------------------------------------------- the request

    def request(self) -> tuple[Request, tuple[str, ...], dict[str, Template]]:
        """Shared request, keys of it that only defaults set, and templates of keys that differ per job."""
        amounts: dict[str, object] = {}
        defaulted = []
        per_job: dict[str, Template] = {}
        for key in REQUEST_KEYS:
            hit = self.config.lookup(key, self.scope)
            if hit is None or hit.value is None:
                continue
            self.origins[key] = hit.origin or _NO_ORIGIN
            if hit.origin and hit.origin.layer in PACKAGED_LAYERS:
                defaulted.append(key)
            if key == "requestResources":
                amounts["resources"] = self._resources(key, hit, per_job)
                continue
            value = self._amount(key, hit.plain_value(), hit.origin)
            if isinstance(value, Template):
                per_job[key] = value
            else:
                amounts |= parse_request_field(key, value, hit.origin)
        return msgspec.structs.replace(Request(), **amounts), tuple(defaulted), per_job

    def _amount(self, key: str, value: YamlValue, origin: Origin | None) -> Template | YamlValue:
        """An amount with its arithmetic evaluated, or a template where it varies per job."""
        found = self._interpolate(key, value, origin, self._request_interpolator)
        parts = found.parts if isinstance(found, Template) else (found,)
        section = (self._label,) if self.scope.searchobj is not None else ("pipetask", self._label)
        for part in parts:
            if isinstance(part, str):
                refuse_unknown_columns(part, ".".join((*section, key)), self.scope.free, origin)
        return evaluate_amount(found, origin) if isinstance(found, str) else found

    def _interpolate(
        self, key: str, value: YamlValue, origin: Origin | None, values: Interpolator, *, starts_later: bool = False
    ) -> Template | YamlValue:
        """An interpolated value, or a template where it varies per job."""
        if not isinstance(value, str):
            return value
        template = values.template(value, origin, name=key, starts_later=starts_later)
        return template if template.names else template.render({})

    def _resources(self, key: str, hit: RawValue, per_job: dict[str, Template]) -> dict[str, int]:
        if hit.node is None or not isinstance(hit.node.value, dict):
            raise ConfigError(
                f"'{key}' must be a map, not {quote_value(hit.value)}",
                origin=hit.origin,
                hint=f"For example '{key}: {{gpu: 1}}'.",
            )
        amounts: dict[str, int] = {}
        for name, node in hit.node.value.items():
            value = self._amount(f"{key}.{name}", plain_value(node), node.origin)
            if isinstance(value, Template):
                parse_resource_request({name: 0}, key, node.origin)
                per_job[f"{key}.{name}"] = value
            else:
                amounts |= parse_resource_request({name: value}, key, node.origin)
        return amounts

    # --------------------------------------------------------------------------------------------- the environment

    def environment(self) -> tuple[dict[str, str], dict[str, Template]]:
        """Shared environment variables, and templates of those that differ per job; maps of all sections merged."""
        merged: dict[str, Node] = {}
        # The submission does not run in the environment of the job: the job expands environment variables.
        delayed = Interpolator(self.config, replace(self.scope, expand_env=False, replace_env=True, of_attempts=True))
        for node in self._environments():
            if not isinstance(node.value, dict):
                raise ConfigError(f"'environment' must be a map, not {quote_value(node.value)}", origin=node.origin)
            merged |= node.value
        shared: dict[str, str] = {}
        templates: dict[str, Template] = {}
        for name, node in merged.items():
            if isinstance(node.value, list | dict):
                raise ConfigError(f"'environment.{name}' must be one value, not a list or map", origin=node.origin)
            if node.value is None:
                continue  # null removes the value of a weaker section
            self.origins[f"environment.{name}"] = node.origin
            value = self._interpolate(f"environment.{name}", node.text, node.origin, delayed, starts_later=True)
            _check_variable(name, value, node.origin)
            if isinstance(value, Template):
                templates[name] = value
            else:
                shared[name] = str(value)
        return shared, templates

    def _environments(self) -> Iterator[Node]:
        """The map ``environment`` of each section, weakest first."""
        parts = [*self.config.parts(self.scope.current)]
        if isinstance(self.scope.searchobj, Node) and isinstance(self.scope.searchobj.value, dict):
            parts.insert(0, self.scope.searchobj.value)
        nodes = (part.get("environment") for part in reversed(parts))
        return (node for node in nodes if node is not None and node.value is not None)


def _check_variable(name: str, value: Template | YamlValue, origin: Origin | None) -> None:
    """Refuse a variable that the operating system cannot hold in an environment."""
    if not name or "=" in name or "\0" in name:
        raise ConfigError(f"{quote_value(name)} cannot be the name of an environment variable", origin=origin)
    if "\0" in str(value):
        raise ConfigError(f"the environment variable '{name}' has a NUL in its value", origin=origin)
