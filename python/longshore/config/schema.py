"""Validates a merged configuration against its JSON Schema, and names the keys that the schema knows at a place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from longshore.config.keys import PROFILE, USERS
from longshore.config.merge import PACKAGED_LAYERS, Node, map_items, plain_value
from longshore.config.quantities import is_placeholder, quote_node, quoting_hint
from longshore.config.site_keys import TABLE
from longshore.config.templates import Field, angled_names, split_fields
from longshore.errors import ConfigError, Origin
from longshore.model.values import JsonSchema, YamlValue
from longshore.model.wording import did_you_mean, name_all, quote_value

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

# Names the keys and values that a schema of configurations knows at a place, for shell completion.


Schema: TypeAlias = Mapping[str, Any]

_REFERENCE: Final = "#/$defs/"
PROFILE_ONLY_KEYS: Final = frozenset(row.name for row in TABLE.level(PROFILE) if "." not in row.name)
"""Keys about the profile itself, or that users cannot override; they enter no layer."""

RENAMED_KEYS: Final = {row.name: row.bps for row in TABLE.rows if isinstance(row.bps, str)}
"""Keys of a profile that are defaults of keys with another name in BPS."""


class KnownKey(NamedTuple):
    """A key that a schema knows.

    Attributes
    ----------
    name
        The key, without the sections that it is in.
    description
        The first sentence of its description.
    is_section
        Whether it has keys of its own.
    is_value
        Whether it may be something else than a map.
    """

    name: str
    description: str
    is_section: bool
    is_value: bool


def find_keys(schema: Schema, path: Sequence[str]) -> Iterator[KnownKey]:
    """Yield the keys that a schema knows in a section, each once, in the order of the schema."""
    seen: set[str] = set()
    for entry in _entries_at(schema, path):
        for name in entry.get("properties", {}):
            if name not in seen:
                seen.add(name)
                yield _known_key(schema, [*path, name])


def find_choices(schema: Schema, path: Sequence[str]) -> Iterator[str]:
    """Yield the values that a schema allows for a key, as written in YAML; none where any value of a type may stand."""
    for entry in _entries_at(schema, path):
        yield from map(_written, entry.get("enum", ()))
        if "boolean" in _types(entry):
            yield from ("true", "false")


def takes_names(schema: Schema, path: Sequence[str]) -> bool:
    """Whether a section has keys with names of the user's choice, such as labels."""
    return any(isinstance(entry.get("additionalProperties"), dict) for entry in _entries_at(schema, path))


def _known_key(schema: Schema, path: Sequence[str]) -> KnownKey:
    entries = list(_entries_at(schema, path))
    text = next((entry["description"] for entry in entries if entry.get("description")), "")
    types = {kind for entry in entries for kind in _types(entry)}
    is_section = any(
        entry.get("properties") or isinstance(entry.get("additionalProperties"), dict) for entry in entries
    )
    return KnownKey(
        name=path[-1],
        description=text.partition(". ")[0].removesuffix("."),
        is_section=is_section,
        is_value=not is_section or not types <= {"object", "null"} or any("enum" in entry for entry in entries),
    )


def _entries_at(schema: Schema, path: Sequence[str]) -> Iterator[Schema]:
    """Yield the parts of a schema that describe the value at a path."""
    entries: list[Schema] = list(_parts(schema, schema))
    for name in path:
        below = [each for entry in entries if (each := _below(entry, name)) is not None]
        entries = [part for each in below for part in _parts(schema, each)]
    yield from entries


def _below(entry: Schema, name: str) -> Schema | None:
    found = entry.get("properties", {}).get(name, entry.get("additionalProperties"))
    return found if isinstance(found, dict) else None


def _parts(schema: Schema, entry: Schema) -> Iterator[Schema]:
    """Yield an entry and the entries that it is composed of."""
    yield entry
    name = str(entry.get("$ref", "")).removeprefix(_REFERENCE)
    if name in schema.get("$defs", {}):
        yield from _parts(schema, schema["$defs"][name])
    for word in ("allOf", "anyOf", "oneOf"):
        for each in entry.get(word, ()):
            yield from _parts(schema, each)


