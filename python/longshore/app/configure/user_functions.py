"""User functions: imports and calls functions that a configuration names, unless a layer forbids that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from typing import Final, TypeVar

from longshore.app.configure.configuration import LOOK_HINT, Configuration
from longshore.config.interpolate import FunctionCall, FunctionCaller
from longshore.config.merge import Layer, Node, map_items
from longshore.errors import CodeRefusedError, ConfigError, LongshoreError, Origin
from longshore.model.wording import did_you_mean, name_all, quote_value
from longshore.world.plugins import all_plugins

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
    from longshore.world.foreign_code import import_named

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
            from longshore.world.foreign_code import import_named

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
