"""Options of ``--backend-options``, by a table of a service (pure functions)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from longshore.errors import ConfigError, OptionHelpRequest

_WIDTH: Final = 19


class BackendOption(msgspec.Struct, frozen=True):
    """An option with a value: its short name if it has one, its long name, and the key that it stands for.

    `value` and `meaning` describe it to people.
    """

    short: str
    long: str
    key: str
    value: str
    meaning: str


def describe_options(head: str, options: Sequence[BackendOption]) -> str:
    """Return the help on options, behind a first line."""
    rows = [(option.short, f"{option.long}={option.value}", option.meaning) for option in options]
    names = ((f"{short}," if short else "", long, meaning) for short, long, meaning in (*rows, _HELP))
    return "\n".join([head, *(f"  {short:3} {long:{_WIDTH}}{meaning}" for short, long, meaning in names)])


_HELP: Final = ("-h", "--help", "this text")


def parse_options(text: str, options: Sequence[BackendOption], help_text: str) -> list[dict[str, str]]:
    """Parse a string of options into values by key: a map for each component, which a lone ``:`` parts.

    Raises `ConfigError` for an unknown option or a missing value, and `OptionHelpRequest` where help is requested.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the options of the back end cannot be split into words: {text!r}: {error}") from error
    keys = {name: option.key for option in options for name in (option.short, option.long) if name}
    components: list[dict[str, str]] = [{}]
    rest = iter(words)
    for word in rest:
        if word == ":":
            components.append({})
            continue
        if word in _HELP:
            raise OptionHelpRequest(help_text)
        option, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        if option not in keys:
            raise ConfigError(f"there is no option '{word}' of the back end", hint=help_text)
        if not equals:
            value = next(rest, "")
        if not value:
            raise ConfigError(f"the option '{option}' of the back end needs a value")
        components[-1][keys[option]] = value
    return components
