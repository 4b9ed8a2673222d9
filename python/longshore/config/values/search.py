"""Looks up a key in BPS's search order and interpolates its variables; no other module knows that order."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

import msgspec

from longshore.config.values.bps_eval import BPS_EVAL, FunctionCaller, evaluate_calls
from longshore.config.values.interpolate import (
    Field,
    Part,
    Parts,
    Template,
    delay_env,
    expand_env,
    format_value,
    join_parts,
    parts_text,
    rewrite_angled_env,
    split_angled,
    split_fields,
    wms_placeholder,
)
from longshore.config.values.merge import Node, NodeValue, map_items, plain_map, plain_value
from longshore.errors import ConfigError, ReferenceCycleError
from longshore.model.values import YamlValue
from longshore.origin import Origin

SECTIONS: Final = ("bps_cmdline", "payload", "cluster", "pipetask", "site", "cloud", "bps_defined")
"""Sections searched before the root; the first that has the key wins."""
LABEL_SECTIONS: Final = ("pipetask", "cluster", "site", "cloud")
"""Sections divided into parts, one for each label or name."""

NO_VALUES: Final[Mapping[str, YamlValue]] = {}
_MAX_DEPTH = 100
_MAX_LENGTH = 1_000_000
"""Maximum characters and fields of one value: variables that double each other reach any size in a few lines."""

UndefinedHandler: TypeAlias = Callable[[str, Origin | None], str]
"""Handles an undefined variable, by its name and origin: returns a replacement text, or raises an error."""


class SearchResult(msgspec.Struct, frozen=True):
    """Result of a search.

    Attributes
    ----------
    is_found
        Whether the key has a value.
    value
        The value with its variables substituted; empty text where nothing was found.
    origin
        Where it was written; ``None`` for a value from outside the configuration.
    node
        The node as written, with the values it replaced; ``None`` for a value from outside the configuration.
    """

    is_found: bool
    value: YamlValue
    origin: Origin | None = None
    node: Node | None = None


class RawValue(msgspec.Struct, frozen=True):
    """A value before interpolation: a node of the configuration, or a plain value from elsewhere."""

    value: NodeValue | YamlValue
    node: Node | None = None

    @property
    def origin(self) -> Origin | None:
        """Where it was written; ``None`` for a value from outside the configuration."""
        return self.node.origin if self.node else None

    def plain_value(self) -> YamlValue:
        """The value as ordinary maps, lists and scalars."""
        return plain_value(self.node) if self.node else cast("YamlValue", self.value)


def empty_text(_name: str, _origin: Origin | None) -> str:
    """Replace undefined variables by empty text, as BPS does."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Parameters of a search: current values, environment, and variables left free.

    Attributes
    ----------
    current
        BPS's current values. They have the highest precedence; ``curr_site`` and the like choose the part of a section
        that is searched.
    searchobj
        Searched next: a map, or a node that holds one.
    env
        Environment variables.
    expand_env
        Whether ``${X}`` is replaced by its value; wins over `replace_env`.
    keep_delayed
        Whether ``<ENV:X>`` stays for the job even so.
    replace_env
        Whether ``${X}`` becomes ``<ENV:X>``.
    free
        Names of variables that stay fields, even where the configuration defines them.
    undefined
        Handler of undefined variables.
    """

    current: Mapping[str, YamlValue] = field(default_factory=dict)
    searchobj: Mapping[str, YamlValue] | Node | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    expand_env: bool = True
    keep_delayed: bool = False
    replace_env: bool = False
    free: Collection[str] = ()
    undefined: UndefinedHandler = empty_text


DEFAULT_SCOPE: Final = Scope()
"""A search by the key alone."""


class Config:
    """A merged configuration, searchable by key.

    Parameters
    ----------
    root
        Result of `merge`.
    caller
        Calls the impure functions of ``bpsEval``; without it such calls stay as written.
    values
        Values with the highest precedence, like those of the section ``current``.
    """

    def __init__(
        self, root: Node, caller: FunctionCaller | None = None, values: Mapping[str, YamlValue] = NO_VALUES
    ) -> None:
        self.root = root
        self.caller = caller
        self.values = values
        self._top = map_items(root)
        self._current: Mapping[str, YamlValue] = {**plain_map(self.node_at("current")), **values}

    def __contains__(self, key: str) -> bool:
        """Whether a search without current values finds the key."""
        return self.lookup(key, DEFAULT_SCOPE) is not None

    def node_at(self, *path: str) -> Node | None:
        """The node at a path, without a search; ``None`` where the path does not exist."""
        node: Node | None = self.root
        for key in path:
            node = map_items(node).get(key)
        return node

    def lookup(self, key: str, scope: Scope) -> RawValue | None:
        """Find a key, and return its value as written."""
        if is_delimited(key):
            node = self.node_at(*key[1:].split(key[0]))
            return None if node is None else RawValue(node.value, node)
        for values in (scope.current, self._current):
            if key in values:
                return RawValue(values[key])
        if (hit := _lookup_in(scope.searchobj, key)) is not None:
            return hit
        for part in self.parts(scope.current):
            if (node := part.get(key)) is not None:
                return RawValue(node.value, node)
        return None

    def parts(self, current: Mapping[str, YamlValue]) -> Iterator[Mapping[str, Node]]:
        """The maps that are searched, strongest first and the root last."""
        for name in SECTIONS:
            section = self._top.get(name)
            if section is None:
                continue
            choice = current.get(f"curr_{name}", self._current.get(f"curr_{name}"))
            part = map_items(section).get(str(choice)) if choice else None
            yield map_items(section if part is None else part)
        yield self._top

    def search(self, key: str, scope: Scope = DEFAULT_SCOPE) -> SearchResult:
        """Find the value of a key in BPS's search order.

        A key that begins with a delimiter (``.payload.a``, ``/payload/a``) is a path, and is not searched for.

        Raises
        ------
        UndefinedVariableError
            Something required is not defined.
        ReferenceCycleError
            The value refers to itself.
        """
        hit = self.lookup(key, scope)
        if hit is None:
            return SearchResult(is_found=False, value="")
        value = Interpolator(self, scope).value(key, hit)
        return SearchResult(is_found=True, value=value, origin=hit.origin, node=hit.node)

    def template(self, key: str, scope: Scope) -> Template | None:
        """The text of a key, interpolated but for the free variables; ``None`` where the key is missing or null.

        Raises
        ------
        ConfigError
            The value is a list or a map.
        """
        hit = self.lookup(key, scope)
        if hit is None or hit.value is None:
            return None
        if isinstance(hit.value, list | dict):
            raise ConfigError(f"'{key}' must be text", origin=hit.origin)
        return Interpolator(self, scope).template(str(hit.value), hit.origin, name=key)

    def names(self, scope: Scope) -> set[str]:
        """Every name that a variable could have."""
        return {*scope.free, *scope.current, *(name for part in self.parts(scope.current) for name in part)}


class Interpolator:
    """Interpolates variables, each of them once per expander."""

    def __init__(self, config: Config, scope: Scope) -> None:
        self.config = config
        self.scope = scope
        self._parts_by_name: dict[str, Parts | RawValue | None] = {}
        self._active_names: dict[str, Origin | None] = {}

    def value(self, key: str, hit: RawValue) -> YamlValue:
        """The value of a hit: text with its variables substituted, anything else unchanged."""
        if not isinstance(hit.value, str):
            return hit.plain_value()
        text = parts_text(self.template(hit.value, hit.origin, name=key).parts)
        # BPS normalizes this path, because dimensions that a job lacks leave doubled slashes in it.
        return normalize_path(text, slash=hit.value.endswith("/")) if key == "subDirTemplate" else text

    def template(self, text: str, origin: Origin | None, *, name: str = "") -> Template:
        """Interpolate a text, but for the free variables.

        `name` is the key whose value the text is, so that a reference to itself is found.
        """
        if not name:
            return Template(self._parts(text, origin), origin)
        self._active_names[name] = origin
        parts = self._parts(text, origin)
        del self._active_names[name]
        return Template(parts, origin)

    def _parts(self, text: str, origin: Origin | None) -> Parts:
        text = rewrite_angled_env(text, self.scope.env)
        if self.scope.expand_env:
            text = expand_env(text, self.scope.env, delayed=not self.scope.keep_delayed)
        elif self.scope.replace_env:
            text = delay_env(text)
        parts: list[Part] = []
        size = 0
        for piece in self._pieces(text):
            new_parts = (piece,) if isinstance(piece, str) else self._substitute(piece, origin)
            parts.extend(new_parts)
            size += sum(len(part) if isinstance(part, str) else 1 for part in new_parts)
            if size > _MAX_LENGTH:
                raise ConfigError(f"the value is longer than {_MAX_LENGTH:,} characters", origin=origin)
        return self._evaluate_calls(join_parts(parts), origin)

    def _pieces(self, text: str) -> Iterator[Part]:
        """Literals and fields of a text; ``<name>`` is a field where that variable exists."""
        for piece in split_fields(text):
            if isinstance(piece, str) and "<" in piece:
                yield from split_angled(piece, self._is_variable)
            else:
                yield piece

    def _is_variable(self, name: str) -> bool:
        return name in self.scope.free or self.config.lookup(name, self.scope) is not None

    def _evaluate_calls(self, parts: Parts, origin: Origin | None) -> Parts:
        """The parts with function calls evaluated."""
        if not any(isinstance(part, str) and BPS_EVAL in part for part in parts):
            return parts
        fields = ", ".join(f"'{part.name}'" for part in parts if isinstance(part, Field))
        try:
            return join_parts(
                evaluate_calls(part, origin, self.config.caller) if isinstance(part, str) else part for part in parts
            )
        except ConfigError:
            if not fields:
                raise
            raise ConfigError(
                f"'{BPS_EVAL}' cannot wait for {fields}, which differs from job to job", origin=origin
            ) from None

    def _substitute(self, variable: Field, origin: Origin | None) -> Parts:
        name = variable.name
        if name in self.scope.free:
            return (variable,)
        found = self._lookup_variable(name, origin)
        if found is None:
            placeholder = wms_placeholder(name)
            return (self.scope.undefined(name, origin) if placeholder is None else placeholder,)
        if isinstance(found, RawValue):
            return (format_value(found.plain_value(), variable, origin),)
        if not variable.spec:
            return found
        if any(isinstance(part, Field) for part in found):
            raise ConfigError(f"'{variable}' cannot be formatted: its value differs from job to job", origin=origin)
        return (format_value("".join(map(str, found)), variable, origin),)

    def _lookup_variable(self, name: str, origin: Origin | None) -> Parts | RawValue | None:
        """Parts, a value that is not text, or ``None`` for an undefined variable."""
        if name in self._parts_by_name:
            return self._parts_by_name[name]
        if name in self._active_names:
            raise self._cycle_error(name)
        if len(self._active_names) >= _MAX_DEPTH:
            raise ConfigError(f"variables lead to variables more than {_MAX_DEPTH} deep at '{name}'", origin=origin)
        hit = self.config.lookup(name, self.scope)
        if hit is not None and isinstance(hit.value, str):
            self._active_names[name] = hit.origin
            self._parts_by_name[name] = self._parts(hit.value, hit.origin)
            del self._active_names[name]
        else:
            self._parts_by_name[name] = hit
        return self._parts_by_name[name]

    def _cycle_error(self, name: str) -> ReferenceCycleError:
        names = list(self._active_names)
        ring = [*names[names.index(name) :], name]
        return ReferenceCycleError(
            "a value is defined by itself: " + " -> ".join(f"'{each}'" for each in ring),
            origin=self._active_names[name],
        )


def is_delimited(key: str) -> bool:
    """Whether a key is a path: it begins with a delimiter."""
    return bool(key) and not key[0].isalnum() and key[0] != "_"


def normalize_path(path: str, *, slash: bool = False) -> str:
    """Normalize a path: no doubled slashes or dots, with or without a trailing slash."""
    tidy = posixpath.normpath(path)
    return f"{tidy}/" if slash and not tidy.endswith("/") else tidy


def _lookup_in(source: Mapping[str, YamlValue] | Node | None, key: str) -> RawValue | None:
    if isinstance(source, Node):
        node = map_items(source).get(key)
        return None if node is None else RawValue(node.value, node)
    return RawValue(source[key]) if source is not None and key in source else None
