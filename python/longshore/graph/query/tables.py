"""Reads tables (CSV, JSON Lines) and names of files that match a pattern into columns of values."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from longshore.config.values.interpolate import Field, Parts, quote_value, split_fields
from longshore.errors import ConfigError, GraphError
from longshore.model.suggestions import did_you_mean
from longshore.origin import Origin

Value: TypeAlias = int | float | str
"""Value of a dimension."""


class ValueKind(StrEnum):
    """Type of all values of a dimension or column."""

    NUMBER = "numbers"
    TEXT = "text"


_TOO_LARGE: Final = 10**300


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of equal length."""

    name: str
    """Path of the file, or the pattern, as errors name it."""
    columns: Mapping[str, Sequence[Any]]
    """Cells per column: any JSON value, ``None`` for an absent cell."""
    lines: Sequence[int] = ()
    """Line of each row in the file; empty for a table without a file."""
    untyped: bool = False
    """Whether all cells are text because the format has no types."""
    origin: Origin | None = None
    """Origin of the table, or of the request for it."""

    def place(self, row: int) -> Origin | None:
        """Origin of a row."""
        return Origin(self.name, self.lines[row], 1) if self.lines else self.origin

    def column(self, name: str, origin: Origin | None) -> list[Value]:
        """Values of a column, all numbers or all text.

        Raises `ConfigError` if the column is unknown, mixed, or has a cell that is neither text nor a number.
        """
        cells = self.cells(name, origin)
        if self.untyped:
            values = parse_numbers(set(map(str, cells)))
            return [values[str(cell)] for cell in cells]
        kind: ValueKind | None = None
        for row, cell in enumerate(cells):
            if kind is not None and kind is not value_kind(cell):
                message = (
                    f"the column '{name}' of '{self.name}' holds numbers and text; {quote_value(cell)} differs "
                    "from before"
                )
                raise ConfigError(message, origin=self.place(row))
            kind = value_kind(cell)
        return cells

    def cells(self, name: str, origin: Origin | None) -> list[Value]:
        """Cells of a column, each text or a number; numbers and text may be mixed.

        Raises `ConfigError` if the column is unknown or has a cell that is neither.
        """
        if name not in self.columns:
            raise ConfigError(
                f"'{self.name}' has no column '{name}'",
                origin=origin,
                hint=did_you_mean(name, self.columns)
                or "It has " + ", ".join(f"'{each}'" for each in self.columns) + ".",
            )
        cells = list(self.columns[name])
        if not self.untyped:
            for row, cell in enumerate(cells):
                if not is_value(cell):
                    said = "nothing" if cell is None else quote_value(cell)
                    message = f"the column '{name}' of '{self.name}' has {said} where a text or a number must be"
                    raise ConfigError(message, origin=self.place(row))
        return cells


def is_value(value: object) -> bool:
    """Whether a dimension can have this value."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    # What is larger cannot be written out by Python; infinity and what is no number at all are no smaller.
    return isinstance(value, str) or abs(value) < _TOO_LARGE


def value_kind(value: object) -> ValueKind:
    """Whether a value is a number or text."""
    return ValueKind.TEXT if isinstance(value, str) else ValueKind.NUMBER


# ------------------------------------------------------------------------------------------------------ text as numbers

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\.[0-9]{1,17}")


def parse_number(text: str) -> int | float | None:
    """Number with exactly this spelling; ``None`` for any other text, such as ``007`` and ``1.50``."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and repr(float(text)) == text:
        return float(text)
    return None


def parse_numbers(texts: Iterable[str]) -> dict[str, Value]:
    """Numbers per text if every text is spelled as a number, else the texts themselves."""
    values: dict[str, Value] = {}
    for text in texts:
        value = parse_number(text)
        if value is None:
            return {each: each for each in texts}
        values[text] = value
    # As text, 1 and 1.0 are two.
    return values if len(set(values.values())) == len(values) else {each: each for each in texts}


# ------------------------------------------------------------------------------------------------------- the formats


def parse_table(text: str, origin: Origin) -> Table:
    """Read a table: JSON Lines if its name ends so (``.jsonl``, ``.ndjson``, ``.json``), else CSV."""
    is_json = origin.file.lower().endswith((".jsonl", ".ndjson", ".json"))
    return parse_json_lines(text, origin) if is_json else parse_csv(text, origin)


