"""How messages word numbers, moments, signals and names, and suggest the name that was meant."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from signal import Signals
from typing import Final

# Numbers with nouns, and quoted values, in messages.


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


# Formats timestamps: seconds since the epoch as ISO-8601 in UTC, for people and programs.


_MICROS = 1_000_000
_MILLIS = tuple(f".{milli:03}Z" for milli in range(1000))
_MILLIS_LENGTH = len(_MILLIS[0])


def format_timestamp(at: float | None, *, exact: bool = False) -> str | None:
    """Format a timestamp as ISO-8601 in UTC; ``None`` for ``None``, or a time outside the years 1 to 9999.

    `at` is in seconds since the epoch. With `exact`, to the millisecond, else to the second; the rest is cut off.
    """
    text = format_exact_timestamp(at)
    return text if exact or text is None else f"{text[:-_MILLIS_LENGTH]}Z"


def format_exact_timestamp(at: float | None) -> str | None:
    """Format a timestamp to the millisecond; as a function of its own, for the hundred thousand of a report."""
    if at is None:
        return None
    try:
        # Rounded before it is cut off: 0.003 s is a little less than that as a number.
        second, milli = divmod(round(at * _MICROS) // 1000, 1000)
    except (OverflowError, ValueError):
        return None
    text = _second(second)
    return None if text is None else text + _MILLIS[milli]


def format_moment(at: float | None) -> str:
    """Format a timestamp (seconds since the epoch) for a sentence."""
    return format_timestamp(at) or "an unknown time"


@lru_cache(maxsize=4096)
def _second(second: int) -> str | None:
    # Many of a run's jobs begin or end in the same second, whose text is cached.
    try:
        return datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()
    except (OverflowError, ValueError, OSError):
        # A clock that was never set, or a damaged record, must not break the rest of a report.
        return None


# Names and numbers of POSIX signals.


_MAX_DIGITS: Final = 3


def signal_name(number: int) -> str:
    """Name of a signal, such as ``SIGTERM``; its number as text where it has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_number(name: str) -> int | None:
    """Number of a signal from its name, with or without ``SIG``, or from digits; ``None`` if unknown."""
    if name.isdecimal():
        # Python converts no number of thousands of digits.
        return int(name) if len(name) <= _MAX_DIGITS and 1 <= int(name) <= 64 else None
    found = Signals.__members__.get(f"SIG{name.upper().removeprefix('SIG')}")
    return None if found is None else int(found)


def signal_names() -> list[str]:
    """Names of all signals, without ``SIG``."""
    return [name.removeprefix("SIG") for name in Signals.__members__]


# Suggests the nearest known name for an unknown one ("did you mean").


NAME_LIKENESS: Final = 0.6
"""Likeness for names that users choose, such as those of jobs, which are often short."""

_OWN_WORDS: Final = {
    own: words.split()
    for own, words in {
        "numberOfRetries": "retries retry max_retries maxretries",
        "requestMemory": "memory mem ram mem_mb",
        "requestCpus": "cpus cpu cores ncpus threads cpus_per_task",
        "requestDisk": "disk disk_mb",
        "requestWalltime": "time walltime timeout runtime time_limit",
        "queue": "partition",
        "accountingGroup": "project",
        "environment": "env",
        "workingDirectory": "workdir working_directory cwd",
        "wmsServiceClass": "backend scheduler executor batch_system",
        "after": "depends depends_on dependencies needs requires",
        "command": "cmd script shell run exec",
        "inputs": "input",
        "outputs": "output",
    }.items()
}
"""Words of other tools per key of Longshore."""


def own_word(word: str) -> str:
    """Return the key of Longshore for another tool's word; empty where there is none."""
    plain = word.lower().replace("-", "_")
    return next((own for own, words in _OWN_WORDS.items() if plain in words), "")


def first_of(texts: Sequence[str], number: int) -> str:
    """Format the first few texts and the number of the others."""
    more = f" and {len(texts) - number} more" if texts[number:] else ""
    return ", ".join(texts[:number]) + more


def list_words(words: Sequence[str], last: str = "and") -> str:
    """Join words for a sentence, the last one by another sign than the others: ``a, b and c``."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def name_all(names: Iterable[str]) -> str:
    """Return a sentence with all names there are, each in quotes."""
    quoted = [f"'{name}'" for name in names]
    if not quoted:
        return "There are none."
    return f"There is only {quoted[0]}." if len(quoted) == 1 else f"There are {', '.join(quoted)}."


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """Nearest known word, with a likeness from 0 (any) to 1 (equal); ``None`` where no word is near enough."""
    # Imported here: only errors need it, and its import would delay every command.
    from difflib import get_close_matches

    # Wrong capitals are the likeliest mistake, and a small one.
    lowered = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(word.lower(), lowered, n=1, cutoff=likeness)
    return lowered[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str:
    """Sentence that suggests the nearest known word; empty where no word is near enough."""
    known = list(known)
    found = own_word(word) if own_word(word) in known else nearest(word, known, likeness=likeness)
    return f"Did you mean '{found}'?" if found else ""
