"""Numbers with nouns, and quoted values, in messages."""

from __future__ import annotations

import shlex
import unicodedata


def count_noun(number: int, noun: str) -> str:
    """Return a number and a noun, such as ``1 job`` and ``2,000 jobs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def there_are(number: int, noun: str) -> str:
    """Return such as ``there is 1 job`` and ``there are 2,000 jobs``."""
    return f"there {'is' if number == 1 else 'are'} {count_noun(number, noun)}"


def quote_value(value: object, width: int = 60) -> str:
    """A value as an error shows it: quoted, and shortened to `width` characters."""
    text = str(value)
    return f"'{text[: width - 3]}...'" if len(text) > width else f"'{text}'"


def invisible_character(text: str) -> str:
    """The first character of a text that nothing shows, such as ``U+200B``; empty without one.

    Blanks are none, however wide, and neither are tabs and ends of lines.
    """
    if text.isascii() and text.isprintable():
        return ""
    return next((f"U+{ord(sign):04X}" for sign in text if _is_invisible(sign)), "")


def visible_text(text: str) -> str:
    """A text without the characters that nothing shows."""
    return "".join(sign for sign in text if not _is_invisible(sign))


def _is_invisible(sign: str) -> bool:
    return unicodedata.category(sign) in {"Cc", "Cf"} and sign not in "\t\n\r"


def is_utf8(text: str) -> bool:
    """Whether a text is Unicode; the name of a file, or an argument, that is not UTF-8 is not."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped_name(name: str) -> str:
    r"""The name of a file, quoted, with each byte that is not UTF-8 as ``\xff``."""
    return f"'{_escape(name)}'"


def shell_name(name: str) -> str:
    """The name of a file as bash, zsh and ksh read it, whatever bytes it has."""
    if is_utf8(name):
        return shlex.quote(name)
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_escape(escaped)}'"


def _escape(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
