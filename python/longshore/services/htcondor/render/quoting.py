"""Turns words, variables and texts into what HTCondor's several readers make the very same words and texts of.

What a job is given passes the reader of DAG files, the one that fills in macros of submit descriptions, the one of
arguments and environments, and at last the schedd, which fills in what begins with two dollar signs. Each has signs of
its own. What cannot pass them all is packed into signs that can, and unpacked by a shell in the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./~^*?!#&;|<>{}\[\]-]+", re.ASCII)
"""Signs that mean nothing to any of the readers, within a word."""
_MACRO: Final = re.compile(r"(\$[\w$]*)\(", re.ASCII)
"""What begins a macro: a dollar sign, perhaps the name of a function, and a parenthesis."""
_UNFIT: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|\$\$\(")
"""What ends a line or cannot be in one, and what the schedd fills in however it is written."""
_NOT_SHOWN: Final = re.compile(r'[\x00-\x1f\x7f$\\"]')
_PRINTF: Final = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_PACKED: Final = re.compile(r"[\\\x00-\x1f\x7f]|\$(?=\$*\()")

UNPACK: Final = 'exec /bin/sh -c "$(printf %b "$0")"'
"""What a shell is told to do with a packed line; trailing line feeds, which mean nothing there, get lost."""


def fits(text: str) -> bool:
    """Whether a text can be a word of a job's arguments, or the value of a variable, as it is."""
    return _UNFIT.search(text) is None


def word(text: str) -> str:
    """A word of arguments in HTCondor's own syntax, for `fits` texts.

    Where a macro would begin, the parenthesis stands outside of the quotes: then it is no macro, but still that word.
    """
    if PLAIN.fullmatch(text):
        return text
    quoted = "'" + text.replace("'", "''") + "'"
    return _MACRO.sub(r"\1'('", quoted) if "$" in text else quoted


def arguments(words: Iterable[str]) -> str:
    """Arguments in HTCondor's own syntax, without the quotes around them all."""
    return " ".join(map(word, words))


def environment(variables: Mapping[str, str]) -> str:
    """Variables in HTCondor's own syntax, without the quotes around them all, in the order given."""
    return " ".join(f"{name}={word(value) if value else ''}" for name, value in variables.items())


def in_description(text: str) -> str:
    """A text between the double quotes of a value in a submit description."""
    return text.replace('"', '""')


def in_vars(text: str) -> str:
    """A text between the double quotes of a line ``VARS`` of a DAG."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def in_attribute(text: str) -> str:
    """A text as the value of an attribute of a job: for people, so that signs that mean something become ``_``."""
    return '"' + _NOT_SHOWN.sub("_", text) + '"'


def packed(line: str) -> tuple[str, ...]:
    """The words that run a line of shell which has signs in it that nothing but a shell takes."""
    return ("/bin/sh", "-c", UNPACK, _PACKED.sub(_as_printf, line))


def _as_printf(found: re.Match[str]) -> str:
    sign = found[0]
    return _PRINTF.get(sign) or f"\\0{ord(sign):03o}"


def split(texts: Sequence[str]) -> tuple[str, str]:
    """The longest beginning and the longest end that some quoted texts share, and that do not overlap in any."""
    first, last = min(texts), max(texts)
    if first == last:
        return first, ""
    # Behind a dollar sign a macro would become another.
    before = _common(first, last).rstrip("$")
    room = min(map(len, texts)) - len(before)
    ends = [text[::-1] for text in texts]
    return before, _common(min(ends), max(ends))[:room][::-1]


def _common(one: str, other: str) -> str:
    """The longest beginning of two texts."""
    length = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[:length] if length is not None else min(one, other, key=len)
