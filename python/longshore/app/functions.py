"""Calls the functions that a configuration names, for whoever prepares a run, unless a site or user forbids it."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from typing import Any

from longshore.app.configuration import Configuration
from longshore.config.functions import Call
from longshore.config.interpolate import shown
from longshore.config.merge import Layer, Node
from longshore.errors import ConfigError

_KEY = "allowFunctions"


def with_functions(configuration: Configuration) -> Configuration:
    """The configuration, in which functions are called from now on, if no layer of it forbids that."""
    forbidden = next(filter(None, map(_forbidding, configuration.layers)), None)

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
        # What a command prints is its result, perhaps JSON; a function must not add to it.
        with redirect_stdout(sys.stderr):
            return function(*call.arguments, **call.options)
    except Exception as error:  # a function of the user's may raise anything
        raise ConfigError(
            f"{shown(call.text)} fails: {type(error).__name__}: {str(error)[:200]}", origin=call.origin
        ) from error


def _forbidding(layer: Layer) -> Node | None:
    """What forbids functions in a layer: one is enough, for no user may undo, or delete, what a site says."""
    node = layer.root.value.get(_KEY) if isinstance(layer.root.value, dict) else None
    while node is not None and node.value is not False:
        node = node.overrode
    return node
