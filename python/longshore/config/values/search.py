"""Finds the value of a key in BPS's search order and fills in the variables in it; nothing else knows that order."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

import msgspec

from longshore.config.values.bps_eval import WORD, Caller, worked_out
from longshore.config.values.interpolate import (
    Field,
    Part,
    Parts,
    Template,
    angled,
    delay_env,
    env_spelled_out,
    expand_env,
    format_value,
    joined,
    parse,
    with_fields_as_text,
    wms_placeholder,
)
from longshore.config.values.merge import Node, Value, plain, plain_map
from longshore.errors import ConfigError, ReferenceRingError
from longshore.model.values import YamlValue
from longshore.origin import Origin

SECTIONS: Final = ("bps_cmdline", "payload", "cluster", "pipetask", "site", "cloud", "bps_defined")
"""Sections that are looked into before the root, the first that has the key wins."""

NOTHING: Final[Mapping[str, YamlValue]] = {}
_DEEPEST = 100
_LONGEST = 1_000_000
"""Characters and fields of one value: variables that double each other reach any size in a few lines."""

Undefined: TypeAlias = Callable[[str, Origin | None], str]
"""What stands for a variable that nothing defines, by its name and the place that uses it; it may raise."""


class Found(msgspec.Struct, frozen=True):
    """Answer to a search.

    Attributes
    ----------
    found
        Whether the key has a value.
    value
        The value with its variables filled in; empty text where nothing was found.
    origin
        Where it was written, if it was written anywhere.
    written
        The value as written, with what it replaced, if it stands in the configuration.
    """

    found: bool
    value: YamlValue
    origin: Origin | None = None
    written: Node | None = None


class Hit(msgspec.Struct, frozen=True):
    """A value as it stands: a node of the configuration, or a plain one from elsewhere."""

    value: Value | YamlValue
    node: Node | None = None

    @property
    def origin(self) -> Origin | None:
        """Where it was written, if it was written anywhere."""
        return self.node.origin if self.node else None

    def plain(self) -> YamlValue:
        """The value as ordinary maps, lists and scalars."""
        return plain(self.node) if self.node else cast("YamlValue", self.value)


def empty(_name: str, _origin: Origin | None) -> str:
    """Let variables that nothing defines be empty, as BPS does."""
    return ""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a search goes by beside the configuration.

    Attributes
    ----------
    current
        BPS's current values. They win over all else; ``curr_site`` and the like choose the part of a section that is
        looked into.
    searchobj
        Looked into next: a map, or a node that holds one.
    env
        Environment variables.
    expand_env
        Whether ``${X}`` is replaced by its value; wins over `replace_env`.
    keep_delayed
        Whether ``<ENV:X>`` waits for the job all the same.
    replace_env
        Whether ``${X}`` becomes ``<ENV:X>``.
    free
        Names of variables that stay fields, whatever the configuration says.
    undefined
        What stands for variables that nothing defines.
    """

    current: Mapping[str, YamlValue] = field(default_factory=dict)
    searchobj: Mapping[str, YamlValue] | Node | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    expand_env: bool = True
    keep_delayed: bool = False
    replace_env: bool = False
    free: Collection[str] = ()
    undefined: Undefined = empty


ANYWHERE: Final = Scope()
"""A search by the key alone."""


