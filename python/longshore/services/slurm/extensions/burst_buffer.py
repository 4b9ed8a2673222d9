"""Lines ``#BB`` and ``#DW`` of a batch script, which request a burst buffer (pure functions)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from longshore.batch.scripts.lines import fit_line, text_lines
from longshore.errors import ConfigError
from longshore.model.values import YamlValue

BUFFER_KEYS: Final = ("BB", "DW")
"""Keys of the map ``slurm``, and words behind the hash sign in a script."""
_OPTION: Final = "#SBATCH"
_NEXT_COMPONENT: Final = "#SBATCH hetjob"


def buffer_lines(own: Mapping[str, YamlValue]) -> tuple[str, ...]:
    """Return the lines for burst buffers of a merged map ``slurm``; each value may have its ``#BB`` or ``#DW``.

    Raises `ConfigError` for a line of another kind, and for one that cannot be written into a script.
    """
    return tuple(_line(key, text) for key in BUFFER_KEYS for text in text_lines(own.get(key)))


def _line(key: str, text: str) -> str:
    word, _, rest = text.partition(" ")
    if word == f"#{key}":
        text = rest.strip()
    elif text.startswith(("#", "-")):
        other = word.removeprefix("#")
        place = f"slurm: {{{other}: [...]}}" if other in BUFFER_KEYS else "sbatch: [...] or directives: [...]"
        raise ConfigError(
            f"'{text}' under 'slurm.{key}' is no line of #{key}",
            hint=f"List it under '{place}', or write what follows '#{key}' in the script.",
        )
    if not text:
        raise ConfigError(f"'slurm.{key}' has an empty line", hint="Leave it out.")
    return f"#{key} {fit_line(f'slurm.{key}', text)}"


def refuse_buffer_lines(raw: Iterable[str]) -> None:
    """Raise `ConfigError` for a line of a burst buffer among raw options of sbatch, which would ignore it."""
    for line in raw:
        key = line.partition(" ")[0].removeprefix("#")
        if line.startswith("#") and key in BUFFER_KEYS:
            raise ConfigError(
                f"'{line}' is no option of sbatch",
                hint=f"Lines of #{key} go under 'slurm: {{{key}: [...]}}'.",
            )


def insert_buffer_lines(script: str, lines: Iterable[str]) -> str:
    """Return a script with these lines behind the options of its first component.

    Slurm reads them up to the first command, as it does its own lines, whatever the template has between.
    """
    new = list(lines)
    if not new:
        return script
    at = 0
    text = script.split("\n")
    for number, line in _head(text):
        if line == _NEXT_COMPONENT:
            break
        if number == 0 or line.startswith(_OPTION):
            at = number + 1
    return "\n".join([*text[:at], *new, *text[at:]])


def _head(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines before the first command."""
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            return
        yield number, line
