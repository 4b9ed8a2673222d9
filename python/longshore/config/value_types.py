"""What the value of a key may be: its name for people, its JSON Schema, and the unit of a number without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]
"""JSON Schema that can be extended."""


class ValueType(msgspec.Struct, frozen=True):
    """What the value of a key may be.

    Attributes
    ----------
    name
        Its name for people, such as ``whole number``; empty where a value of any kind may stand, which is checked
        where it is read.
    schema
        Its JSON Schema. Every key but few takes null, which unsets it.
    unit
        Unit of a number without one; empty for none.
    """

    name: str
    schema: Mapping[str, Any]
    unit: str = ""


_VARIABLE: Final = "[{$]|bpsEval"
"""Pattern of a text whose value is known after interpolation only."""
_ARITHMETIC: Final = r"[{$*/%+(]|\s-|-\s|bpsEval"
"""The same for texts that may be arithmetic."""
_NUMBER: Final = r"^\s*[0-9.]+\s*$|"
_WHOLE: Final = r"^\s*[0-9]+\s*$|"
_SIZE: Final = r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kKmMgGtTpPeE]?i?)[bB]?\s*$|"
_TIME: Final = r"^\s*[0-9]+(\.[0-9]*)?\s*$|^\s*([0-9]+-)?[0-9]+(:[0-5]?[0-9]){0,2}\s*$|^\s*([0-9.]+\s*[dhmsDHMS]\s*)+$|"
_NONEMPTY: Final[Schema] = {"type": "string", "minLength": 1}


def _kinds(*kinds: str, **more: Any) -> Schema:
    """Return the schema of a value of some JSON types, or null."""
    return {"type": [*kinds, "null"], **more}


def choice(*words: str) -> ValueType:
    """Return the type of one of some words."""
    return ValueType(", ".join(f"`{word}`" for word in words), {"enum": [*words, None]})


def flag_or(word: str) -> ValueType:
    """Return the type of true, false or one word."""
    return ValueType(
        f"`true`, `false` or `{word}`",
        _kinds("boolean", "string", pattern=f"^([Tt]rue|[Ff]alse|{word})$|{_VARIABLE}"),
    )


def whole(least: int, most: int) -> ValueType:
    """Return the type of a whole number in a range, both ends included."""
    return ValueType(f"whole number from {least} to {most}", _kinds("integer", minimum=least, maximum=most))


OPEN: Final = ValueType("", {})
TEXT: Final = ValueType("text", _kinds("string", "number"))
STRING: Final = ValueType("text", _kinds("string"))
"""Text that is no number: where YAML reads a number, quotes are missing."""
NONEMPTY: Final = ValueType("text", _kinds("string", minLength=1))
PLAIN_STRING: Final = ValueType("text", {"type": "string"})
"""Text, which nothing can unset."""
PLAIN_NONEMPTY: Final = ValueType("text", _NONEMPTY)
SCALAR: Final = ValueType("text, number, or true or false", _kinds("string", "number", "boolean"))
TEXTS: Final = ValueType("text or list", _kinds("string", "number", "array", items={"type": ["string", "number"]}))
STRINGS: Final = ValueType("text or list", _kinds("string", "array", items={"type": "string"}))
TEXT_OR_LIST: Final = ValueType("text or list", _kinds("string", "array"))
COMMAND: Final = ValueType("text or list", _kinds("string", "array", items={"type": ["string", "number"]}))
SITES: Final = ValueType("text or list", _kinds("string", "number", "array", items=_NONEMPTY))
LINES: Final = ValueType("list", _kinds("array", items=_NONEMPTY))
LIST: Final = ValueType("list", _kinds("array"))
RAW_LINES: Final = ValueType("text or list", {})
"""Options in the syntax of a workload manager; they are checked where they are read."""
SIGNALS: Final = ValueType("list, text or whole number", _kinds("array", "string", "integer"))

SWITCH: Final = ValueType("true or false", _kinds("boolean"))
FLAG: Final = ValueType("true or false", _kinds("boolean", "string", pattern=f"^([Tt]rue|[Ff]alse)$|{_VARIABLE}"))
"""True or false, or a text that is one after interpolation."""

INTEGER: Final = ValueType("whole number", _kinds("integer"))
NATURAL: Final = ValueType("whole number", _kinds("integer", minimum=0))
POSITIVE: Final = ValueType("whole number above 0", _kinds("integer", minimum=1))
COUNT: Final = ValueType("whole number", _kinds("integer", "string", minimum=0, pattern=_WHOLE + _VARIABLE))
POSITIVE_COUNT: Final = ValueType(
    "whole number above 0", _kinds("integer", "string", minimum=1, pattern=_WHOLE + _VARIABLE)
)
CPUS_REQUEST: Final = ValueType(
    "whole number above 0", _kinds("integer", "string", minimum=1, pattern=_WHOLE + _ARITHMETIC), "processors"
)
WHOLE_OR_TEXT: Final = ValueType("whole number or text", _kinds("integer", "string"))
EXIT_CODES: Final = ValueType(
    "whole number or list",
    _kinds("integer", "array", minimum=0, maximum=255, items={"type": "integer", "minimum": 0, "maximum": 255}),
)
FACTOR: Final = ValueType("number", _kinds("number", "string", minimum=0, pattern=_NUMBER + _VARIABLE))
MULTIPLIER: Final = ValueType("number", _kinds("number", "string"))
GROWTH: Final = ValueType("number above 0", _kinds("number", exclusiveMinimum=0))
SLOTS: Final = ValueType("number from 1", _kinds("number", "string", minimum=1, pattern=_NUMBER + _VARIABLE))

SIZE: Final = ValueType("amount", _kinds("number", "string"), "MB")
SIZE_LIMIT: Final = ValueType("amount", _kinds("number", "string", minimum=0), "MB")
MEMORY: Final = ValueType("amount", _kinds("number", "string", minimum=0, pattern=_SIZE + _VARIABLE), "MB")
MEMORY_REQUEST: Final = ValueType("amount", _kinds("number", "string", minimum=0, pattern=_SIZE + _ARITHMETIC), "MB")
GRACE: Final = ValueType("share or amount", _kinds("number", "string"), "MB")
DURATION: Final = ValueType("time", _kinds("number", "string"), "s")
DURATION_LIMIT: Final = ValueType("time", _kinds("number", "string", minimum=0), "s")
WALLTIME: Final = ValueType("time", _kinds("number", "string", minimum=0, pattern=_TIME + _VARIABLE), "s")
WALLTIME_REQUEST: Final = ValueType("time", _kinds("number", "string", minimum=0, pattern=_TIME + _ARITHMETIC), "s")
SECONDS: Final = ValueType("number", _kinds("number", "string", minimum=0, pattern=_NUMBER + _VARIABLE), "s")
COUNT_S: Final = ValueType(COUNT.name, COUNT.schema, "s")
RATE: Final = ValueType("rate", _kinds("number", "string", minimum=0), "per second")

UMASK: Final = ValueType("text of octal digits", _kinds("string", pattern="^0?[0-7]{3}$"))
PACKING: Final = ValueType("`job`, `pilot` or `auto`", _kinds("string", pattern=f"^(job|pilot|auto)$|{_VARIABLE}"))
INHERITED: Final = ValueType(
    "`all`, `none` or list", {"anyOf": [{"enum": ["all", "none", None]}, {"type": "array", "items": _NONEMPTY}]}
)

MAP: Final = ValueType("map", _kinds("object"))
CLOSED_MAP: Final = ValueType("map", _kinds("object", additionalProperties=False))
"""A map with no other keys than those of its rows."""
FREE_MAP: Final = ValueType("map", _kinds("object", additionalProperties={}))
"""A map with any keys beside those of its rows, for another program."""
MAP_OR_TEXT: Final = ValueType("map or text", _kinds("object", "string"))
MAP_LIST_OR_TEXT: Final = ValueType("list, map or text", _kinds("array", "object", "string"))
MAPS: Final = ValueType("list of maps", _kinds("array"))
"""A list of maps with no other keys than those of its rows."""
CLOSED_MAP_OR_TEXT: Final = ValueType("map or text", _kinds("string", "object", additionalProperties=False))


def map_of(values: ValueType) -> ValueType:
    """Return the type of a map whose values all have one type."""
    return ValueType(f"map of {values.name}s", _kinds("object", additionalProperties=values.schema))


TEXTS_BY_NAME: Final = map_of(TEXT)
STRINGS_BY_NAME: Final = map_of(STRING)
ENVIRONMENT: Final = ValueType("map of texts", _kinds("object", additionalProperties=SCALAR.schema))
COUNTS_BY_NAME: Final = map_of(COUNT)
LIMITS_BY_NAME: Final = ValueType(
    "map of numbers", _kinds("object", additionalProperties=_kinds("number", "string", minimum=1))
)
NATURALS_BY_NAME: Final = map_of(NATURAL)
JOBS_BY_NAME: Final = ValueType(
    "map of whole numbers", _kinds("object", additionalProperties={"type": "integer", "minimum": 1})
)
FACTS: Final = ValueType(
    "map of numbers and texts", _kinds("object", additionalProperties={"type": ["number", "string"]})
)
POOL: Final = ValueType(
    "map of numbers and lists",
    _kinds(
        "object",
        additionalProperties=_kinds(
            *("number", "string", "array"),
            minimum=0,
            pattern=_NUMBER + _VARIABLE,
            items={"type": ["integer", "string"], "pattern": "^[A-Za-z0-9_.:/-]+$"},
        ),
    ),
)
"""Resources of a machine: an amount of each, or the names of its devices."""
