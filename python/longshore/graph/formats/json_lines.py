"""Decodes lines of JSON into records, a batch at a time, with the line number of each error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NoReturn, TypeVar

import msgspec

from longshore.errors import GraphError
from longshore.graph.formats.graph_lines import LINE_KEYS, GraphHeader
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.suggestions import did_you_mean, name_all
from longshore.model.wording import count_noun
from longshore.origin import Origin

_BATCH: Final = 4096
"""Lines that are taken together: enough that Python's own work per line does not count."""
_NUL: Final = b"\\u0000"
COPY_HINT: Final = "Copy or make it again."
"""Hint for a damaged file."""

T = TypeVar("T", bound=msgspec.Struct)


class LineReader:
    """Reads records from the lines of a file and counts the lines."""

    def __init__(self, lines: Iterable[bytes], origin: Origin, line: int = 1) -> None:
        self.lines = iter(lines)
        self.file = origin.file
        self.line = line
        """Number of the first line of the batch that was taken last."""
        self.next = line

    def of(self, what: str, count: int, kind: type[T]) -> list[T]:
        """Read `count` records."""
        return [record for batch in self.batches(what, count, kind) for record in batch]

    def batches(self, what: str, count: int, kind: type[T]) -> Iterator[list[T]]:
        """Read `count` records, in batches."""
        decoder = msgspec.json.Decoder(kind)
        taken = 0
        while taken < count:
            lines = list(islice(self.lines, min(_BATCH, count - taken)))
            self.line = self.next
            self.next += len(lines)
            if not lines:
                raise GraphError(
                    f"the file is cut short: it has {taken:,} of its {count:,} {what}s",
                    origin=Origin(self.file, self.line, 1),
                    hint=COPY_HINT,
                )
            yield self._decode_batch(lines, decoder, what)
            taken += len(lines)

    def _decode_batch(self, lines: list[bytes], decoder: msgspec.json.Decoder[T], what: str) -> list[T]:
        whole = b"".join(lines)
        try:
            # NUL is told of in words of our own; programs may hold it, and are few.
            if _NUL not in whole and len(records := decoder.decode_lines(whole)) == len(lines):
                return records
        except DECODE_ERRORS:
            pass  # one of them is wrong, and found below
        return [self._decode_line(line, decoder.decode, what, number) for number, line in enumerate(lines, self.line)]

    def _decode_line(self, line: bytes, decode: Callable[[bytes], T], what: str, number: int) -> T:
        try:
            record = decode(line)
        except msgspec.ValidationError as error:
            self._raise_invalid(what, str(error), number)
        except msgspec.DecodeError as error:
            self._raise_malformed(what, line, str(error), number)
        except UnicodeDecodeError:
            origin = Origin(self.file, number, _utf8_error_column(line))
            raise GraphError("this is not UTF-8, as JSON has to be", origin=origin) from None
        except RecursionError:
            raise GraphError(f"this {what} is nested too deeply", origin=Origin(self.file, number, 1)) from None
        if _NUL in line and what != "program" and _has_nul(msgspec.json.decode(line)):
            message = f"this {what} holds the character NUL, which no name and no command can have"
            raise GraphError(message, origin=Origin(self.file, number, 1))
        return record

    def _raise_invalid(self, what: str, error: str, number: int) -> NoReturn:
        """Report JSON that is not a record of this kind."""
        hint = ""
        if found := re.fullmatch(r"Object contains unknown field `(.*)`", error):
            known = LINE_KEYS[what]
            hint = did_you_mean(found[1], known) or name_all(known)
        message = f"this is not a valid {what}: {decode_reason(error)}"
        raise GraphError(message, origin=Origin(self.file, number, 1), hint=hint)

    def _raise_malformed(self, what: str, line: bytes, error: str, number: int) -> NoReturn:
        """Report text that is not JSON."""
        if not line.strip():
            message = f"this line is empty, and should be a {what}"
            raise GraphError(message, origin=Origin(self.file, number, 1), hint="Take it out.")
        if found := re.fullmatch(r"JSON is malformed: (.*) \(byte (\d+)\)", error):
            column = len(line[: int(found[2])].decode(errors="replace")) + 1
            raise GraphError(f"this is not JSON: {found[1]}", origin=Origin(self.file, number, column))
        column = len(line.rstrip().decode(errors="replace")) + 1
        raise GraphError(
            f"the line of this {what} is cut short: its JSON has no end",
            origin=Origin(self.file, number, column),
            hint=COPY_HINT,
        )

    def refuse_more(self, header: GraphHeader) -> None:
        """Refuse lines beyond the header's count."""
        self.line = self.next
        for line in self.lines:
            if line.strip():
                sizes = {"file": header.files, "task": header.tasks, "program": header.programs}
                files, tasks, programs = (count_noun(number, noun) for noun, number in sizes.items())
                counted = f"{files}, {tasks} and {programs}"
                raise GraphError(
                    f"there is more in the file than the {counted} that its first line counts",
                    origin=Origin(self.file, self.line, 1),
                )
            self.line += 1


def _utf8_error_column(line: bytes) -> int:
    """Column of the first byte that is not UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return len(line[: error.start].decode()) + 1
    return 1


def decode_reason(error: str) -> str:
    """Reason of a decoding error, with the JSON path in front."""
    reason, _, where = error.replace("`", "'").partition(" - at '$")
    where = where.removesuffix("'").removeprefix(".")
    return (f"'{where}': " if where else "") + reason[:1].lower() + reason[1:]


def _has_nul(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value
