"""Validates a merged configuration against its JSON Schema and returns all findings, in file order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import msgspec

from longshore.config.lint.fast_schema import FastSchema
from longshore.config.values.merge import PACKAGED_LAYERS, Node, map_items, plain_value
from longshore.config.values.quoting import is_placeholder, quote_node, quoting_hint
from longshore.config.values.templates import Field, angled_names, split_fields
from longshore.model.suggestions import did_you_mean, name_all
from longshore.model.values import JsonSchema
from longshore.model.wording import quote_value
from longshore.origin import Origin

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


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
    """

    message: str
    origin: Origin
    hint: str = ""
    severity: Severity = Severity.ERROR
    hidden: bool = False
    path: tuple[str, ...] = ()
    at_key: bool = False


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
        if error.validator == "additionalProperties":
            yield from _find_forbidden_keys(error, root, path)
            continue
        node = _node_at(root, path)
        hint = _hint(error, schema, node)
        yield Finding(message=_message(error, path, node), origin=node.origin, hint=hint, path=path)


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
    if is_placeholder(node):
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


def find_key_schema(path: Sequence[str], whole: JsonSchema) -> JsonSchema | None:
    """Return the schema of a key, given by the keys that lead to it; ``None`` if no schema names it."""
    schema: JsonSchema | None = whole
    for key in path:
        if schema is None:
            return None
        properties, others = _schema_keys(schema, whole)
        schema = properties.get(key, others)
    return schema


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
