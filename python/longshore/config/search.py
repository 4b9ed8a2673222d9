"""Looks up a key in BPS's search order; no other module knows that order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from longshore.config.interpolate import DEFAULT_SCOPE, FunctionCaller, Interpolator, RawValue, Scope
from longshore.config.merge import Node, map_items, plain_map, written_value
from longshore.config.templates import Template
from longshore.errors import ConfigError, Origin
from longshore.model.report import FINAL_LABEL
from longshore.model.values import YamlValue

# Sections whose parts set the requests of jobs; without other imports, as completion of keys needs them at once.


PART_SECTIONS: Final = ("pipetask", "cluster")
"""Sections with a part per label of a task, and per cluster."""


SECTIONS: Final = ("bps_cmdline", "payload", "cluster", "pipetask", "site", "cloud", "bps_defined")
"""Sections searched before the root; the first that has the key wins."""
LABEL_SECTIONS: Final = ("pipetask", "cluster", "site", "cloud")
"""Sections divided into parts, one for each label or name."""
INIT_LABEL: Final = "pipetaskInit"
"""Label of the init job, as in BPS."""
SPECIAL_LABELS: Final = {INIT_LABEL: "the init job ('runInit')", FINAL_LABEL: "the final job ('finalJob')"}
"""Labels of jobs without tasks. Sections and reports know these jobs by them."""

NO_VALUES: Final[Mapping[str, YamlValue]] = {}


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

    @property
    def as_written(self) -> YamlValue:
        """The value, with the texts of scalars that were written in another way."""
        return self.value if self.node is None or isinstance(self.value, str) else written_value(self.node)

    @property
    def text(self) -> str:
        """The value as text: a number and a truth value as they were written."""
        if self.node is not None and self.node.written and not isinstance(self.value, str):
            return self.node.written
        return "" if self.value is None else str(self.value)


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
        self._current: Mapping[str, YamlValue] = {
            **{key: written_value(node) for key, node in map_items(self.node_at("current")).items()},
            **values,
        }

    def __contains__(self, key: str) -> bool:
        """Whether a search without current values finds the key."""
        return self.lookup(key, DEFAULT_SCOPE) is not None

    def plain_values(self) -> dict[str, YamlValue]:
        """Return all values as ordinary maps, for plug-ins; keys that the command line names win over files."""
        return {**plain_map(self.root), **plain_map(self.node_at("bps_cmdline"))}

    def node_at(self, *path: str) -> Node | None:
        """The node at a path, without a search; ``None`` where the path does not exist."""
        node: Node | None = self.root
        for key in path:
            node = map_items(node).get(key)
        return node

    def labeled_parts(self) -> Iterator[tuple[str, Node]]:
        """Yield the parts of the sections ``pipetask`` and ``cluster``, each with its label."""
        for section in PART_SECTIONS:
            yield from map_items(self.node_at(section)).items()

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
        return Interpolator(self, scope).template(hit.text, hit.origin, name=key)

    def names(self, scope: Scope) -> set[str]:
        """Every name that a variable could have."""
        return {*scope.free, *scope.current, *(name for part in self.parts(scope.current) for name in part)}


def is_delimited(key: str) -> bool:
    """Whether a key is a path: it begins with a delimiter."""
    return bool(key) and not key[0].isalnum() and key[0] != "_"


def _lookup_in(source: Mapping[str, YamlValue] | Node | None, key: str) -> RawValue | None:
    if isinstance(source, Node):
        node = map_items(source).get(key)
        return None if node is None else RawValue(node.value, node)
    return RawValue(source[key]) if source is not None and key in source else None