class Config:
    """A merged configuration.

    Parameters
    ----------
    root
        What `merge` returned.
    caller
        What calls the functions of ``bpsEval`` that are not pure; without it such calls stay as they are written.
    values
        Values of names that win over all else, as those of the section ``current`` do.
    """

    def __init__(self, root: Node, caller: Caller | None = None, values: Mapping[str, YamlValue] = NOTHING) -> None:
        self.root = root
        self.caller = caller
        self.values = values
        self._top = _map_of(root)
        self._current: Mapping[str, YamlValue] = {**plain_map(self.at("current")), **values}

    def __contains__(self, key: str) -> bool:
        """Whether a search without current values finds the key."""
        return self.lookup(key, ANYWHERE) is not None

    def at(self, *path: str) -> Node | None:
        """The node at a place, without any search; ``None`` where there is none."""
        node = self.root
        for key in path:
            below = _map_of(node).get(key)
            if below is None:
                return None
            node = below
        return node

    def lookup(self, key: str, scope: Scope) -> Hit | None:
        """Find a key, and leave its value as it was written."""
        if is_delimited(key):
            node = self.at(*key[1:].split(key[0]))
            return None if node is None else Hit(node.value, node)
        for values in (scope.current, self._current):
            if key in values:
                return Hit(values[key])
        if (hit := _in_source(scope.searchobj, key)) is not None:
            return hit
        for part in self.parts(scope.current):
            if (node := part.get(key)) is not None:
                return Hit(node.value, node)
        return None

    def parts(self, current: Mapping[str, YamlValue]) -> Iterator[Mapping[str, Node]]:
        """The maps that are looked into, strongest first and the root last."""
        for name in SECTIONS:
            section = self._top.get(name)
            if section is None:
                continue
            choice = current.get(f"curr_{name}", self._current.get(f"curr_{name}"))
            part = _map_of(section).get(str(choice)) if choice else None
            yield _map_of(section) if part is None else _map_of(part)
        yield self._top

    def search(self, key: str, scope: Scope = ANYWHERE) -> Found:
        """Find the value of a key as BPS does.

        Parameters
        ----------
        key
            A plain key; or one that begins with a delimiter (``.payload.a``, ``/payload/a``), which names a place and
            is not searched for.
        scope
            What the search goes by.

        Raises
        ------
        UndefinedVariableError
            Something required is not there.
        ReferenceRingError
            The value is defined by itself.
        """
        hit = self.lookup(key, scope)
        if hit is None:
            return Found(found=False, value="")
        value = Expander(self, scope).value(key, hit)
        return Found(found=True, value=value, origin=hit.origin, written=hit.node)

    def template(self, key: str, scope: Scope) -> Template | None:
        """The text under a key with all variables filled in but the free ones; ``None`` where there is none, or null.

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
        return Expander(self, scope).template(str(hit.value), hit.origin, name=key)

    def names(self, scope: Scope) -> set[str]:
        """Every name that a variable could have."""
        return {*scope.free, *scope.current, *(name for part in self.parts(scope.current) for name in part)}


class Expander:
    """Fills in variables, each of them once.

    Parameters
    ----------
    config
        Where variables are looked up.
    scope
        What the search goes by.
    """

    def __init__(self, config: Config, scope: Scope) -> None:
        self.config = config
        self.scope = scope
        self._known: dict[str, Parts | Hit | None] = {}
        self._under_way: dict[str, Origin | None] = {}

    def value(self, key: str, hit: Hit) -> YamlValue:
        """The value of a hit: text with its variables filled in, anything else as it is."""
        if not isinstance(hit.value, str):
            return hit.plain()
        text = with_fields_as_text(self.template(hit.value, hit.origin, name=key).parts)
        # BPS tidies this one up, for dimensions that a job lacks leave doubled slashes in it.
        return tidy_path(text, slash=hit.value.endswith("/")) if key == "subDirTemplate" else text

    def template(self, text: str, origin: Origin | None, *, name: str = "") -> Template:
        """A text with all variables filled in but the free ones.

        Parameters
        ----------
        text
            As it was written.
        origin
            Where that was.
        name
            The key whose value it is, so that it cannot be defined by itself.
        """
        if not name:
            return Template(self._parts(text, origin), origin)
        self._under_way[name] = origin
        parts = self._parts(text, origin)
        del self._under_way[name]
        return Template(parts, origin)

    def _parts(self, text: str, origin: Origin | None) -> Parts:
        text = env_spelled_out(text, self.scope.env)
        if self.scope.expand_env:
            text = expand_env(text, self.scope.env, delayed=not self.scope.keep_delayed)
        elif self.scope.replace_env:
            text = delay_env(text)
        parts: list[Part] = []
        size = 0
        for piece in self._pieces(text):
            more = (piece,) if isinstance(piece, str) else self._filled(piece, origin)
            parts.extend(more)
            size += sum(len(part) if isinstance(part, str) else 1 for part in more)
            if size > _LONGEST:
                raise ConfigError(f"the value is longer than {_LONGEST:,} characters", origin=origin)
        return self._called(joined(parts), origin)

    def _pieces(self, text: str) -> Iterator[Part]:
        """Literals and fields of a text; ``<name>`` is a field where that variable exists."""
        for piece in parse(text):
            if isinstance(piece, str) and "<" in piece:
                yield from angled(piece, self._exists)
            else:
                yield piece

    def _exists(self, name: str) -> bool:
        return name in self.scope.free or self.config.lookup(name, self.scope) is not None

    def _called(self, parts: Parts, origin: Origin | None) -> Parts:
        """The parts with calls of functions worked out."""
        if not any(isinstance(part, str) and WORD in part for part in parts):
            return parts
        fields = ", ".join(f"'{part.name}'" for part in parts if isinstance(part, Field))
        try:
            return joined(
                worked_out(part, origin, self.config.caller) if isinstance(part, str) else part for part in parts
            )
        except ConfigError:
            if not fields:
                raise
            raise ConfigError(
                f"'{WORD}' cannot wait for {fields}, which differs from job to job", origin=origin
            ) from None

    def _filled(self, variable: Field, origin: Origin | None) -> Parts:
        name = variable.name
        if name in self.scope.free:
            return (variable,)
        found = self._variable(name, origin)
        if found is None:
            placeholder = wms_placeholder(name)
            return (self.scope.undefined(name, origin) if placeholder is None else placeholder,)
        if isinstance(found, Hit):
            return (format_value(found.plain(), variable, origin),)
        if not variable.spec:
            return found
        if any(isinstance(part, Field) for part in found):
            raise ConfigError(f"'{variable}' cannot be formatted: its value differs from job to job", origin=origin)
        return (format_value("".join(map(str, found)), variable, origin),)

    def _variable(self, name: str, origin: Origin | None) -> Parts | Hit | None:
        """What a variable stands for: parts of a text, a value that is no text, or nothing."""
        if name in self._known:
            return self._known[name]
        if name in self._under_way:
            raise self._ring(name)
        if len(self._under_way) >= _DEEPEST:
            raise ConfigError(f"variables lead to variables more than {_DEEPEST} deep at '{name}'", origin=origin)
        hit = self.config.lookup(name, self.scope)
        if hit is not None and isinstance(hit.value, str):
            self._under_way[name] = hit.origin
            self._known[name] = self._parts(hit.value, hit.origin)
            del self._under_way[name]
        else:
            self._known[name] = hit
        return self._known[name]

    def _ring(self, name: str) -> ReferenceRingError:
        names = list(self._under_way)
        ring = [*names[names.index(name) :], name]
        return ReferenceRingError(
            "a value is defined by itself: " + " -> ".join(f"'{each}'" for each in ring), origin=self._under_way[name]
        )


def is_delimited(key: str) -> bool:
    """Whether a key names a place, by the delimiter that it begins with."""
    return bool(key) and not key[0].isalnum() and key[0] != "_"


def tidy_path(path: str, *, slash: bool = False) -> str:
    """A path without doubled slashes and dots, with or without a slash at its end."""
    tidy = posixpath.normpath(path)
    return f"{tidy}/" if slash and not tidy.endswith("/") else tidy


def _map_of(node: Node) -> Mapping[str, Node]:
    return node.value if isinstance(node.value, dict) else {}


def _in_source(source: Mapping[str, YamlValue] | Node | None, key: str) -> Hit | None:
    if isinstance(source, Node):
        node = _map_of(source).get(key)
        return None if node is None else Hit(node.value, node)
    return Hit(source[key]) if source is not None and key in source else None
