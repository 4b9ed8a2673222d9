"""Explains the value of a key: where it was written, what it replaced, and each step of its interpolation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

import msgspec

from longshore.config.final_job import read_when_run
from longshore.config.interpolate import BPS_EVAL, Interpolator, RawValue, Scope
from longshore.config.merge import Marker, Node, written_value
from longshore.config.schema import find_key_schema, keys_of_schema
from longshore.config.search import SECTIONS, Config, is_delimited
from longshore.config.templates import Field, expand_env, rewrite_angled_env, split_angled, split_variables
from longshore.errors import ConfigError, Origin
from longshore.model.values import JsonSchema, YamlValue
from longshore.model.wording import did_you_mean, first_of, nearest

_MAX_NESTED_CALLS: Final = 100
_MAX_STEPS: Final = 1000
_MAX_LISTED: Final = 12
"""Keys in a hint."""
_WHEN_RUN: Final = ("finalJob", "whenRun")
"""The one key with a default that depends on others."""
_FINAL_COMMAND: Final = ("finalJob", "command")


class StepKind(StrEnum):
    """Kind of an interpolation step."""

    WRITTEN = "written"
    """Start: the text as written."""
    ENVIRONMENT = "environment"
    """Substitution of environment variables."""
    VARIABLE = "variable"
    """Lookup of a variable."""
    UNDEFINED = "undefined"
    """Lookup of an undefined variable: it is empty, or a placeholder of the workload manager."""
    VALUE = "value"
    """End: the value, with all variables substituted."""


class InterpolationStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step from a text to its value.

    Attributes
    ----------
    depth
        Number of variables that lead from the key to this text.
    name
        The key or variable.
    text
        The text after this step; for a variable, its value.
    origin
        Where it was written.
    """

    kind: StepKind
    depth: int = 0
    name: str
    text: str
    origin: Origin | None = None


class OverriddenValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value that another overrides.

    Attributes
    ----------
    value
        As it was written.
    section
        Its section, for a value that the search would have reached later.
    """

    value: YamlValue
    origin: Origin
    section: str | None = None


class KeyExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Value, origin, history and interpolation steps of one key.

    Attributes
    ----------
    found, value, origin
        As a search returns them.
    written
        The value as it was written.
    overridden_values
        What it replaced in weaker layers, the strongest first.
    hidden_values
        What the search would have found instead.
    steps
        Interpolation steps; with an error, those before it.
    error
        Why the value cannot be computed; then `value` is ``None``.
    default
        What holds where nothing sets the key; ``None`` if nothing does.
    """

    is_found: bool
    value: YamlValue
    origin: Origin | None = None
    written: YamlValue = None
    overridden_values: tuple[OverriddenValue, ...] = ()
    hidden_values: tuple[OverriddenValue, ...] = ()
    steps: tuple[InterpolationStep, ...] = ()
    error: ConfigError | None = None
    default: YamlValue = None


def explain_key(
    config: Config, key: str, scope: Scope, known: Collection[str] = (), schema: JsonSchema | None = None
) -> KeyExplanation:
    """Explain the result of a search for a key; with an error, up to that error.

    `known` are keys of any section, `schema` names keys with the sections that lead to them: these may have no value.
    Any other key without a value is an error.
    """
    path = tuple(key[1:].split(key[0]) if is_delimited(key) else key.split("."))
    hit = config.lookup(key, scope) or _lookup_path(config, path)
    if hit is None:
        if key in known or (schema is not None and find_key_schema(path, schema) is not None):
            try:
                default = str(read_when_run(config)) if path == _WHEN_RUN else None
            except ConfigError as wrong:
                return KeyExplanation(is_found=True, value=None, origin=wrong.origin, error=wrong)
            return KeyExplanation(is_found=False, value="", default=default)
        unknown = _unknown_key(key, path, {*known, *config.names(scope)}, schema or {})
        return KeyExplanation(is_found=False, value="", error=unknown)
    value: YamlValue = None
    error: ConfigError | None = None
    steps: list[InterpolationStep] = []
    try:
        if path == _WHEN_RUN:
            read_when_run(config)  # refuses words that it does not know
        value = Interpolator(config, scope).value(key, hit) if isinstance(hit.value, str) else hit.as_written
    except ConfigError as caught:
        error = caught
    if isinstance(hit.value, str):
        with suppress(ConfigError):  # the same error as before
            for step in _StepCollector(config, scope).of(key, hit, 0):
                steps.append(step)  # noqa: PERF402 - those before an error are kept
        if error is None:
            steps.append(InterpolationStep(kind=StepKind.VALUE, name=key, text=str(value)))
    return KeyExplanation(
        is_found=True,
        value=value,
        origin=hit.origin,
        written=hit.as_written,
        overridden_values=tuple(_overridden_values(hit.node)),
        hidden_values=tuple(_hidden_values(config, key, scope, hit)),
        steps=tuple(steps),
        error=error,
    )


