"""Numbers with nouns, and quoted values, in messages."""

from __future__ import annotations


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
