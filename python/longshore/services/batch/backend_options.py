"""Options of a workload manager in one string, apart because the services have tables of their own and one syntax."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from longshore.errors import ConfigError, OptionHelpRequest

_WIDTH: Final = 19
_HELP: Final = ("-h", "--help", "this text")


class BackendOption(msgspec.Struct, frozen=True):
    """An option: its short name if it has one, its long name if it has one, and the key that it stands for.

    `value` and `meaning` describe it to people; an option without a value is a flag.
    """

    short: str
    long: str
    key: str
    value: str
    meaning: str


def describe_options(head: str, options: Sequence[BackendOption]) -> str:
    """Return the help on options, behind a first line."""
    rows = [(*_names(option), option.meaning) for option in options]
    names = ((f"{short}," if short else "", long, meaning) for short, long, meaning in (*rows, _HELP))
    return "\n".join([head, *(f"  {short:3} {long:{_WIDTH}}{meaning}" for short, long, meaning in names)])


def _names(option: BackendOption) -> tuple[str, str]:
    """Return the short and the long name as people write them; one that is alone is written as a long one."""
    if option.long:
        return option.short, f"{option.long}={option.value}"
    return "", f"{option.short} {option.value}".rstrip()


def parse_options(text: str, options: Sequence[BackendOption], help_text: str) -> list[dict[str, list[str]]]:
    """Parse a string of options into values by key: a map for each component, which a lone ``:`` parts.

    A flag has an empty value. Raises `ConfigError` for an unknown option or a missing value, and `OptionHelpRequest`
    where help is requested.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"the options of the back end cannot be split into words: {text!r}: {error}") from error
    known = {name: option for option in options for name in (option.short, option.long) if name}
    components: list[dict[str, list[str]]] = [{}]
    rest = iter(words)
    for word in rest:
        if word == ":":
            components.append({})
            continue
        if word in _HELP:
            raise OptionHelpRequest(help_text)
        name, equals, value = word, "", ""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
        elif word not in known and known.get(word[:2], _NONE).long:
            # The value of an option that also has a long name may follow without a blank: -c4.
            name, equals, value = word[:2], word[2:], word[2:]
        if name not in known:
            raise ConfigError(f"there is no option '{word}' of the back end", hint=help_text)
        if known[name].value:
            value = value if equals else next(rest, "")
            if not value:
                raise ConfigError(f"the option '{name}' of the back end needs a value")
        components[-1].setdefault(known[name].key, []).append(value)
    return components


_NONE: Final = BackendOption("", "", "", "", "")
