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
from longshore.origin import Origin

_KEY = "allowFunctions"


def with_functions(configuration: Configuration) -> Configuration:
    """The configuration, in which functions are called from now on, if no layer of it forbids that."""

    def caller(call: Call) -> Any:
        refuse_functions(configuration, shown(call.text), call.origin)
        return called(call)

    return configuration.calling(caller)


def refuse_functions(configuration: Configuration, what: str, origin: Origin | None) -> None:
    """Refuse to call what a configuration names where some layer of it forbids that.

    Parameters
    ----------
    configuration
        The configuration.
    what
        What would be called, in quotes.
    origin
        Where it was written.

    Raises
    ------
    ConfigError
        A layer forbids it.
    """
    forbidden = next(filter(None, map(_forbidding, configuration.layers)), None)
    if forbidden is not None:
        raise ConfigError(
            f"{what} calls a function, which '{_KEY}' forbids",
            origin=origin,
            hint=f"It is forbidden at {forbidden.origin}.",
        )


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
    root = layer.root.value if isinstance(layer.root.value, dict) else {}
    # A plain key of the command line stands in a section of its own.
    below = root["bps_cmdline"].value if "bps_cmdline" in root else {}
    for part in (root, below if isinstance(below, dict) else {}):
        node = part.get(_KEY)
        while node is not None and node.value is not False:
            node = node.overrode
        if node is not None:
            return node
    return None
