"""Configuration layers that depend on no site: defaults, machine, user, environment, file and options."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.config.includes import LoadedLayers, SourceFile, load_layers, read_yaml
from longshore.config.lint import add_intended_keys
from longshore.config.merge import (
    Layer,
    LayerRank,
    LayerStack,
    Marker,
    Node,
    make_layer,
    map_items,
    nest,
    overlay,
    with_origin,
    written_value,
)
from longshore.config.plugins import shipped_path
from longshore.config.schema import Finding, Severity
from longshore.config.schemas import configuration_schema
from longshore.config.search import is_delimited
from longshore.config.secret_values import note_layers
from longshore.config.service_lookup import BRIDGE, SERVICE_VARIABLE, default_service
from longshore.config.yaml_text import parse_yaml
from longshore.errors import ConfigError, Origin, UsageError
from longshore.model.values import JsonSchema, YamlValue
from longshore.model.wording import did_you_mean, is_utf8, quote_value
from longshore.system.host import system_folders, timestamp, user_folder, user_name
from longshore.system.reading import current_directory

# Parses ``--set`` and ``--var`` options of the command line into a layer and variables.


def parse_set_options(pairs: Iterable[str], *, name: str = "--set") -> Layer:
    """Build the layer of ``KEY=VALUE`` pairs from the command line.

    A plain key goes under ``bps_cmdline``; one with dots (``site.local.queue``), or with a delimiter in front
    (``.queue``, ``/site/local/queue``), to its place. VALUE is parsed as YAML, except that no value means the empty
    text, and that a word without quotation marks is all that was typed: nothing in it is a comment. A later pair wins
    over an earlier one.

    Raises `UsageError` when a pair is malformed.
    """
    rank = LayerRank.COMMAND_LINE
    origin = Origin(name, layer=rank.label)
    root = Node({}, origin)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        delimiter = key[:1] if is_delimited(key) else "."
        path = key.removeprefix(delimiter).split(delimiter)
        if not equals or not all(path):
            raise UsageError(
                f"{quote_value(pair)} is not KEY=VALUE",
                hint=f"For example: {name} queue=long {name} site.local.requestCpus=2",
            )
        if not is_utf8(pair):
            raise UsageError(f"{quote_value(pair)} is not UTF-8 text", hint="Write it in UTF-8.")
        try:
            value = with_origin(_parse_given(text, name, rank), origin)
        except ConfigError as error:
            raise UsageError(
                f"the value in {quote_value(pair)} cannot be read: {error.message}", hint=error.hint
            ) from error
        place = path if len(path) > 1 or is_delimited(key) else ["bps_cmdline", *path]
        root = overlay(root, nest(value, place))
    return Layer(name, rank, add_intended_keys(root))


def _parse_given(text: str, name: str, rank: LayerRank) -> Node:
    """Parse a value that was typed without the rest of a file: a word is all of the text, also behind a ``#``."""
    if not text.strip():
        return Node(text, Origin(name))
    node = parse_yaml(text, name, rank=rank)
    is_word = not isinstance(node.value, dict | list | Marker) and text.lstrip()[0] not in "'\"|>!&*"
    if is_word and (isinstance(node.value, str) or "#" in text):
        return Node(text, node.origin, written=node.written if text == node.written else "")
    return node


def parse_variables(pairs: Iterable[str], *, name: str = "--var") -> dict[str, YamlValue]:
    """Parse ``NAME=VALUE`` pairs from the command line; values are parsed as in `parse_set_options`.

    Raises `UsageError` when a pair is malformed.
    """
    # In a section of their own, names are not interpreted as paths.
    values = parse_set_options((f"/given/{pair}" for pair in pairs), name=name).root.value
    given = map_items(values.get("given") if isinstance(values, dict) else None)
    return {name: written_value(node) for name, node in given.items()}


FILE_NAME: Final = "longshore.yaml"
_PREFIX: Final = "LONGSHORE_"
_RESERVED_VARIABLES: Final = re.compile(r"LONGSHORE_(JOB_|TEST_|POOLS$)")
"""Environment variables of jobs and tests, which are no configuration keys."""
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COMPUTED_SECTIONS: Final = frozenset({"bps_cmdline", "bps_defined"})
"""Sections that BPS itself defines."""


OPTIONS: Final = "command line"
"""`Layer.name` of named options of a command."""


