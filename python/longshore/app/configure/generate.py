"""Generated configuration: calls the functions of ``bpsGenerateConfig`` and merges their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.configure.configuration import Configuration, Draft, make_draft
from longshore.app.configure.lint import check_configuration
from longshore.app.configure.user_functions import make_caller
from longshore.config.interpolate import GENERATE_HINT, GENERATE_KEY, FunctionCaller, Interpolator, parse_call
from longshore.config.merge import Layer, LayerRank, Marker, Node, map_items, to_node
from longshore.config.schema import Finding
from longshore.config.search import Config
from longshore.errors import ConfigError, Origin
from longshore.model.values import YamlValue
from longshore.model.wording import quote_value

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
