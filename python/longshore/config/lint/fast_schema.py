"""JSON Schema fast path: accepts most valid values quickly; a full validator must judge the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from longshore.model.values import JsonSchema, YamlValue

_TYPES: Final[Mapping[str, Callable[[YamlValue], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_ANNOTATIONS: Final = frozenset({"$schema", "$id", "$defs", "title", "description", "default", "examples", "$comment"})
_KEYWORDS: Final = frozenset({"$ref", "allOf", "type", "enum", "minimum", "maximum", "pattern", "minLength"}) | {
    "properties",
    "patternProperties",
    "additionalProperties",
    "items",
}


class FastSchema:
    """A schema whose references and conjunctions are resolved once.

    `whole` is a JSON Schema 2020-12 with local references only.
    """

    def __init__(self, schema_root: JsonSchema) -> None:
        self._schema = schema_root
        self._leaves: dict[int, list[JsonSchema] | None] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}

    def fits(self, value: YamlValue, schema: object = None) -> bool:
        """Whether the value is certainly valid; false also where this fast path cannot tell."""
        schema = self._schema if schema is None else schema
        if schema is True:
            return True
        leaves = self._find_leaves(schema) if isinstance(schema, dict) else None
        return leaves is not None and all(self._leaf_accepts(value, leaf) for leaf in leaves)

    def _find_leaves(self, schema: JsonSchema) -> list[JsonSchema] | None:
        """The schema and all schemas it refers to; ``None`` where one has a keyword unknown here."""
        if id(schema) not in self._leaves:
            found = list(self._iter_referenced(schema))
            is_supported = all(key in _KEYWORDS or key in _ANNOTATIONS for leaf in found for key in leaf)
            self._leaves[id(schema)] = found if is_supported else None
        return self._leaves[id(schema)]

    def _iter_referenced(self, schema: JsonSchema) -> Iterator[JsonSchema]:
        yield schema
        if "$ref" in schema:
            yield from self._iter_referenced(self._schema["$defs"][schema["$ref"].removeprefix("#/$defs/")])
        for each in schema.get("allOf", ()):
            yield from self._iter_referenced(each)

    def _leaf_accepts(self, value: YamlValue, leaf: JsonSchema) -> bool:
        types = leaf.get("type")
        if types is not None:
            names = (types,) if isinstance(types, str) else types
            if not any(_TYPES[name](value) for name in names):
                return False
        if "enum" in leaf and not (isinstance(value, str | None) and value in leaf["enum"]):
            return False
        if isinstance(value, str):
            return len(value) >= leaf.get("minLength", 0) and (
                "pattern" not in leaf or self._matches(leaf["pattern"], value)
            )
        if isinstance(value, dict):
            return self._map_accepts(value, leaf)
        if isinstance(value, list):
            return "items" not in leaf or all(self.fits(item, leaf["items"]) for item in value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return bool(leaf.get("minimum", value) <= value <= leaf.get("maximum", value))
        return True

    def _map_accepts(self, value: dict[str, YamlValue], leaf: JsonSchema) -> bool:
        properties, patterns = leaf.get("properties", {}), leaf.get("patternProperties", {})
        other_keys_schema = leaf.get("additionalProperties", True)
        for key, below in value.items():
            schemas = [schema for pattern, schema in patterns.items() if self._matches(pattern, key)]
            if key in properties:
                schemas.append(properties[key])
            if not all(self.fits(below, schema) for schema in schemas or [other_keys_schema]):
                return False
        return True

    def _matches(self, pattern: str, text: str) -> bool:
        if pattern not in self._patterns:
            self._patterns[pattern] = re.compile(pattern)
        return self._patterns[pattern].search(text) is not None