class Overrides(msgspec.Struct, frozen=True):
    """Values set on the command line or by a Python caller.

    `options` holds named options per key of ``bps_cmdline``, such as ``{"computeSite": "campus"}``; `sets` holds the
    ``KEY=VALUE`` of ``--set`` in order, with values in YAML.
    """

    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    sets: tuple[str, ...] = ()
    imports_code: bool = True
    """Whether code that the configuration names may be imported and called; a command that only looks does neither."""

    def __bool__(self) -> bool:
        return bool(self.options or self.sets)


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """First stage of a configuration: everything read, nothing looked up.

    `path` is the user's file. `now` is the time of the run for ``{timestamp}``, in seconds since the epoch. `env` has
    ``PWD`` set to the physical directory. `files` are those of user and machine; `warnings` concern the environment.
    `names_bridge` says that a layer named the class by which BPS reaches Longshore.
    """

    path: Path
    overrides: Overrides
    now: float
    env: Mapping[str, str]
    stack: LayerStack
    files: tuple[SourceFile, ...]
    warnings: tuple[Finding, ...]
    names_bridge: bool = False

    def with_layers(self, layers: Iterable[Layer]) -> Layers:
        """Return a copy with more layers."""
        return replace(self, stack=self.stack.with_layers(*layers))


def read_layers(path: Path, overrides: Overrides | None = None, *, now: float) -> Layers:
    """Read all layers that depend on no site.

    Raises `ConfigError` if a file cannot be read, `UsageError` if a ``--set`` is malformed.
    """
    _refuse_undecodable(str(path.absolute()), f"the path '{path.absolute()}'")
    env = {**os.environ, "PWD": str(current_directory())}
    # Those without values are false, and may forbid functions all the same.
    overrides = Overrides() if overrides is None else overrides
    return _combine_layers(path, load_layers(path, env=env), overrides, env=env, now=now)


def read_layers_without_file(overrides: Overrides, *, now: float) -> Layers:
    """Read the layers of a configuration without a user's file, to ask a site: parameters are those of `read_layers`.

    Its path is a file that is not read, in the current directory.
    """
    folder = current_directory()
    env = {**os.environ, "PWD": str(folder)}
    return _combine_layers(folder / "none.yaml", LoadedLayers((), ()), overrides, env=env, now=now)


def _combine_layers(
    path: Path, loaded: LoadedLayers, overrides: Overrides, *, env: Mapping[str, str], now: float
) -> Layers:
    note_layers(loaded.layers, env)
    for key, value in overrides.options.items():
        _refuse_undecodable(str(value), f"the value '{value}' of '{key}'")
    options_layer = make_layer({"bps_cmdline": dict(overrides.options)}, OPTIONS, LayerRank.COMMAND_LINE)
    overriding = (options_layer, parse_set_options(overrides.sets))
    values = {"bps_defined": {"timestamp": timestamp(now)}, "operator": user_name(), "payloadName": path.stem}
    computed = make_layer(values, "computed", LayerRank.DEFAULTS)
    base, files, warnings = read_base_layers(env)
    written = (*base, computed, *loaded.layers, *overriding)
    note_layers(written, env)
    layers = tuple(map(_without_bridge, written))
    return Layers(
        path=path,
        overrides=overrides,
        now=now,
        env=env,
        stack=LayerStack().with_layers(*layers),
        files=(*loaded.files, *files),
        warnings=warnings,
        names_bridge=any(one is not other for one, other in zip(layers, written, strict=True)),
    )


def read_base_layers(
    env: Mapping[str, str],
) -> tuple[tuple[Layer, ...], tuple[SourceFile, ...], tuple[Finding, ...]]:
    """Read the layers outside of any run (defaults, machine, user, environment), their files and warnings.

    Raises `ConfigError` if an existing file cannot be read.
    """
    defaults = _defaults()
    local = _load_machine_and_user(env)
    variables, warnings = _environment_layer(env, defaults.root)
    return (defaults, *local.layers, variables), local.files, tuple(warnings)


def configured_service(env: Mapping[str, str]) -> str:
    """Return the service of runs that name none: by the environment, the user's configuration, or the machine's.

    Raises `ConfigError` if an existing file cannot be read.
    """
    variables, _ = _environment_layer(env, Node({}, Origin("environment")))
    layers = map(_without_bridge, (variables, *reversed(_load_machine_and_user(env).layers)))
    named = (map_items(layer.root).get("wmsServiceClass") for layer in layers)
    return str(next((node.value for node in named if node is not None and node.value), default_service()))


def _without_bridge(layer: Layer) -> Layer:
    """Return a layer without the service class by which BPS reaches Longshore."""
    root = _drop_bridge(layer.root)
    options = map_items(root).get("bps_cmdline")
    if options is not None and (others := _drop_bridge(options)) is not options:
        root = msgspec.structs.replace(root, value={**map_items(root), "bps_cmdline": others})
    return layer if root is layer.root else msgspec.structs.replace(layer, root=root)


def _drop_bridge(section: Node) -> Node:
    items = map_items(section)
    chosen = items.get("wmsServiceClass")
    if chosen is None or chosen.value != BRIDGE:
        return section
    return msgspec.structs.replace(section, value={key: item for key, item in items.items() if item is not chosen})