def _lookup_path(config: Config, path: tuple[str, ...]) -> RawValue | None:
    """The value at a path of keys, such as ``finalJob.whenRun``."""
    if len(path) == 1:
        return None
    # The command of a final job is kept as its first one.
    node = config.node_at(*path) or (config.node_at("finalJob", "command1") if path == _FINAL_COMMAND else None)
    return None if node is None else RawValue(node.value, node)


def _unknown_key(key: str, path: tuple[str, ...], known: Collection[str], schema: JsonSchema) -> ConfigError:
    *sections, last = path
    below = find_key_schema(sections, schema) if sections else None
    keys = keys_of_schema(below, schema) if below is not None else ()
    if keys:
        section, likely = ".".join(sections), nearest(last, keys)
        hint = f"Did you mean '{section}.{likely}'?" if likely else f"'{section}' has {first_of(keys, _MAX_LISTED)}."
    else:
        names = (name for name in known if not name.startswith("bps"))
        hint = did_you_mean(key, names) or "All keys: longshore config schema"
    return ConfigError(f"nothing defines '{key}', and Longshore has no key of that name", hint=hint)


def _overridden_values(node: Node | None) -> Iterator[OverriddenValue]:
    below = node.replaced_node if node else None
    while below is not None:
        # A deleted key has no value; the value it deleted is still shown.
        value = None if below.value is Marker.DELETE else written_value(below)
        yield OverriddenValue(value=value, origin=below.origin)
        below = below.replaced_node


def _hidden_values(config: Config, key: str, scope: Scope, hit: RawValue) -> Iterator[OverriddenValue]:
    """Values of the same key in sections that are searched later."""
    if is_delimited(key):
        return
    later = hit.node is None
    for name, part in _searched_sections(config, scope.current):
        node = part.get(key)
        if node is None:
            continue
        if hit.node is node:
            later = True
        elif later:
            yield OverriddenValue(value=written_value(node), origin=node.origin, section=name)


def _searched_sections(config: Config, current: Mapping[str, YamlValue]) -> Iterator[tuple[str, Mapping[str, Node]]]:
    present = [name for name in SECTIONS if config.node_at(name) is not None]
    names = []
    for name in present:
        choice = current.get(f"curr_{name}")
        names.append(f"{name}.{choice}" if choice and config.node_at(name, str(choice)) is not None else name)
    yield from zip([*names, "root"], config.parts(current), strict=True)


class _StepCollector:
    """Follows the variables of a text, each of them once."""

    def __init__(self, config: Config, scope: Scope) -> None:
        self.config = config
        self.scope = scope
        self._expander = Interpolator(config, scope)
        self._names: set[str] = set()
        self._count = 0

    def of(self, name: str, hit: RawValue, depth: int) -> Iterator[InterpolationStep]:
        """The text, then what was substituted in it."""
        text = hit.text
        yield InterpolationStep(kind=StepKind.WRITTEN, depth=depth, name=name, text=text, origin=hit.origin)
        expanded = expand_env(rewrite_angled_env(text, self.scope.env), self.scope.env)
        if expanded != text:
            yield InterpolationStep(kind=StepKind.ENVIRONMENT, depth=depth, name=name, text=expanded)
        for variable in dict.fromkeys(self._variables(text)):
            yield from self._variable(variable, depth + 1)

    def _variables(self, text: str) -> Iterator[str]:
        for piece in split_variables(text, lambda _name, written: written):
            if isinstance(piece, Field):
                yield piece.name
            elif "<" in piece:
                pieces = split_angled(piece, lambda name: self.config.lookup(name, self.scope) is not None)
                yield from (each.name for each in pieces if isinstance(each, Field))

    def _variable(self, name: str, depth: int) -> Iterator[InterpolationStep]:
        self._count += 1
        if name in self._names or depth > _MAX_NESTED_CALLS or self._count > _MAX_STEPS:
            return
        self._names.add(name)
        hit = self.config.lookup(name, self.scope)
        if hit is None:
            shown = self._expander.template(f"{{{name}}}", None).render({})
            yield InterpolationStep(kind=StepKind.UNDEFINED, depth=depth, name=name, text=shown)
            return
        if (
            isinstance(hit.value, str)
            and not hit.is_data
            and any(mark in hit.value for mark in ("{", "<", "$", BPS_EVAL))
        ):
            yield from self.of(name, hit, depth)
        value = Interpolator(self.config, self.scope).value(name, hit) if isinstance(hit.value, str) else hit.text
        yield InterpolationStep(kind=StepKind.VARIABLE, depth=depth, name=name, text=str(value), origin=hit.origin)
