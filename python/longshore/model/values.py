"""Types and numbers of YAML and JSON values, and regular expressions of users; apart, so that all can import them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, AnyStr, Final, TypeAlias

# Types of YAML and JSON values, and of JSON Schemas.


YamlValue: TypeAlias = "bool | int | float | str | list[YamlValue] | dict[str, YamlValue] | None"
"""An ordinary value of YAML: a scalar, or a list or a map of such values."""

JsonSchema: TypeAlias = Mapping[str, Any]
"""A JSON Schema, or a part of one."""


# Regular expressions of users: compiled by one function, with bounds on length and groups (decision 0068).


MAX_REGEX_LENGTH: Final = 4096
MAX_GROUPS: Final = 100
"""Opening parentheses of an expression; Python parses groups by recursion."""


class RegexError(ValueError):
    """A text is no regular expression, or exceeds a bound; `position` counts characters from 1, 0 if unknown."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason + (f" at character {position}" if position else ""))
        self.reason = reason
        self.position = position


@lru_cache(maxsize=256)
def compile_regex(text: AnyStr, *, multiline: bool = False) -> re.Pattern[AnyStr]:
    """Compile a regular expression; with `multiline`, ``^`` and ``$`` match at each line.

    Raises
    ------
    RegexError
        The text is invalid, too long, or has too many groups.
    """
    if len(text) > MAX_REGEX_LENGTH:
        raise RegexError(f"it has {len(text):,} characters, and at most {MAX_REGEX_LENGTH:,} are allowed")
    groups = sum(1 for sign in text if sign in {"(", ord("(")})
    if groups > MAX_GROUPS:
        raise RegexError(f"it has {groups:,} opening parentheses, and at most {MAX_GROUPS} are allowed")
    try:
        # Python warns of syntax that a later version may read otherwise, with a place in this module.
        with warnings.catch_warnings(action="ignore"):
            return re.compile(text, re.MULTILINE if multiline else 0)
    except re.error as error:
        raise RegexError(error.msg, 0 if error.pos is None else error.pos + 1) from error
    except (OverflowError, RecursionError, MemoryError) as error:
        raise RegexError(f"it is too large: {error}") from error


# Numbers that texts spell, and the order of values by their numbers.


_NUMBER: Final = re.compile(
    r"[-+]?(?:(?P<whole>[0-9][0-9_]*)|0[xX](?P<hex>[0-9a-fA-F_]+)|0[oO](?P<octal>[0-7_]+)|0[bB](?P<binary>[01_]+)"
    r"|(?:[0-9][0-9_]*)?\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+)",
    re.ASCII,
)
_MAX_DIGITS: Final = 300
"""Characters of a number: what is longer is an identifier, and Python does not write it out."""


def number_of(text: str) -> int | float | None:
    """The number that a text spells in YAML, JSON or a table; ``None`` for any other text.

    Digits may have underscores between them, and zeros in front, which mean nothing: ``010`` is ten, unlike in YAML
    1.1. ``0x``, ``0o`` and ``0b`` begin numbers of other bases.
    """
    # Most texts are words.
    if not text or text[0] not in "0123456789+-." or len(text) > _MAX_DIGITS:
        return None
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    if found["whole"]:
        return int(text.replace("_", ""))
    digits = text.replace("_", "").lower()
    try:
        if found.lastgroup:
            return int(digits, 0)
        number = float(digits)
    except ValueError:
        return None
    return number if abs(number) < math.inf else None


def value_order(value: object) -> tuple[int, float, str]:
    """Sort key of a value: numbers in numeric order, then other texts; equal numbers by their spelling."""
    text = str(value)
    number = value if isinstance(value, int | float) else number_of(text)
    # A number of more digits than a float holds is a text.
    return (1, 0.0, text) if number is None or not abs(number) < 1e300 else (0, number, text)
