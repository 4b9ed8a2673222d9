"""Detects what surprises in YAML text, and what was likely meant.

That is: unquoted YAML 1.1 words (``no``, ``012``, ``12:30``), characters that look like others or like nothing, and a
comment that ends a command.
"""

from __future__ import annotations

import re
from typing import Final

from longshore.config.schema import Finding, Severity
from longshore.errors import Origin
from longshore.model.wording import invisible_character, quote_value, visible_text

_CLOCK = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_MODERN_OCTAL = re.compile(r"[-+]?0o[0-7]+")
_EXPONENT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+")
_COMMAND_KEY = re.compile(r"command|cmd|^(setup|launcher)$", re.IGNORECASE)
"""Keys of shell text."""
_COMMENT = re.compile(r"[ \t]+#")
ODD_BLANKS: Final = {
    "\u00a0": "a no-break space (U+00A0)",
    "\u202f": "a narrow no-break space (U+202F)",
    "\u3000": "an ideographic space (U+3000)",
    **{chr(code): f"a special blank (U+{code:04X})" for code in (0x1680, *range(0x2000, 0x200B), 0x205F)},
}
"""Blanks that YAML and shells take for letters."""
_TYPOGRAPHIC: Final = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
"""Quotation marks that quote nothing."""
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


def check_key_signs(key: str) -> tuple[str, str]:
    """What is wrong with the characters of an unquoted key, and the way out; empty if nothing is."""
    if key.isascii():
        return "", ""
    if key[0] in ODD_BLANKS:
        return f"the line begins with {ODD_BLANKS[key[0]]}, which YAML takes for a letter", "Indent with spaces."
    if sign := invisible_character(key):
        return f"the key {quote_value(visible_text(key))} has an invisible character ({sign})", "Delete it."
    if key[-1] in ODD_BLANKS:
        return f"the key {quote_value(key)} ends with {ODD_BLANKS[key[-1]]}", "Delete it."
    if key[0] in _TYPOGRAPHIC:
        return f"the key {quote_value(key)} has typographic quotation marks", "Write \" or ', or none."
    return "", ""


def check_signs(text: str, key: str, *, quoted: bool) -> Finding | None:
    """Finding for characters of a value that look like others or like nothing, without a place."""
    if not text or text.isascii():
        return None
    if sign := invisible_character(text):
        return _finding(f"the value of '{key}' has an invisible character ({sign})", "Delete it if it is not meant.")
    is_command = bool(_COMMAND_KEY.search(key))
    searched = text if is_command else "" if quoted else text[0] + text[-1]
    blank = next((sign for sign in searched if sign in ODD_BLANKS), "")
    if blank:
        verb = "has" if is_command else "begins or ends with"
        return _finding(
            f"the value of '{key}' {verb} {ODD_BLANKS[blank]}, which is no blank to shells and YAML",
            "Write a plain space.",
        )
    marks = "".join(dict.fromkeys(sign for sign in text if sign in _TYPOGRAPHIC))
    if marks and (is_command or (not quoted and text[0] in _TYPOGRAPHIC and text[-1] in _TYPOGRAPHIC)):
        return _finding(
            f"the value of '{key}' has typographic quotation marks ({marks}), which quote nothing",
            "Write \" or '.",
        )
    return None


def check_comment(key: str, behind: str) -> Finding | None:
    """Note for an unquoted command with a comment behind it, without a place; `behind` is the rest of its line."""
    if not _COMMENT.match(behind) or not _COMMAND_KEY.search(key):
        return None
    return Finding(
        message=f"'{key}' ends here: ' #' begins a comment, which is no part of it",
        origin=_NO_ORIGIN,
        hint="Quote the whole text if the rest belongs to it.",
        severity=Severity.NOTE,
    )


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
