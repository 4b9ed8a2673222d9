"""Reads tables (CSV, TSV, JSON Lines) into columns of values."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

import msgspec

from longshore.errors import ConfigError, Origin
from longshore.model.values import number_of
from longshore.model.wording import count_noun, did_you_mean, invisible_character, quote_value, visible_text

Value: TypeAlias = int | float | str
"""Value of a dimension: a number whose text Python writes as it stands in its file, else the text."""


class ValueKind(StrEnum):
    """Type of all values of a dimension or column. Texts may spell numbers, such as ``007``; see `spelled_numbers`."""

    NUMBER = "numbers"
    TEXT = "text"


_TOO_LARGE: Final = 10**300
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Signs that separate columns."""
_COMMENT_HINT: Final = "If such lines are comments, say so beside 'table': comment: '#'."


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

        Raises `ConfigError` if the column is unknown, or has a cell that is neither text nor a number.
        """
        cells = self.cells(name, origin)
        if self.untyped:
            values = parse_numbers(set(map(str, cells)))
            return [values[str(cell)] for cell in cells]
        return cells if are_numbers(set(cells), len(set(map(str, cells)))) else list(map(str, cells))

    def column_hint(self, name: str) -> str:
        """The remedy for a column that the table lacks."""
        header = next(iter(self.columns), "")
        if self.untyped and len(self.columns) == 1 and (separator := _wrong_separator(header, self.name)):
            return separator
        if self.untyped and header.startswith("#"):
            return f"Its first line was taken for the header, and begins with '#'. {_COMMENT_HINT}"
        return did_you_mean(name, self.columns) or "It has " + ", ".join(f"'{each}'" for each in self.columns) + "."

    def cells(self, name: str, origin: Origin | None) -> list[Value]:
        """Cells of a column, each text or a number; numbers and text may be mixed, and a truth value is its word.

        Raises `ConfigError` if the column is unknown or has a cell that is neither.
        """
        if name not in self.columns:
            raise ConfigError(f"'{self.name}' has no column '{name}'", origin=origin, hint=self.column_hint(name))
        cells = list(self.columns[name])
        if not self.untyped:
            for row, cell in enumerate(cells):
                if isinstance(cell, bool):
                    cells[row] = str(cell).lower()
                elif not is_value(cell):
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


def are_numbers(values: Collection[Value], texts: int) -> bool:
    """Whether values can be those of a dimension as numbers; `texts` is how many different texts they have."""
    # As text, 1 and 1.0 are two.
    return len(values) == texts and not any(isinstance(value, str) for value in values)


def value_kind(value: object) -> ValueKind:
    """Whether a value is a number or text."""
    return ValueKind.TEXT if isinstance(value, str) else ValueKind.NUMBER


def spelled_numbers(values: Sequence[Value]) -> Sequence[int | float] | None:
    """The number of each value, by which values are sorted and compared; ``None`` if one is no number."""
    if not values or value_kind(values[0]) is ValueKind.NUMBER:
        return cast("Sequence[int | float]", values)
    numbers: list[int | float] = []
    for value in values:
        number = number_of(str(value))
        if number is None:
            return None
        numbers.append(number)
    return numbers


# ------------------------------------------------------------------------------------------------------ text as numbers

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})\.[0-9]{1,17}")


def parse_number(text: str) -> int | float | None:
    """Number that Python writes in exactly this way; ``None`` for any other text, such as ``007`` and ``1.50``."""
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


def parse_table(text: str, origin: Origin, comment: str = "") -> Table:
    """Read a table: JSON Lines (``.jsonl``, ``.ndjson``, ``.json``), tab-separated (``.tsv``), else CSV.

    Lines that begin with `comment` do not count.
    """
    name = origin.file.lower()
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return parse_json_lines(text, origin, comment)
    return parse_csv(text, origin, comment)


def decode_table(content: bytes, file: str) -> str:
    """Text of a table; raises `ConfigError` with the place if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        place = Origin(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        coding = "UTF-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
        raise ConfigError(
            f"the table is not UTF-8: it has the byte {content[error.start]:#04x}",
            origin=place,
            hint=f"Save it as UTF-8. If it is {coding}: iconv -f {coding} -t UTF-8 {shlex.quote(file)} > NEW.",
        ) from None


def parse_csv(text: str, origin: Origin, comment: str = "") -> Table:
    """Read separated values with a header: by tabs if the name ends in ``.tsv``, else by commas.

    Rows of blanks, and blanks behind a separator, do not count.

    Neither do columns at the end that have no name and only blanks, as spreadsheets write them, and lines that begin
    with `comment`. Raises `ConfigError` if the header is absent, or the length of a row differs from it.
    """
    _refuse_nul(text, origin)
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in _rows(text.removeprefix("\ufeff"), origin, comment):
        if any(map(str.strip, row)):
            lines.append(line)
            rows.append(row)
    if not rows:
        raise ConfigError("the table is empty: it has no row that names its columns", origin=origin)
    _drop_blank_columns(rows)
    for row, line in zip(rows[1:], lines[1:], strict=True):
        if len(row) != len(rows[0]):
            raise _ragged_row(rows[0], row, lines[0], line, origin)
    names = _header(rows, lines, origin)
    del rows[0], lines[0]
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    return Table(name=origin.file, columns=columns, lines=lines, untyped=True, origin=origin)


def _refuse_nul(text: str, origin: Origin) -> None:
    if (at := text.find("\0")) >= 0:
        place = Origin(origin.file, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), origin.layer)
        raise ConfigError(
            "the table has the character NUL, which no command and no name can have",
            origin=place,
            hint="Delete it. A table with many is not UTF-8: save it again as UTF-8.",
        )


