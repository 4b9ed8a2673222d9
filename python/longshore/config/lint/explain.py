"""Explains the value of a key: where it was written, what it replaced, and each step of its interpolation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

import msgspec

from longshore.config.values.bps_eval import WORD
from longshore.config.values.interpolate import Field, angled, env_spelled_out, expand_env, parse
from longshore.config.values.merge import Marker, Node, plain
from longshore.config.values.search import SECTIONS, Config, Expander, Hit, Scope, is_delimited
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.origin import Origin

_DEEPEST: Final = 100
_MOST_STEPS: Final = 1000


class Kind(StrEnum):
    """What a step of filling in did."""

    WRITTEN = "written"
    """The text as written, before any step."""
    ENVIRONMENT = "environment"
    """Environment variables were substituted."""
    VARIABLE = "variable"
    """A variable was looked up."""
    UNDEFINED = "undefined"
    """An undefined variable was looked up: it is empty, or a placeholder of the workload manager."""
    VALUE = "value"
    """All variables were substituted."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
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

    kind: Kind
    depth: int = 0
    name: str
    text: str
    origin: Origin | None = None


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
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


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Value, origin, history and interpolation steps of one key.

    Attributes
    ----------
    found, value, origin
        As a search returns them.
    written
        The value as it was written.
    overrode
        What it replaced in weaker layers, the strongest first.
    hides
        What the search would have found instead.
    steps
        Interpolation steps; where there is an error, those before it.
    error
        Why the value cannot be computed; then `value` is ``None``.
    """

    found: bool
    value: YamlValue
    origin: Origin | None = None
    written: YamlValue = None
    overrode: tuple[Replaced, ...] = ()
    hides: tuple[Replaced, ...] = ()
    steps: tuple[Step, ...] = ()
    error: ConfigError | None = None


def explain_key(config: Config, key: str, scope: Scope) -> Explained:
    """Explain the result of a search for a key; with an error, up to that error."""
    hit = config.lookup(key, scope)
    if hit is None:
        return Explained(found=False, value="")
    value: YamlValue = None
    failed: ConfigError | None = None
    steps: list[Step] = []
    try:
        value = Expander(config, scope).value(key, hit)
    except ConfigError as error:
        failed = error
    if isinstance(hit.value, str):
        with suppress(ConfigError):  # the same error as before
            for step in _Steps(config, scope).of(key, hit, 0):
                steps.append(step)  # noqa: PERF402 - those before an error are kept
        if failed is None:
            steps.append(Step(kind=Kind.VALUE, name=key, text=str(value)))
    return Explained(
        found=True,
        value=value,
        origin=hit.origin,
        written=hit.plain(),
        overrode=tuple(_overrode(hit.node)),
        hides=tuple(_hidden(config, key, scope, hit)),
        steps=tuple(steps),
        error=failed,
    )


def _overrode(node: Node | None) -> Iterator[Replaced]:
    below = node.overrode if node else None
    while below is not None:
        # A deleted key has no value; the value it deleted is still shown.
        value = None if below.value is Marker.DELETE else plain(below)
        yield Replaced(value=value, origin=below.origin)
        below = below.overrode


def _hidden(config: Config, key: str, scope: Scope, hit: Hit) -> Iterator[Replaced]:
    """Values of the same key in sections that are searched later."""
    if is_delimited(key):
        return
    later = hit.node is None
    for name, part in _named_parts(config, scope.current):
        node = part.get(key)
        if node is None:
            continue
        if hit.node is node:
            later = True
        elif later:
            yield Replaced(value=plain(node), origin=node.origin, section=name)


def _named_parts(config: Config, current: Mapping[str, YamlValue]) -> Iterator[tuple[str, Mapping[str, Node]]]:
    there = [name for name in SECTIONS if config.at(name) is not None]
    names = []
    for name in there:
        choice = current.get(f"curr_{name}")
        names.append(f"{name}.{choice}" if choice and config.at(name, str(choice)) is not None else name)
    yield from zip([*names, "root"], config.parts(current), strict=True)


class _Steps:
    """Follows the variables of a text, each of them once."""

    def __init__(self, config: Config, scope: Scope) -> None:
        self.config = config
        self.scope = scope
        self._expander = Expander(config, scope)
        self._seen: set[str] = set()
        self._count = 0

    def of(self, name: str, hit: Hit, depth: int) -> Iterator[Step]:
        """The text, then what was substituted in it."""
        text = str(hit.value)
        yield Step(kind=Kind.WRITTEN, depth=depth, name=name, text=text, origin=hit.origin)
        expanded = expand_env(env_spelled_out(text, self.scope.env), self.scope.env)
        if expanded != text:
            yield Step(kind=Kind.ENVIRONMENT, depth=depth, name=name, text=expanded)
        for variable in dict.fromkeys(self._variables(expanded)):
            yield from self._variable(variable, depth + 1)

    def _variables(self, text: str) -> Iterator[str]:
        for piece in parse(text):
            if isinstance(piece, Field):
                yield piece.name
            elif "<" in piece:
                pieces = angled(piece, lambda name: self.config.lookup(name, self.scope) is not None)
                yield from (each.name for each in pieces if isinstance(each, Field))

    def _variable(self, name: str, depth: int) -> Iterator[Step]:
        self._count += 1
        if name in self._seen or depth > _DEEPEST or self._count > _MOST_STEPS:
            return
        self._seen.add(name)
        hit = self.config.lookup(name, self.scope)
        if hit is None:
            shown = self._expander.template(f"{{{name}}}", None).render({})
            yield Step(kind=Kind.UNDEFINED, depth=depth, name=name, text=shown)
            return
        if isinstance(hit.value, str) and any(mark in hit.value for mark in ("{", "<", "$", WORD)):
            yield from self.of(name, hit, depth)
        value = Expander(self.config, self.scope).value(name, hit)
        yield Step(kind=Kind.VARIABLE, depth=depth, name=name, text=str(value), origin=hit.origin)
