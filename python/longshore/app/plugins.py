"""Finds the functions of other packages that a configuration names: by entry point, or by module and name."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import Any

from longshore.app.configuration import Configuration
from longshore.app.functions import refuse_functions
from longshore.config.search import did_you_mean
from longshore.errors import ConfigError, LongshoreError


def find_function(configuration: Configuration, key: str, *, group: str, what: str, built_in: Collection[str]) -> Any:
    """Import the function that a key names and that is none of ours.

    Parameters
    ----------
    configuration
        The configuration.
    key
        The key.
    group
        Group of entry points that give such functions short names.
    what
        What such a function is called.
    built_in
        Names of ours, for whoever misspelled one.

    Raises
    ------
    ConfigError
        There is none of that name, it cannot be imported, or functions are forbidden.
    """
    from importlib.metadata import entry_points  # most runs need none

    name, origin = configuration.text(key).strip(), configuration.origin(key)
    registered = {entry.name: entry for entry in entry_points(group=group)}
    try:
        if name in registered:
            return registered[name].load()
        module, _, function = name.rpartition(".")
        if module:
            refuse_functions(configuration, f"'{key}: {name}'", origin)
            return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"the {what} '{name}' cannot be imported: {error}",
            origin=origin,
            hint="It is named by its module and its own name, joined by a dot; PYTHONPATH must lead to the module.",
        ) from error
    known = [*built_in, *sorted(registered)]
    raise ConfigError(
        f"there is no {what} '{name}'",
        origin=origin,
        hint=did_you_mean(name, known) or f"There are {', '.join(known)}, and whatever a dotted name leads to.",
    )


def call_function(configuration: Configuration, key: str, function: Any, *arguments: Any, gives: type) -> Any:
    """What such a function returns.

    Raises
    ------
    ConfigError
        It fails, or returns something else than it should.
    LongshoreError
        It says itself what is wrong.
    """
    name, origin = configuration.text(key).strip(), configuration.origin(key)
    try:
        found = function(*arguments)
    except LongshoreError as error:
        error.origin = error.origin or origin
        raise
    except Exception as error:  # somebody else's function may raise anything
        raise ConfigError(f"'{name}' fails: {type(error).__name__}: {str(error)[:200]}", origin=origin) from error
    if not isinstance(found, gives):
        raise ConfigError(f"'{name}' returns a {type(found).__name__}, and no {gives.__name__}", origin=origin)
    return found