def parse_csv(text: str, origin: Origin) -> Table:
    """Read comma-separated values with a header. Blank lines, and blanks after a comma, do not count.

    Raises `ConfigError` if the header is absent, or the length of a row differs from it.
    """
    reader = csv.reader(text.removeprefix("\ufeff").splitlines(keepends=True), skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        place = Origin(origin.file, reader.line_num, 1, origin.layer)
        raise ConfigError(f"this is not CSV: {error}", origin=place) from error
    names = _header(rows, lines, origin)
    del rows[0], lines[0]
    width = len(names)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            message = f"the row has {len(row)} values, but the header names {width} columns"
            hint = "A value with a comma in it must be quoted."
            raise ConfigError(message, origin=Origin(origin.file, line, 1, origin.layer), hint=hint)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    return Table(name=origin.file, columns=columns, lines=lines, untyped=True, origin=origin)


def _header(rows: Sequence[Sequence[str]], lines: Sequence[int], origin: Origin) -> list[str]:
    if not rows:
        raise ConfigError("the table is empty: it has no row that names its columns", origin=origin)
    names = [name.strip() for name in rows[0]]
    place = Origin(origin.file, lines[0], 1, origin.layer)
    for position, name in enumerate(names):
        if not name:
            raise ConfigError(f"column {position + 1} of the header has no name", origin=place)
        if name in names[:position]:
            raise ConfigError(f"the header names the column {quote_value(name)} twice", origin=place)
    return names


_decode_line = msgspec.json.Decoder(dict[str, Any]).decode


def parse_json_lines(text: str, origin: Origin) -> Table:
    """Read a JSON object per line, whose keys are columns; blank lines do not count.

    Raises `ConfigError` if a line is not a JSON object.
    """
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    names: dict[str, None] = {}
    for count, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        place = Origin(origin.file, count, 1, origin.layer)
        try:
            row = _decode_line(line)
        except msgspec.ValidationError:
            raise ConfigError('the line is not a JSON object such as {"visit": 101}', origin=place) from None
        except msgspec.DecodeError as error:
            raise ConfigError(f"this is not JSON: {error}", origin=place) from None
        except RecursionError:
            raise ConfigError("this is nested too deeply", origin=place) from None
        except UnicodeEncodeError:
            raise ConfigError("this is not Unicode", origin=place) from None
        rows.append(row)
        lines.append(count)
        names.update(dict.fromkeys(row))
    if not rows:
        raise ConfigError("the table is empty: it has no line with a JSON object", origin=origin)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Table(name=origin.file, columns=columns, lines=lines, origin=origin)


# -------------------------------------------------------------------------------------------------------------- globs

_WILDCARD = re.compile(r"(\*\*/|\*+|\?)")


def captured_names(pattern: str, origin: Origin | None = None) -> dict[str, str]:
    """Names that a pattern captures, in its order, with their format specifications.

    Raises `ConfigError` if two captures touch, so that the end of the first is ambiguous, or a name has two formats.
    """
    names: dict[str, str] = {}
    before: object = ""
    for part in split_fields(pattern):
        if isinstance(part, Field):
            if part.name.startswith("."):
                # A place in the configuration, which is filled in before files are looked for.
                before = ""
                continue
            if isinstance(before, Field) or (isinstance(before, str) and before.endswith("*")):
                message = f"in the pattern {quote_value(pattern)} nothing stands between '{before}' and '{part}'"
                raise ConfigError(
                    message, origin=origin, hint="Put what ends the one and begins the other between them."
                )
            if names.setdefault(part.name, part.spec) != part.spec:
                message = f"the pattern {quote_value(pattern)} has two formats for '{part.name}'"
                raise ConfigError(message, origin=origin)
        elif isinstance(before, Field) and part.startswith("*"):
            raise ConfigError(
                f"in the pattern {quote_value(pattern)} nothing stands between '{before}' and '*'", origin=origin
            )
        before = part
    return names


def glob_pattern(pattern: str) -> str:
    """Pattern for `glob.glob`, with ``*`` for each capture; it finds at least all matches."""
    return "".join("*" if isinstance(part, Field) else part.replace("[", "[[]") for part in split_fields(pattern))


def capture_values(pattern: str, paths: Iterable[str], origin: Origin | None = None) -> Table:
    """Capture values from the names of files.

    ``{name}`` is a text without a slash, as short as possible; a repeated name must match the same text. A number
    format (``{exposure:06}``) makes the value a number. ``*``, ``?`` and ``**/`` are as in a shell. `paths` are the
    results of `glob_pattern`, and perhaps more.

    Raises `ConfigError` if the captures are ambiguous, and `GraphError` if nothing matches.
    """
    specs = captured_names(pattern, origin)
    for part in split_fields(pattern):
        if isinstance(part, Field) and part.name not in specs:
            raise ConfigError(f"the pattern {quote_value(pattern)} cannot capture '{part}'", origin=origin)
    matches = re.compile(_pattern_expression(split_fields(pattern)), re.DOTALL).fullmatch
    rows = {
        row: None
        for path in sorted(paths)
        if (found := matches(path)) and (row := _captured_row(found, specs)) is not None
    }
    if not rows:
        raise GraphError(
            f"no file matches {quote_value(pattern, 200)}",
            origin=origin,
            hint="'{name}' stands for a part of one file or folder name, without any slash.",
        )
    columns: dict[str, Sequence[Any]] = {}
    for (name, spec), cells in zip(specs.items(), zip(*rows, strict=True), strict=True):
        values = {} if spec else parse_numbers(set(cells))
        columns[name] = [values.get(cell, cell) for cell in cells]
    return Table(name=pattern, columns=columns, origin=origin)


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
        for text in filter(None, _WILDCARD.split(part)):
            if text == "**/":
                yield _FOLDERS, True
            elif text.startswith("*"):
                yield "[^/]*?", True
            else:
                yield ("[^/]" if text == "?" else re.escape(text)), False