def _types(entry: Schema) -> Iterable[str]:
    kinds = entry.get("type", ())
    return (kinds,) if isinstance(kinds, str) else kinds


def _written(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


# JSON Schema fast path: accepts most valid values quickly; a full validator must judge the others.


_TYPES: Final[Mapping[str, Callable[[YamlValue], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_ANNOTATIONS: Final = frozenset(
    {"$schema", "$id", "$defs", "title", "description", "default", "examples", "$comment", "x-unit", USERS}
)
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


# Validates a merged configuration against its JSON Schema and returns all findings, in file order.


class Severity(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    """The run cannot be submitted."""
    WARNING = "warning"
    """A likely mistake; the run can be submitted."""
    NOTE = "note"
    """Probably intended; shown by ``config lint`` only."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An error, warning or note about the configuration.

    Attributes
    ----------
    hidden
        Whether its line must not be shown.
    path
        Keys that lead to its value, if it is about one value. Values that are in no file have no other place.
    at_key
        Whether it is about the last of these keys, and not about the value.
    told
        Whether a submission tells it too, although it is a note.
    code
        Kind of an error (`longshore.errors.LongshoreError.code`), by which its exit status is that of a submission.
    """

    message: str
    origin: Origin
    hint: str = ""
    severity: Severity = Severity.ERROR
    code: str = ConfigError.code
    hidden: bool = False
    path: tuple[str, ...] = ()
    at_key: bool = False
    told: bool = False


def key_name(path: Iterable[str]) -> str:
    """Dotted name of a key in messages, without the section of ``--set key=value``."""
    return ".".join(step for step in path if step != "bps_cmdline")


def check_schema(root: Node, schema: JsonSchema) -> list[Finding]:
    """Validate a merged configuration, or one layer; return errors and suspicious keys.

    `schema` is a JSON Schema 2020-12 with local references only.
    """
    errors = list(_find_schema_errors(root, schema))
    reported = {finding.path for finding in errors if finding.at_key}
    misspelled = (finding for finding in _find_misspelled_keys(root, schema) if finding.path not in reported)
    findings = [*errors, *_find_deprecated_keys(root), *misspelled]
    return sorted(findings, key=lambda finding: (finding.origin.file, finding.origin.line, finding.origin.column))


# ------------------------------------------------------------------------------------------------------- the schema


def _find_schema_errors(root: Node, schema: JsonSchema) -> Iterator[Finding]:
    values = plain_value(root)
    if FastSchema(schema).fits(values):
        return
    from jsonschema import Draft202012Validator  # 50 ms, saved for a valid configuration

    for error in Draft202012Validator(schema).iter_errors(values):
        path = tuple(map(str, error.absolute_path))
        if error.validator == "type" and _has_fitting_text(error, _node_at(root, path)):
            continue
        if error.validator == "additionalProperties":
            yield from _find_forbidden_keys(error, root, path)
            continue
        node = _node_at(root, path)
        hint = _hint(error, schema, node)
        yield Finding(message=_message(error, path, node), origin=node.origin, hint=hint, path=path)


def _has_fitting_text(error: ValidationError, node: Node) -> bool:
    """Whether a text is asked for where a number or a truth value stands, whose text will do."""
    types: Any = error.validator_value
    rule: Any = error.schema
    return "string" in types and node.has_text and re.search(rule.get("pattern", ""), node.text) is not None


def _find_forbidden_keys(error: ValidationError, root: Node, path: tuple[str, ...]) -> Iterator[Finding]:
    """An error for each unknown key of a map that allows certain keys only."""
    known: JsonSchema = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    for key in cast("dict[str, object]", error.instance):
        if key not in known:
            yield Finding(
                message=f"nothing knows the key '{key_name((*path, key))}'",
                origin=_node_at(root, (*path, key)).origin,
                hint=did_you_mean(key, known) or name_all(known),
                path=(*path, key),
                at_key=True,
            )


def _message(error: ValidationError, path: Sequence[str], node: Node) -> str:
    """Message for a validation error: Longshore's, or else the validator's."""
    key = key_name(path)
    rule: Any = error.validator_value
    found = quote_value(
        (node.written or str(error.instance).lower()) if isinstance(error.instance, bool) else error.instance
    )
    if is_placeholder(node) or node.value is None:
        found = quote_node(node)
    match error.validator:
        case "type":
            return f"'{key}' must be {_type_names(rule)}, not {found}"
        case "enum":
            return f"'{key}' must be one of {', '.join(str(each) for each in rule if each is not None)}, not {found}"
        case "minimum" | "exclusiveMinimum":
            return f"'{key}' must be {'more than' if error.validator[0] == 'e' else 'at least'} {rule}, not {found}"
        case "maximum" | "exclusiveMaximum":
            return f"'{key}' must be {'less than' if error.validator[0] == 'e' else 'at most'} {rule}, not {found}"
        case "pattern":
            return f"'{key}' cannot be {found}"
        case "required":
            return f"'{key}' lacks {error.message.split(' is a required')[0]}"
        case _:
            return f"'{key}': {error.message[:200]}"


_TYPE_NAMES: Mapping[str, str] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}


def _type_names(types: str | Sequence[str]) -> str:
    """Names of JSON types for a message; null, which unsets any key, is left out."""
    return " or ".join(_TYPE_NAMES[name] for name in ([types] if isinstance(types, str) else types) if name != "null")


def _hint(error: ValidationError, schema: JsonSchema, node: Node) -> str:
    """The schema's description of the key, or of the nearest key above it."""
    types: Any = error.validator_value
    if isinstance(error.instance, bool) and error.validator == "type" and "string" in types:
        return f'Quote it if the word is meant: "{node.written or str(error.instance).lower()}".'
    if error.validator == "type" and "string" in types and is_placeholder(node):
        return quoting_hint(node)
    described = ""
    subschema: Any = schema
    for step in error.absolute_schema_path:
        while isinstance(subschema, dict) and step not in subschema and "$ref" in subschema:  # these paths omit `$ref`
            subschema = schema["$defs"][subschema["$ref"].removeprefix("#/$defs/")]
            described = subschema.get("description", described)
        subschema = subschema[step]
        if isinstance(subschema, dict):
            described = subschema.get("description", described)
    return str(described)


def _node_at(root: Node, path: Iterable[str]) -> Node:
    """The value at a path."""
    node = root
    for step in path:
        # A path leads through maps and lists only.
        node = node.value[step] if isinstance(node.value, dict) else cast("list[Node]", node.value)[int(step)]
    return node


# --------------------------------------------------------------------------------------- checks beyond the schema


def _find_deprecated_keys(root: Node) -> Iterator[Finding]:
    for path in ((), ("payload",), ("bps_cmdline",)):
        section = map_items(root).get(path[0]) if path else root
        if (node := map_items(section).get("outCollection")) is not None:
            yield Finding(
                message="'outCollection' is deprecated. Replace all references to it with 'outputRun'",
                origin=node.origin,
                hint="Use 'outputRun'.",
                path=(*path, "outCollection"),
                at_key=True,
            )


def _find_misspelled_keys(root: Node, schema: JsonSchema) -> Iterator[Finding]:
    """Unknown keys that nothing uses as a variable and that resemble known ones."""
    suspects = list(find_unknown_keys(root, schema, schema))
    if not suspects:
        return
    used_names = set(variable_names(root))
    for path, node, known in suspects:
        # Any key may be a user's variable, so warn only of keys very near a known one.
        if path[-1] not in used_names and (guess := did_you_mean(path[-1], known, likeness=0.85)):
            yield Finding(
                message=f"nothing knows the key '{key_name(path)}'",
                origin=node.origin,
                hint=guess,
                severity=Severity.WARNING,
                path=path,
                at_key=True,
            )


def find_unknown_keys(
    node: Node, schema: JsonSchema, whole: JsonSchema, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Node, set[str]]]:
    """Keys of a map, at any depth, that the schema does not define, with the keys it defines instead."""
    if not isinstance(node.value, dict):
        return
    properties, others = _schema_keys(schema, whole)
    for key, item in node.value.items():
        if f"{key.rstrip('0123456789')}1" in properties:
            # One of a series, such as command2: the schema names the first.
            continue
        if key in properties:
            yield from find_unknown_keys(item, properties[key], whole, (*path, key))
        elif others is not None:
            yield from find_unknown_keys(item, others, whole, (*path, key))
        elif properties and item.origin.layer not in PACKAGED_LAYERS:
            yield (*path, key), item, set(properties)


def find_keys_of_users(
    node: Node, schema: JsonSchema, whole: JsonSchema, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Node, Sequence[str]]]:
    """Keys of a map, at any depth, that only some services use, with these users; a map before the keys in it."""
    if not isinstance(node.value, dict):
        return
    properties, others = _schema_keys(schema, whole)
    for key, item in node.value.items():
        entry = properties.get(key, others)
        if entry is None:
            continue
        if USERS in entry:
            yield (*path, key), item, entry[USERS]
        yield from find_keys_of_users(item, entry, whole, (*path, key))


def find_key_schema(path: Sequence[str], whole: JsonSchema) -> JsonSchema | None:
    """Return the schema of a key, given by the keys that lead to it; ``None`` if no schema names it."""
    schema: JsonSchema | None = whole
    for key in path:
        if schema is None:
            return None
        properties, others = _schema_keys(schema, whole)
        schema = properties.get(key, others)
    return schema


def takes_number(path: Sequence[str], whole: JsonSchema) -> bool:
    """Tell whether the value of a key is a number or a truth value, however it is spelled, and no text."""
    entry = find_key_schema(path, whole)
    return entry is not None and _takes_number(entry)


def _takes_number(entry: JsonSchema) -> bool:
    kinds = set(_types(entry))
    # Texts that may look like numbers have no pattern.
    return not kinds.isdisjoint({"integer", "number", "boolean"}) and ("string" not in kinds or "pattern" in entry)


def setting_value(node: Node, entry: JsonSchema | None, whole: JsonSchema) -> YamlValue:
    """The value of a setting: the text of a scalar as it was written, unless its schema has numbers or truth values.

    `entry` is the schema of the setting in `whole`; what no schema knows is a text, but for truth values.
    """
    if isinstance(node.value, dict):
        properties, others = _schema_keys(entry, whole) if entry else ({}, None)
        return {key: setting_value(item, properties.get(key, others), whole) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [setting_value(item, (entry or {}).get("items"), whole) for item in node.value]
    kinds = set(_types(entry)) if entry else set()
    if not node.has_text or isinstance(node.value, str):
        return plain_value(node)
    if "string" in kinds and kinds.isdisjoint({"integer", "number", "boolean"}):
        return node.text
    is_typed = _takes_number(entry) if entry and kinds else isinstance(node.value, bool)
    return plain_value(node) if is_typed else node.as_written


def keys_of_schema(schema: JsonSchema, whole: JsonSchema) -> tuple[str, ...]:
    """Return the keys that the schema of a map names."""
    return tuple(_schema_keys(schema, whole)[0])


def _schema_keys(schema: JsonSchema, whole: JsonSchema) -> tuple[dict[str, JsonSchema], JsonSchema | None]:
    """The schema per key that a schema names, and the schema of all other keys if it has one."""
    properties: dict[str, JsonSchema] = {}
    others: JsonSchema | None = None
    for each in (schema, *schema.get("allOf", ())):
        if "$ref" in each:
            more_properties, more_others = _schema_keys(whole["$defs"][each["$ref"].removeprefix("#/$defs/")], whole)
            properties |= more_properties
            others = others or more_others
        properties |= each.get("properties", {})
        if isinstance(each.get("additionalProperties"), dict):
            others = each["additionalProperties"]
    return properties, others


_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def variable_names(node: Node) -> Iterator[str]:
    """Every name that some text uses as a variable."""
    if isinstance(node.value, str):
        if "{" in node.value:
            for part in split_fields(node.value):
                if isinstance(part, Field):
                    yield from _IDENTIFIER.findall(part.name)
        if "<" in node.value:
            yield from (name for name, _ in angled_names(node.value, {}))
    elif isinstance(node.value, dict | list):
        below = node.value.values() if isinstance(node.value, dict) else node.value
        yield from chain.from_iterable(map(variable_names, below))
