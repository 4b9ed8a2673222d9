"""Checks of files with lines of records: every changed byte is found, and what a writer did not finish is no damage."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.journal_lines import lines_of

from longshore.rundir.check_records import check_record_lines

PATH = Path("keeper/0001.1.jsonl")
RECORDS = ({"r": "keeper", "v": 2, "pid": 7}, {"r": "got", "b": "t", "m": [[1, 1]]}, {"r": "closed"})


def changed(text: bytes, at: int) -> bytes:
    """Return a text with another byte at a place."""
    return text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_changed_byte_of_a_file_of_lines_is_found(number: int) -> None:
    text = lines_of(RECORDS[:number])
    assert check_record_lines(PATH, text) == (True, [])
    for at in range(len(text)):
        has_checksums, damages = check_record_lines(PATH, changed(text, at))
        assert has_checksums, at
        assert damages, at


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_unfinished_last_line_is_no_damage(number: int) -> None:
    text = lines_of(RECORDS[:number])
    for end in range(len(lines_of(RECORDS[: number - 1])), len(text)):
        assert check_record_lines(PATH, text[:end])[1] == [], end


def test_a_whole_line_is_no_unfinished_one_because_its_end_was_changed() -> None:
    first, second, third = lines_of(RECORDS).splitlines(keepends=True)
    for rest in (b"", third[:5]):
        (damage,) = check_record_lines(PATH, first + changed(second, len(second) - 1) + rest)[1]
        assert damage.line == 2


def test_lines_without_checksums_are_checked_by_their_form() -> None:
    text = b'{"r":"got","m":[[1,1]]}\n{"r":"clo#ed"\n{"r":"closed"}\n'
    has_checksums, damages = check_record_lines(PATH, text)
    assert not has_checksums
    assert [damage.line for damage in damages] == [2]