def file_layer(name: str, rank: LayerRank, path: Path) -> Layer:
    """Return the layer of a file shipped with a package."""
    return Layer(name, rank, read_yaml(path, rank=rank))


def _defaults() -> Layer:
    return file_layer("defaults", LayerRank.DEFAULTS, shipped_path("etc", "defaults.yaml"))


def _refuse_undecodable(text: str, named: str) -> None:
    """Refuse a path or an option that is not valid text: files in the run directory name it in many places."""
    if not is_utf8(text):
        raise ConfigError(f"{named} is not UTF-8 text", hint="Rename what is not, or use a locale such as C.UTF-8.")


def _load_machine_and_user(env: Mapping[str, str]) -> LoadedLayers:
    """Read the configuration of this machine and user, with its includes."""
    layers: list[Layer] = []
    files: list[SourceFile] = []
    # Of several system folders the first has the highest rank, so it is merged last.
    places = [(LayerRank.SYSTEM, folder) for folder in reversed(system_folders(env))]
    for rank, folder in [*places, (LayerRank.USER, user_folder(env))]:
        if (path := folder / FILE_NAME).is_file():
            loaded = load_layers(path, env=env, rank=rank)
            layers += loaded.layers
            files += loaded.files
    return LoadedLayers(tuple(layers), tuple(files))


# --------------------------------------------------------------------------------------------------- the environment


def _environment_layer(env: Mapping[str, str], defaults: Node) -> tuple[Layer, list[Finding]]:
    """Return the layer of ``LONGSHORE_<KEY>`` and BPS's variable, and warnings about misspelt variables.

    Keys that the defaults define under ``payload`` are set there: at the root they would have no effect.
    """
    written = {
        name: text
        for name, text in sorted(env.items())
        if name.startswith(_PREFIX) and not _RESERVED_VARIABLES.match(name) and text
    }
    # The keys of all services take 20 ms, and most environments name none.
    keys = {variable_of(key): key for key in _root_keys(configuration_schema())} if written else {}
    payload_defaults = map_items(map_items(defaults).get("payload"))
    root: dict[str, Node] = {}
    payload_keys: dict[str, Node] = {}
    findings = []
    for name, text in written.items():
        origin = _variable_origin(name)
        if name in keys:
            (payload_keys if keys[name] in payload_defaults else root)[keys[name]] = _parse_variable(name, text, origin)
        elif hint := did_you_mean(name, keys, likeness=0.85):
            message = f"the environment variable '{name}' is unknown"
            findings.append(Finding(message=message, origin=origin, hint=hint, severity=Severity.WARNING))
    if service := env.get(SERVICE_VARIABLE):
        # Longshore's variable wins over BPS's.
        root.setdefault("wmsServiceClass", Node(service, _variable_origin(SERVICE_VARIABLE)))
    if payload_keys:
        # Single keys win over a variable for the section.
        values = {**map_items(root.get("payload")), **payload_keys}
        root["payload"] = Node(values, Origin("environment", layer=LayerRank.ENVIRONMENT.label))
    return Layer("environment", LayerRank.ENVIRONMENT, add_intended_keys(Node(root, Origin("environment")))), findings


def variable_of(key: str) -> str:
    """Return the environment variable of a key: ``LONGSHORE_REQUEST_MEMORY`` for ``requestMemory``."""
    return _PREFIX + _WORD_BOUNDARY.sub("_", key).upper()


def _parse_variable(name: str, text: str, origin: Origin) -> Node:
    try:
        # One origin for the whole value: line and column within a variable do not help.
        return with_origin(_parse_given(text, origin.file, LayerRank.ENVIRONMENT), origin)
    except ConfigError as error:
        raise ConfigError(f"the value of '{name}' cannot be read: {error.message}", hint=error.hint) from error


def _variable_origin(variable: str) -> Origin:
    return Origin(f"${variable}", layer=LayerRank.ENVIRONMENT.label)


def root_keys() -> frozenset[str]:
    """Return the keys allowed at the root of a configuration."""
    return frozenset(_root_keys(configuration_schema()))


def _root_keys(schema: JsonSchema) -> Iterator[str]:
    """Iterate over keys allowed at the root."""
    for each in (schema, *(schema["$defs"][part["$ref"].rpartition("/")[2]] for part in schema.get("allOf", ()))):
        yield from (key for key in each.get("properties", ()) if key not in _COMPUTED_SECTIONS)


def schema_keys() -> frozenset[str]:
    """Return the keys that Longshore and its services know, in any section."""
    definitions = configuration_schema()["$defs"].values()
    return frozenset(chain(_root_keys(configuration_schema()), *(each.get("properties", ()) for each in definitions)))
