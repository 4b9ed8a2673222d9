"""Checksums of lines: every change in the middle of a file is found and named; a cut at the end is told as such."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.model.json_lines import (
    SEED,
    add_checksum,
    check_block,
    checksum_after,
    find_bad_lines,
    has_checksum,
)

VALUES = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20), min_size=1, max_size=4)
Record = dict[str, int | str]
FILES = st.lists(VALUES, min_size=3, max_size=12).map(lambda each: list(_written(each)))


def _written(records: Iterable[Record]) -> Iterator[bytes]:
    crc = SEED
    for record in records:
        line, crc = add_checksum(msgspec.json.encode(record), crc)
        yield line


def _after(line: bytes) -> int:
    after = checksum_after(line)
    assert after is not None
    return after


def _bad(lines: list[bytes]) -> list[int]:
    return [bad.line for bad in find_bad_lines(b"".join(lines), SEED)]


@given(FILES)
def test_an_intact_file_checks_in_one_call_and_by_line(lines: list[bytes]) -> None:
    text = b"".join(lines)
    assert check_block(text, SEED) == checksum_after(lines[-1])
    assert _bad(lines) == []
    assert all(has_checksum(line) and json.loads(line)["c"] == line[-11:-3].decode() for line in lines)


@given(FILES, st.data())
def test_a_block_from_any_line_on_checks_from_the_statement_of_the_line_before(
    lines: list[bytes], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(lines) - 1))
    seed = _after(lines[at - 1])
    assert check_block(b"".join(lines[at:]), seed) == checksum_after(lines[-1])
    assert check_block(b"".join(lines[at:]), seed ^ 1) is None


@settings(max_examples=examples(500))
@given(FILES, st.data())
def test_a_changed_byte_is_found_and_only_its_line_is_named(lines: list[bytes], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(lines) - 1))
    at = data.draw(st.integers(0, len(lines[number]) - 2))
    changed = bytearray(lines[number])
    changed[at] ^= data.draw(st.integers(1, 255))
    assume(changed[at] != ord("\n"))
    damaged = [*lines[:number], bytes(changed), *lines[number + 1 :]]
    assert check_block(b"".join(damaged), SEED) is None
    assert _bad(damaged) == [number + 1]


@given(FILES, st.data())
def test_lines_that_were_joined_or_divided_are_found(lines: list[bytes], data: st.DataObject) -> None:
    text = bytearray(b"".join(lines))
    ends = [at for at, byte in enumerate(text) if byte == ord("\n")]
    at = data.draw(st.sampled_from(ends[:-1]) | st.integers(0, len(text) - 2))
    text[at] = ord(" ") if text[at] == ord("\n") else ord("\n")
    assert check_block(bytes(text), SEED) is None
    assert next(find_bad_lines(bytes(text), SEED)).offset <= at


@given(FILES, st.data())
def test_a_dropped_line_is_found_at_the_line_after_it(lines: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 2))
    damaged = [*lines[:at], *lines[at + 1 :]]
    assert check_block(b"".join(damaged), SEED) is None
    assert _bad(damaged) == [at + 1]


@given(FILES, st.data())
def test_a_repeated_line_is_found(lines: list[bytes], data: st.DataObject) -> None:
    at, to = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, len(lines)))
    damaged = [*lines[:to], lines[at], *lines[to:]]
    assert check_block(b"".join(damaged), SEED) is None
    assert _bad(damaged)


@given(FILES, st.data())
def test_two_lines_in_the_wrong_order_are_found(lines: list[bytes], data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2, unique=True)))
    damaged = list(lines)
    damaged[first], damaged[second] = lines[second], lines[first]
    assert check_block(b"".join(damaged), SEED) is None
    assert first + 1 in _bad(damaged)


@given(FILES, VALUES, st.data())
def test_an_inserted_line_is_found_with_and_without_a_checksum_of_its_own(
    lines: list[bytes], record: Record, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(lines)))
    plain = msgspec.json.encode(record)
    other = add_checksum(plain, data.draw(st.integers(1, 2**32 - 1)))[0]
    foreign = other if data.draw(st.booleans()) else plain + b"\n"
    damaged = [*lines[:at], foreign, *lines[at:]]
    seed = SEED if at == 0 else _after(lines[at - 1])
    assume(foreign != add_checksum(plain, seed)[0])
    assert check_block(b"".join(damaged), SEED) is None
    assert _bad(damaged) == [at + 1]


@given(FILES, st.data())
def test_bytes_cut_from_the_middle_are_found(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(lines)
    begin = data.draw(st.integers(0, len(text) - 2))
    end = data.draw(st.integers(begin + 1, len(text) - 1))
    rest = text[:begin] + text[end:]
    assume(rest != text)
    assert check_block(rest, SEED) is None
    assert list(find_bad_lines(rest, SEED))


@given(FILES, st.data())
def test_a_cut_at_the_end_leaves_a_torn_line_or_a_shorter_intact_file(lines: list[bytes], data: st.DataObject) -> None:
    text = b"".join(lines)
    rest = text[: data.draw(st.integers(0, len(text) - 1))]
    whole = rest[: rest.rfind(b"\n") + 1]
    assert check_block(whole, SEED) is not None
    lengths = {0, *(len(b"".join(lines[:number])) for number in range(len(lines)))}
    assert len(whole) in lengths
    if rest != whole:
        assert not has_checksum(rest[len(whole) :])


@given(FILES, st.data())
def test_each_of_two_distant_changes_is_named(lines: list[bytes], data: st.DataObject) -> None:
    numbers = sorted(data.draw(st.sets(st.integers(0, len(lines) - 1), min_size=2, max_size=2)))
    assume(all(after - before > 1 for before, after in pairwise(numbers)))
    damaged = list(lines)
    for number in numbers:
        damaged[number] = damaged[number].replace(b"{", b"[", 1)
    assert _bad(damaged) == [number + 1 for number in numbers]


def test_places_of_bad_lines_are_counted_from_the_begin_of_the_file() -> None:
    lines = list(_written([{"a": number} for number in range(4)]))
    rest = b"".join([lines[2].replace(b"2", b"7", 1), lines[3]])
    seed, offset = _after(lines[1]), len(lines[0] + lines[1])
    found = find_bad_lines(rest, seed, line=3, offset=offset)
    assert list(map(msgspec.structs.astuple, found)) == [(3, offset, False)]


@pytest.mark.parametrize("line", [b"", b"\n", b'{"a":1}\n', b'{"a":1,"c":"0123456"}\n', b'{"a":1,"c":"0123456G"}\n'])
def test_a_line_of_another_form_has_no_checksum(line: bytes) -> None:
    assert not has_checksum(line)
    assert checksum_after(line) is None
