"""Reads the layers of configuration that no run names: those of this machine, of this user, and of the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from longshore.config.check import Finding, Severity
from longshore.config.merge import Layer, LayerRank, Node, plain, tree
from longshore.config.search import did_you_mean
from longshore.config.spelling import respelled
from longshore.errors import ConfigError
from longshore.origin import Origin
from longshore.world.sites import system_folders, user_folder
from longshore.world.yamlfile import FileRead, Loaded, load_layers, parse_yaml

SERVICE_VARIABLE: Final = "BPS_WMS_SERVICE_CLASS"
FILE_NAME: Final = "longshore.yaml"
_PREFIX: Final = "LONGSHORE_"
_NOT_OURS: Final = re.compile(r"LONGSHORE_(JOB_|TEST_|POOLS$)")
"""What jobs find in their environment, and what speaks to the tests: no keys, whatever they look like."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_KEYS: Final = frozenset({"bps_cmdline", "bps_defined"})
"""Sections of BPS's own making."""


def machine_and_user(env: Mapping[str, str]) -> Loaded:
    """The configuration of this machine and of this user, weakest first, with all it includes.

    Raises
    ------
    ConfigError
        A file is there and cannot be read.
    """
    layers: list[Layer] = []
    files: list[FileRead] = []
    # Of several system folders the first is the most important, and so the last to be laid on.
    places = [(LayerRank.SYSTEM, folder) for folder in reversed(system_folders(env))]
    for rank, folder in [*places, (LayerRank.USER, user_folder(env))]:
        if (path := folder / FILE_NAME).is_file():
            loaded = load_layers(path, env=env, rank=rank)
            layers += loaded.layers
            files += loaded.files
    return Loaded(tuple(layers), tuple(files))


def environment(env: Mapping[str, str], schema: Mapping[str, Any], defaults: Node) -> tuple[Layer, list[Finding]]:
    """The layer of the environment: ``LONGSHORE_<KEY>`` for keys of the schema, and BPS's own variable.

    Parameters
    ----------
    env
        The environment.
    schema
        Schema of a configuration.
    defaults
        The package's defaults. What these set under ``payload`` is set there, for at the root it would count for
        nothing.

    Returns
    -------
    tuple
        The layer, and a warning per variable that is nearly, but not quite, one of ours.

    Raises
    ------
    ConfigError
        A value is no YAML.
    """
    keys = {variable_of(key): key for key in _keys(schema)}
    payload = plain(defaults).get("payload") or {}
    root: dict[str, Node] = {}
    below: dict[str, Node] = {}
    findings = []
    for name, text in sorted(env.items()):
        if not name.startswith(_PREFIX) or _NOT_OURS.match(name) or not text:
            continue
        origin = _of(name)
        if name in keys:
            (below if keys[name] in payload else root)[keys[name]] = _value(name, text, origin)
        elif guess := did_you_mean(name, keys, likeness=0.85):
            message = f"nothing knows the environment variable '{name}'"
            findings.append(Finding(message=message, origin=origin, hint=guess, severity=Severity.WARNING))
    if service := env.get(SERVICE_VARIABLE):
        # Ours, where both are set, is the newer word.
        root.setdefault("wmsServiceClass", Node(service, _of(SERVICE_VARIABLE)))
    if below:
        root["payload"] = _over(root.get("payload"), below)
    return Layer("environment", LayerRank.ENVIRONMENT, respelled(Node(root, Origin("environment")))), findings


def variable_of(key: str) -> str:
    """Name of the environment variable for a key: ``requestMemory`` is set by ``LONGSHORE_REQUEST_MEMORY``."""
    return _PREFIX + _WORD.sub("_", key).upper()


def _value(name: str, text: str, origin: Origin) -> Node:
    try:
        # Once more with one origin for all of it: a line and a column of a variable help nobody.
        return tree(plain(parse_yaml(text, origin.file, rank=LayerRank.ENVIRONMENT)), origin)
    except ConfigError as error:
        raise ConfigError(f"the value of '{name}' cannot be read: {error.message}", hint=error.hint) from error


def _of(variable: str) -> Origin:
    return Origin(f"${variable}", layer=LayerRank.ENVIRONMENT.label)


def _over(payload: Node | None, below: dict[str, Node]) -> Node:
    """The section ``payload`` with single keys in it, which say more than a variable for the whole of it."""
    given = payload.value if payload and isinstance(payload.value, dict) else {}
    return Node({**given, **below}, Origin("environment", layer=LayerRank.ENVIRONMENT.label))


def _keys(schema: Mapping[str, Any]) -> Iterator[str]:
    """Keys that can stand at the root."""
    for each in (schema, *(schema["$defs"][part["$ref"].rpartition("/")[2]] for part in schema.get("allOf", ()))):
        yield from (key for key in each.get("properties", ()) if key not in _NO_KEYS)
