"""Detects unquoted YAML 1.1 words whose value surprises (``no``, ``012``, ``12:30``), and what was likely meant."""

from __future__ import annotations

import re
from typing import Final

from longshore.config.lint.schema_check import Finding, Severity
from longshore.origin import Origin

_CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_MODERN_OCTAL = re.compile(r"[-+]?0o[0-7]+")
_EXPONENT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")
_WORDS: Final = frozenset({"yes", "no", "on", "off"})
_MAX_LENGTH = 40
_NO_ORIGIN: Final = Origin("")


def check_unquoted_word(text: str, value: object) -> Finding | None:
    """Finding for an unquoted word that `value` misreads, without a place; ``None`` for an unsurprising word."""
    # Nearly all words return here: others begin with a digit, a sign or a point, or are in `_WORDS`.
    if not text or len(text) > _MAX_LENGTH or not (text[0] in "+-.0123456789" or isinstance(value, bool)):
        return None
    if isinstance(value, bool):
        word = str(value).lower()
        hint = f'Write {word}, or quote it if the word is meant: "{text}".'
        return _finding(f"'{text}' is {word}", hint) if text.lower() in _WORDS else None
    if _OCTAL.fullmatch(text) and isinstance(value, int):
        bare = text.replace("_", "").lstrip("+-0") or "0"
        return _finding(
            f"'{text}' is {value}: YAML reads a number that begins with 0 as octal",
            f'Write {bare} for the decimal number, {value} if the octal one is meant, or quote it: "{text}".',
        )
    if not isinstance(value, str):
        return None
    if _CLOCK.fullmatch(text):
        return _finding(
            f"'{text}' is read as text here, but YAML 1.1, and BPS with it, reads the number {_base_60(text)}",
            f'Quote it: "{text}".',
        )
    if _MODERN_OCTAL.fullmatch(text):
        return _finding(
            f"'{text}' is text: YAML 1.1 does not know this way to write an octal number",
            f'Write {int(text.replace("0o", ""), 8)}, or quote it if text is meant: "{text}".',
        )
    if _EXPONENT.fullmatch(text):
        return _finding(
            f"'{text}' is text: YAML 1.1 wants a point and a sign in a number with an exponent",
            f'Write {_decimal(text)}, or quote it if text is meant: "{text}".',
        )
    return None


def _finding(message: str, hint: str) -> Finding:
    return Finding(message=message, origin=_NO_ORIGIN, hint=hint, severity=Severity.WARNING)


def _base_60(text: str) -> str:
    """The number that YAML 1.1 reads from ``12:30:45``."""
    total = 0.0
    for part in text.replace("_", "").lstrip("+-").split(":"):
        total = total * 60 + float(part)
    number = -total if text.startswith("-") else total
    return str(int(number)) if number == int(number) and "." not in text else str(number)


def _decimal(text: str) -> str:
    """The number as YAML 1.1 would read it."""
    number = float(text)
    if abs(number) < 1e15 and number == int(number):
        return str(int(number))
    mantissa, _, exponent = text.lower().partition("e")
    point = "" if "." in mantissa else ".0"
    sign = "" if exponent.startswith(("+", "-")) else "+"
    return f"{mantissa}{point}e{sign}{exponent}"
