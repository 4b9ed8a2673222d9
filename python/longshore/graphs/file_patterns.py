"""File patterns: globs, values that ``{name}`` captures from file names, and refusal of a pattern without matches."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from longshore.config.templates import Data, Field, Parts, parts_text, split_fields
from longshore.errors import ConfigError, GraphError, Origin
from longshore.graphs.tables import Table, Value, parse_numbers
from longshore.model.wording import escaped_name, is_utf8, quote_value, shell_name

_WILDCARD = re.compile(r"(\*\*/|\*+|\?)")


def captured_names(pattern: str | Parts, origin: Origin | None = None) -> dict[str, str]:
    """Names that a pattern captures, in its order, with their format specifications.

    Raises `ConfigError` if two captures touch, so that the end of the first is ambiguous, or a name has two formats.
    """
    names: dict[str, str] = {}
    before: object = ""
    parts = _split(pattern)
    shown = quote_value(parts_text(parts))
    for part in parts:
        if isinstance(part, Field):
            if part.name.startswith("."):
                # A place in the configuration, which is filled in before files are looked for.
                before = ""
                continue
            if isinstance(before, Field) or (type(before) is str and before.endswith("*")):
                message = f"in the pattern {shown} nothing stands between '{before}' and '{part}'"
                raise ConfigError(
                    message, origin=origin, hint="Put what ends the one and begins the other between them."
                )
            if names.setdefault(part.name, part.spec) != part.spec:
                message = f"the pattern {shown} has two formats for '{part.name}'"
                raise ConfigError(message, origin=origin)
        elif isinstance(before, Field) and type(part) is str and part.startswith("*"):
            raise ConfigError(f"in the pattern {shown} nothing stands between '{before}' and '*'", origin=origin)
        before = part
    return names


def _split(pattern: str | Parts) -> Parts:
    return split_fields(pattern) if isinstance(pattern, str) else pattern


def glob_pattern(pattern: str | Parts) -> str:
    """Pattern for `glob.glob`, with ``*`` for each capture; it finds at least all matches."""
    return "".join(
        "*" if isinstance(part, Field) else glob.escape(part) if isinstance(part, Data) else part.replace("[", "[[]")
        for part in _split(pattern)
    )


def capture_values(pattern: str | Parts, paths: Iterable[str], origin: Origin | None = None) -> Table:
    """Capture values from the names of files; `Data` in the pattern has no wildcards.

    ``{name}`` is a text without a slash, as short as possible; a repeated name must match the same text. A number
    format (``{exposure:06}``) makes the value a number. ``*``, ``?`` and ``**/`` are as in a shell. `paths` are the
    results of `glob_pattern`, and perhaps more.

    Raises `ConfigError` if the captures are ambiguous, and `GraphError` if nothing matches.
    """
    specs = captured_names(pattern, origin)
    parts = _split(pattern)
    text = parts_text(parts)
    for part in parts:
        if isinstance(part, Field) and part.name not in specs:
            raise ConfigError(f"the pattern {quote_value(text)} cannot capture '{part}'", origin=origin)
    matches = re.compile(_pattern_expression(parts), re.DOTALL).fullmatch
    rows: dict[tuple[Value, ...], None] = {}
    for path in sorted(paths):
        if (found := matches(path)) and (row := _captured_row(found, specs)) is not None:
            if not path.isascii():
                _refuse_undecodable(path, row, text, origin)
            rows[row] = None
    if not rows:
        raise GraphError(
            f"no file matches {quote_value(text, 200)}",
            origin=origin,
            hint="'{name}' stands for a part of one file or folder name, without any slash.",
        )
    columns: dict[str, Sequence[Any]] = {}
    for (name, spec), cells in zip(specs.items(), zip(*rows, strict=True), strict=True):
        values = {} if spec else parse_numbers(set(cells))
        columns[name] = [values.get(cell, cell) for cell in cells]
    return Table(name=text, columns=columns, origin=origin)


def _refuse_undecodable(path: str, row: Sequence[Value], pattern: str, origin: Origin | None) -> None:
    if not is_utf8("".join(map(str, row))):
        raise ConfigError(
            f"{quote_value(pattern, 200)} takes a value of the file {escaped_name(path)}, whose name is not UTF-8",
            origin=origin,
            hint=f"Rename it, as with: mv -- {shell_name(path)} NEW. Or write a pattern that does not match it.",
        )


def _captured_row(found: re.Match[str], specs: Mapping[str, str]) -> tuple[Value, ...] | None:
    """Values captured from a path; ``None`` if a text does not have its format."""
    values: list[Value] = []
    for name, spec in specs.items():
        text = found[name]
        if spec:
            digits = text.strip()
            if not re.fullmatch(r"-?[0-9]{1,18}", digits, re.ASCII):
                return None
            try:
                if format(int(digits), spec) != text:
                    return None
            except ValueError:
                return None
            values.append(int(digits))
        else:
            values.append(text)
    return tuple(values)


def _pattern_expression(parts: Parts) -> str:
    """Regular expression of a pattern."""
    names = [part.name for part in parts if isinstance(part, Field)]
    pieces: list[str] = []
    open_group = False
    for piece, wild in _part_expressions(parts):
        # What is shortest for one wildcard leaves the most to the next, so there is no need to ever try again; but not
        # where the same text must come once more.
        if wild:
            pieces.append(")" if open_group else "")
            open_group = piece not in {_FOLDERS, *(_capture_group(name) for name in names if names.count(name) > 1)}
            pieces.append("(?>" if open_group else "")
        pieces.append(piece)
    return "".join(pieces) + r"\Z" + (")" if open_group else "")


_FOLDERS: Final = "(?:[^/]+/)*?"


def _capture_group(name: str) -> str:
    return f"(?P<{name}>[^/]+?)"


def _part_expressions(parts: Parts) -> Iterator[tuple[str, bool]]:
    """Regular expression of each part, and whether its length varies."""
    seen: set[str] = set()
    for part in parts:
        if isinstance(part, Field):
            yield (f"(?P={part.name})", False) if part.name in seen else (_capture_group(part.name), True)
            seen.add(part.name)
            continue
        if isinstance(part, Data):
            yield re.escape(part), False
            continue
        for text in filter(None, _WILDCARD.split(part)):
            if text == "**/":
                yield _FOLDERS, True
            elif text.startswith("*"):
                yield "[^/]*?", True
            else:
                yield ("[^/]" if text == "?" else re.escape(text)), False
