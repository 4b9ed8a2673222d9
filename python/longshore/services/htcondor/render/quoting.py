"""Quotes words, variables and texts so that HTCondor's parsers return them unchanged.

A job's arguments and environment pass several parsers: of DAG files, of macros in submit descriptions, of arguments
and environments, and the schedd's, which expands ``$$``. Each has its own special characters. Text that cannot pass
them all is packed into safe characters, and unpacked by a shell in the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./~^*?!#&;|<>{}\[\]-]+", re.ASCII)
"""Characters without a meaning to any of the parsers, within a word."""
_MACRO: Final = re.compile(r"(\$[\w$]*)\(", re.ASCII)
"""Start of a macro: a dollar sign, perhaps the name of a function, and a parenthesis."""
_UNQUOTABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|\$\$\(")
"""Control characters that no line can contain, and ``$$(``, which the schedd always expands."""
_HIDDEN: Final = re.compile(r'[\x00-\x1f\x7f$\\"]')
_PRINTF: Final = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_PACKED: Final = re.compile(r"[\\\x00-\x1f\x7f]|\$(?=\$*\()")

UNPACK: Final = 'exec /bin/sh -c "$(printf %b "$0")"'
"""Shell command that runs a packed line; trailing line feeds, without a meaning there, are lost."""


ATTEMPT: Final = "\ufdd0"
"""Stands for the number of an attempt while the text around it is quoted: it cannot be split, and is in no text."""


def is_quotable(text: str) -> bool:
    """Whether a text can be an argument, or the value of a variable, without packing."""
    return _UNQUOTABLE.search(text) is None


def quote_word(text: str) -> str:
    """A word of arguments in HTCondor's own syntax, for texts that `is_quotable`.

    At the start of a macro, the parenthesis goes outside the quotes: then it is no macro, but the same word.
    """
    if PLAIN.fullmatch(text):
        return text
    quoted = "'" + text.replace("'", "''") + "'"
    return _MACRO.sub(r"\1'('", quoted) if "$" in text else quoted


def quote_arguments(words: Iterable[str]) -> str:
    """Arguments in HTCondor's own syntax, without the outer quotes."""
    return " ".join(map(quote_word, words))


def quote_environment(variables: Mapping[str, str]) -> str:
    """Variables in HTCondor's own syntax, without the outer quotes, in the order given."""
    return " ".join(f"{name}={quote_word(value) if value else ''}" for name, value in variables.items())


def escape_description(text: str) -> str:
    """Escape a text for a double-quoted value in a submit description."""
    return text.replace('"', '""')


def escape_vars(text: str) -> str:
    """Escape a text for a double-quoted value in a line ``VARS`` of a DAG."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def quote_attribute(text: str) -> str:
    """A text as a quoted ClassAd string for people: special characters become ``_``."""
    return '"' + _HIDDEN.sub("_", text) + '"'


def pack_line(line: str) -> tuple[str, ...]:
    """Arguments that run a line of shell with characters that HTCondor's parsers cannot pass."""
    return ("/bin/sh", "-c", UNPACK, _PACKED.sub(_as_printf, line))


def _as_printf(found: re.Match[str]) -> str:
    sign = found[0]
    return _PRINTF.get(sign) or f"\\0{ord(sign):03o}"


def shared_affixes(texts: Sequence[str]) -> tuple[str, str]:
    """The longest prefix and suffix that quoted texts share without overlap."""
    first, last = min(texts), max(texts)
    if first == last:
        return first, ""
    # A dollar sign at the end would join the next text to a macro.
    before = _common_prefix(first, last).rstrip("$")
    room = min(map(len, texts)) - len(before)
    ends = [text[::-1] for text in texts]
    return before, _common_prefix(min(ends), max(ends))[:room][::-1]


def _common_prefix(one: str, other: str) -> str:
    """The longest shared prefix of two texts."""
    length = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[:length] if length is not None else min(one, other, key=len)
