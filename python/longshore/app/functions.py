"""Calls the functions that ``bpsEval`` names, for whoever prepares a run, unless the site or the user forbids it."""

from __future__ import annotations

import importlib
from typing import Any

from longshore.app.configuration import Configuration
from longshore.config.functions import Call
from longshore.config.interpolate import shown
from longshore.config.merge import Node
from longshore.errors import ConfigError

_KEY = "allowFunctions"
_GENERATE = "bpsGenerateConfig"


def with_functions(configuration: Configuration) -> Configuration:
    """The configuration, in which functions are called from now on.

    Raises
    ------
    ConfigError
        It wants more configuration from a function, which this version does not do.
    """
    if generating := _named(configuration.config.root):
        raise ConfigError(
            f"'{_GENERATE}' is not supported: this version lets no function return more configuration",
            origin=generating.origin,
            hint="Write what the function returns to a file, and name that in 'includeConfigs'.",
        )
    forbidden = _forbidding(configuration.config.at(_KEY))

    def caller(call: Call) -> Any:
        if forbidden is not None:
            raise ConfigError(
                f"{shown(call.text)} calls a function, which '{_KEY}' forbids",
                origin=call.origin,
                hint=f"It is forbidden at {forbidden.origin}.",
            )
        return called(call)

    return configuration.calling(caller)


def called(call: Call) -> Any:
    """What a function returns.

    Raises
    ------
    ConfigError
        There is no such function, or it fails.
    """
    module, _, name = call.name.rpartition(".")
    try:
        function = getattr(importlib.import_module(module or "builtins"), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"the function '{call.name}' cannot be imported: {error}",
            origin=call.origin,
            hint="It is named by its module and its own name, joined by a dot; PYTHONPATH must lead to the module.",
        ) from error
    try:
        return function(*call.arguments, **call.options)
    except Exception as error:  # a function of the user's may raise anything
        raise ConfigError(
            f"{shown(call.text)} fails: {type(error).__name__}: {str(error)[:200]}", origin=call.origin
        ) from error


def _forbidding(node: Node | None) -> Node | None:
    """The value that forbids functions: one layer that does is enough, for no user may undo what a site says."""
    while node is not None and node.value is not False:
        node = node.overrode
    return node


def _named(node: Node) -> Node | None:
    """The first place that wants configuration from a function."""
    if not isinstance(node.value, dict):
        return None
    if (found := node.value.get(_GENERATE)) is not None and found.value:
        return found
    return next(filter(None, map(_named, node.value.values())), None)
