"""Turns ``bpsGenerateConfig`` into the configuration that its function returns, merged over its section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from longshore.app.configuration import Configuration
from longshore.app.functions import with_functions
from longshore.app.lint import lint_configuration, refusal
from longshore.config.check import Finding, Severity
from longshore.config.functions import GENERATE, GENERATE_HINT, parsed_call
from longshore.config.interpolate import shown
from longshore.config.merge import Layer, LayerRank, Marker, Node, merge, tree
from longshore.config.search import Config, Expander, Scope
from longshore.errors import ConfigError
from longshore.origin import Origin

_DEEPEST: Final = 100


def with_generated(configuration: Configuration, warnings: Iterable[Finding]) -> tuple[Configuration, list[Finding]]:
    """Call each function that returns more configuration, once, and lint the whole again.

    Parameters
    ----------
    configuration
        What `with_functions` made.
    warnings
        What lint had to say so far.

    Returns
    -------
    tuple
        The configuration, without the key, and the warnings that are left with all that is defined now.

    Raises
    ------
    ConfigError
        A function may not or cannot be called, fails, returns no configuration, or one that is wrong.
    """
    before = configuration
    while (found := next(_wanted(configuration.config.root, ()), None)) is not None:
        steps, section, written = found
        configuration = _with_layer(configuration, _layer(configuration, steps, section, written))
    if configuration is before:
        return configuration, list(warnings)
    # A function may choose another site, or forbid those that are called later.
    chosen = with_functions(configuration.rechosen())
    refuse_other_functions(before, chosen)
    # Lint calls nothing: what else is to be called is called when its value is needed, and once.
    findings = lint_configuration(replace(chosen, config=Config(chosen.config.root)))
    if error := refusal(findings):
        if error.origin and error.origin.layer.startswith(GENERATE):
            function = error.origin.layer.removeprefix(GENERATE).strip()
            error.message = f"what '{function}' returned is wrong: {error.message}"
        raise error
    now = [finding for finding in findings if finding.severity is Severity.WARNING]
    of_variables = [each for each in warnings if each.origin.layer == LayerRank.ENVIRONMENT.label]
    return chosen, list(dict.fromkeys([*of_variables, *now]))


def refuse_other_functions(before: Configuration, after: Configuration) -> None:
    """Refuse what a site, chosen when functions are called already, wants called.

    Raises
    ------
    ConfigError
        Its profile wants more configuration from a function.
    """
    known = {written.origin for layer in before.layers for _, _, written in _wanted(layer.root, ())}
    for layer in after.layers:
        for _, _, written in _wanted(layer.root, ()):
            if written.origin not in known:
                raise ConfigError(
                    f"'{GENERATE}' of the site '{after.site}' comes too late: functions are called for the site of the "
                    "run as a whole",
                    origin=written.origin,
                    hint=f"Choose the site by 'computeSite' at the root, or write '{GENERATE}' there.",
                )


def _wanted(section: Node, steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node, Node]]:
    """The places that want configuration from a function: steps that lead there, section, and what is written."""
    if not isinstance(section.value, dict):
        return
    for key, node in section.value.items():
        if key != GENERATE:
            yield from _wanted(node, (*steps, key))
        elif not any(node.value is nothing or node.value == "" for nothing in (None, Marker.DELETE)):
            yield steps, section, node


def _layer(configuration: Configuration, steps: tuple[str, ...], section: Node, written: Node) -> Layer:
    """What a function returns, at the place of its section, with the key itself taken out."""
    caller = configuration.config.caller
    assert caller is not None
    if not isinstance(written.value, str):
        raise ConfigError(
            f"'{GENERATE}' must be the call of a function, not {shown(written.value)}",
            origin=written.origin,
            hint=GENERATE_HINT,
        )
    scope = Scope(current={"curr_site": configuration.site}, env=configuration.env, searchobj=section)
    text = Expander(configuration.config, scope).template(written.value, written.origin, name=GENERATE).render({})
    call = parsed_call(text, written.origin, hint=GENERATE_HINT)
    returned = caller(call)
    if not isinstance(returned, Mapping):
        raise ConfigError(
            f"'{call.name}' returns {shown(returned)}, which is no map",
            origin=written.origin,
            hint="It has to return a dict: values per key of the configuration.",
        )
    origin = msgspec.structs.replace(written.origin, layer=f"{GENERATE} {call.name}()")
    values = tree(_data(returned, call.name, written.origin, ()), origin).value
    assert isinstance(values, dict)
    root = Node({**values, GENERATE: Node(Marker.DELETE, origin)}, origin)
    for step in reversed(steps):
        root = Node({step: root}, origin)
    return Layer(origin.layer, LayerRank.COMMAND_LINE, root)


def _with_layer(configuration: Configuration, layer: Layer) -> Configuration:
    # Strongest of all, for it is merged over what the section is once everything else is known.
    layers = (*configuration.layers, layer)
    config = Config(merge(layers), configuration.config.caller)
    return replace(configuration, layers=layers, given=(*configuration.given, layer), config=config)


def _data(value: Any, function: str, origin: Origin, steps: tuple[str, ...]) -> Any:
    """The value as ordinary maps, lists and scalars; refused where YAML could not have said it."""
    if len(steps) > _DEEPEST:
        raise ConfigError(f"'{function}' returns maps and lists more than {_DEEPEST} deep", origin=origin)
    if isinstance(value, Mapping):
        return {
            _key(key, function, origin): _data(each, function, origin, (*steps, str(key)))
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_data(each, function, origin, (*steps, str(number))) for number, each in enumerate(value)]
    if isinstance(value, str):
        return _text(str(value), function, origin)
    if value is None or type(value) in {bool, int, float}:
        return value
    raise ConfigError(
        f"'{function}' returns {'.'.join(steps)} as '{type(value).__name__}', which is no YAML data",
        origin=origin,
        hint="Return maps, lists, texts, numbers, true, false and null only; 'str(...)' makes a text of anything.",
    )


def _key(key: Any, function: str, origin: Origin) -> str:
    if not isinstance(key, str) or not key:
        raise ConfigError(f"'{function}' returns {shown(key)} as a key, and keys are texts", origin=origin)
    if key == GENERATE:
        raise ConfigError(
            f"'{function}' returns '{GENERATE}', and only what is written can ask for that",
            origin=origin,
            hint="Let it call the other function itself.",
        )
    return _text(key, function, origin)


def _text(text: str, function: str, origin: Origin) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"'{function}' returns {text!a}, which is not UTF-8 text", origin=origin) from None
    return text
