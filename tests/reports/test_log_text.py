"""Logs are read from their end, by pattern and in chunks, with the same result as in one read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import RunNotFoundError, RunUnreadableError, UsageError
from longshore.reports import logs as log_text
from longshore.reports.logs import (
    LineMatcher,
    compile_pattern,
    matching_lines,
    open_log,
    read_chunks,
    tail_offset,
)

logs = st.lists(st.sampled_from([b"a", b"bb\n", b"\n", b"\x00\xff", b"c\n\n", b"long" * 9]), max_size=30).map(b"".join)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything happens at the borders of pieces: they are small here."""
    monkeypatch.setattr(log_text, "_CHUNK_B", 7)


@given(logs, st.integers(0, 12))
def test_the_tail_is_the_last_lines(tmp_path: Path, text: bytes, lines: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(text)
    file = open_log(path)
    tail = b"".join(read_chunks(file, tail_offset(file, lines)))
    os.close(file)
    assert tail == b"".join(text.splitlines(keepends=True)[-lines:] if lines else []) or b"\r" in text


@given(st.lists(st.sampled_from([b"a", b"bb\n", b"\n", b"\x00\n"]), max_size=30).map(b"".join))
def test_matching_lines_do_not_depend_on_chunks(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(text)
    lines = text.split(b"\n")
    if all(len(line) < 7 for line in lines):
        file = open_log(path)
        found = list(matching_lines(file, re.compile(rb"b|\x00")))
        os.close(file)
        assert found == [line for line in lines if b"b" in line or b"\0" in line]


def test_an_endless_line_is_matched_in_chunks() -> None:
    matcher = LineMatcher(re.compile(b"xx"))
    assert list(matcher.take(b"xx" * 10)) == [b"xx" * 10]
    assert list(matcher.end()) == []


def test_missing_logs_and_invalid_patterns_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RunNotFoundError, match="is not there"):
        open_log(tmp_path / "none")
    with pytest.raises(RunUnreadableError, match="Is a directory"):
        open_log(tmp_path)
    with pytest.raises(UsageError, match="is no regular expression"):
        compile_pattern("a(")