def _rows(text: str, origin: Origin, comment: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it begins."""
    number = first = 0

    def next_lines() -> Iterator[str]:
        nonlocal number, first
        # Not `splitlines`: it ends lines at characters that may stand in a cell.
        for line in io.StringIO(text, newline=""):
            number += 1
            if first:
                # A line inside of quotation marks is no comment.
                yield line
            elif not (comment and line.lstrip().startswith(comment)):
                first = number
                yield line

    reader = csv.reader(next_lines(), delimiter=_delimiter(origin.file), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            yield first, row
            first = 0
    except csv.Error as error:
        if number > first or "unexpected end" in str(error):
            raise ConfigError(
                "this is not CSV: a quotation mark of this row is never closed, or closed too late",
                origin=Origin(origin.file, first, 1, origin.layer),
                hint=f'The error shows in line {number}. Close it, or write "" for a quotation mark inside a value.',
            ) from error
        quoted = "expected after" in str(error)
        raise ConfigError(
            f"this is not CSV: {error}",
            origin=Origin(origin.file, number, 1, origin.layer),
            hint='Write "" for a quotation mark inside a value, and nothing behind the one that ends it.'
            if quoted
            else "",
        ) from error


def _drop_blank_columns(rows: Sequence[list[str]]) -> None:
    """Take off columns at the end without a name whose cells are blank."""
    width = len(rows[0])
    while width > 1 and not rows[0][width - 1].strip() and not any("".join(row[width - 1 :]).strip() for row in rows):
        width -= 1
    if width < len(rows[0]):
        for row in rows:
            del row[width:]


def _ragged_row(header: Sequence[str], row: Sequence[str], header_line: int, line: int, origin: Origin) -> ConfigError:
    """Error for a row that is not as long as the header."""
    if header[0].startswith("#"):
        said = quote_value(_delimiter(origin.file).join(header), 60)
        return ConfigError(
            f"the {'first ' if header_line == 1 else ''}line {said} was taken for the header, but it names "
            f"{count_noun(len(header), 'column')}, and the row in line {line} has {count_noun(len(row), 'value')}",
            origin=Origin(origin.file, header_line, 1, origin.layer),
            hint=_COMMENT_HINT,
        )
    place = Origin(origin.file, line, 1, origin.layer)
    counts = f"{count_noun(len(row), 'value')}, but the header names {count_noun(len(header), 'column')}"
    if row[0].startswith("#"):
        return ConfigError(f"the row begins with '#' and has {counts}", origin=place, hint=_COMMENT_HINT)
    return ConfigError(f"the row has {counts}", origin=place, hint=_ragged_hint(header, row, origin.file))


def _ragged_hint(header: Sequence[str], row: Sequence[str], file: str) -> str:
    if len(header) == 1 and (hint := _wrong_separator(header[0], file)):
        return hint
    sign = _SEPARATORS[_delimiter(file)].removesuffix("s")
    if len(row) < len(header):
        return (
            f"It ends before the column {quote_value(header[len(row)].strip())}; an empty value needs its {sign} too."
        )
    if not any(map(str.strip, row[len(header) :])):
        return f"Delete each {sign} at its end, or name its columns in the header."
    return f"A value with a {sign} in it must be quoted."


def _delimiter(file: str) -> str:
    return "\t" if file.lower().endswith(".tsv") else ","


def _wrong_separator(header: str, file: str) -> str:
    """Hint for a header of one column that another sign separates; empty for any other header."""
    for sign, word in _SEPARATORS.items():
        # A sign that separates columns here can only be there in quotation marks.
        if sign in header and (sign != "," or _delimiter(file) != ","):
            way = {"\t": "end its name in '.tsv'", ",": "end its name in '.csv'"}.get(sign, "save it with commas")
            return f"Its columns seem to be separated by {word}: {way}, or make it JSON Lines ('.jsonl')."
    return ""


def _header(rows: Sequence[Sequence[str]], lines: Sequence[int], origin: Origin) -> list[str]:
    names = [name.strip() for name in rows[0]]
    place = Origin(origin.file, lines[0], 1, origin.layer)
    for position, name in enumerate(names):
        if not name:
            filled = next((line for row, line in zip(rows, lines, strict=True) if row[position].strip()), None)
            hint = _COMMENT_HINT if names[0].startswith("#") else f"Line {filled} has a value in it." if filled else ""
            raise ConfigError(f"column {position + 1} of the header has no name", origin=place, hint=hint)
        if name in names[:position]:
            raise ConfigError(
                f"the header names the column {quote_value(name)} twice",
                origin=place,
                hint=f"They are columns {names.index(name) + 1} and {position + 1}. Give one of the two another name.",
            )
        if hidden := invisible_character(name):
            raise ConfigError(
                f"the name of column {position + 1} of the header has an invisible character ({hidden})",
                origin=place,
                hint=f"Delete it: the name seems to be {quote_value(visible_text(name))}.",
            )
    return names


def _read_float(text: str) -> Value:
    """A number of JSON with a point or an exponent; its text if Python writes the number in another way."""
    number = float(text)
    return number if repr(number) == text else text


_decode_line = msgspec.json.Decoder(dict[str, Any], float_hook=_read_float).decode


def parse_json_lines(text: str, origin: Origin, comment: str = "") -> Table:
    """Read a JSON object per line, whose keys are columns; blank lines, and those of `comment`, do not count.

    Raises `ConfigError` if a line is not a JSON object.
    """
    _refuse_nul(text, origin)
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    names: dict[str, None] = {}
    for count, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip() or (comment and line.lstrip().startswith(comment)):
            continue
        place = Origin(origin.file, count, 1, origin.layer)
        try:
            row = _decode_line(line)
        except msgspec.ValidationError:
            raise ConfigError('the line is not a JSON object such as {"visit": 101}', origin=place) from None
        except msgspec.DecodeError as error:
            hint = _COMMENT_HINT if line.lstrip().startswith("#") else ""
            raise ConfigError(f"this is not JSON: {error}", origin=place, hint=hint) from None
        except RecursionError:
            raise ConfigError("this is nested too deeply", origin=place) from None
        except UnicodeEncodeError:
            raise ConfigError("this is not Unicode", origin=place) from None
        if any(isinstance(text, str) and "\0" in text for text in (*row, *row.values())):
            message = "the line has a text with the character NUL, which no command and no name can have"
            raise ConfigError(message, origin=place, hint="Delete '\\u0000' there.")
        rows.append(row)
        lines.append(count)
        names.update(dict.fromkeys(row))
    if not rows:
        raise ConfigError("the table is empty: it has no line with a JSON object", origin=origin)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Table(name=origin.file, columns=columns, lines=lines, origin=origin)
