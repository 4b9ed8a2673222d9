"""Types of values of YAML and JSON, and regular expressions of users; apart, so that everything can import them."""

from __future__ import annotations

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
