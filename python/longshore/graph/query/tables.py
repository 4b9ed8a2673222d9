"""Reads tables (CSV, JSON Lines) into columns of values."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from longshore.errors import ConfigError
from longshore.model.suggestions import did_you_mean
from longshore.model.wording import quote_value
from longshore.origin import Origin

Value: TypeAlias = int | float | str
"""Value of a dimension."""


class ValueKind(StrEnum):
    """Type of all values of a dimension or column."""

    NUMBER = "numbers"
    TEXT = "text"


_TOO_LARGE: Final = 10**300
_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Signs that separate columns in files that are not CSV."""


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

    def column_hint(self, name: str) -> str:
        """The remedy for a column that the table lacks."""
        header = next(iter(self.columns), "") if self.untyped and len(self.columns) == 1 else ""
        separator = next((word for sign, word in _SEPARATORS.items() if sign in header), "")
        if separator:
            return f"Its columns seem to be separated by {separator}. A table has commas, or is JSON Lines ('.jsonl')."
        return did_you_mean(name, self.columns) or "It has " + ", ".join(f"'{each}'" for each in self.columns) + "."

    def cells(self, name: str, origin: Origin | None) -> list[Value]:
        """Cells of a column, each text or a number; numbers and text may be mixed.

        Raises `ConfigError` if the column is unknown or has a cell that is neither.
        """
        if name not in self.columns:
            raise ConfigError(f"'{self.name}' has no column '{name}'", origin=origin, hint=self.column_hint(name))
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
