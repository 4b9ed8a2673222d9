"""The end of a log, whatever is in it, and however long it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.system.reading import read_tail


def written(tmp_path: Path, text: bytes) -> Path:
    path = tmp_path / "log"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", ()),
        (b"\n\n  \n", ()),
        (b"one", ("one",)),
        (b"one\ntwo\nthree\n\n", ("two", "three")),
        (b"a\tb\n", ("a       b",)),
        (b"\x1b[31mred\x1b[0m\x1b[K\n", ("red",)),
        (b"10 %\r50 %\r99 %\nend\n", ("99 %", "end")),
        (b"windows\r\nlines\r\n", ("windows", "lines")),
        (b"\x1b[2Jclear\n", ("\x1b[2Jclear",)),
        (b"caf\xe9\n", ("caf\ufffd",)),
        (b"begin\n" + bytes(100_000), ("<null characters>",)),
        (b"begin\n" + bytes(1000) + b"end\0\n", ("begin", "<null characters>end\0")),
    ],
)
def test_last_lines(tmp_path: Path, text: bytes, lines: tuple[str, ...]) -> None:
    assert read_tail(written(tmp_path, text), 2) == lines


def test_of_five_gigabytes_only_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(5 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
    assert read_tail(path, 2) == ("last but one", "last")
    assert len(read_tail(path, 3) or ()) == 2, "what is cut is left out"


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    (line,) = read_tail(written(tmp_path, b"x" * 300_000), 20) or ()
    assert len(line) == 500
    assert line.endswith("…")


def test_only_regular_files_have_a_tail(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert read_tail(tmp_path / "pipe", 3) is None
    assert read_tail(tmp_path, 3) is None
    assert read_tail(tmp_path / "none", 3) is None


@given(st.binary(max_size=400), st.integers(1, 5))
def test_any_bytes_give_few_short_lines(tmp_path_factory: pytest.TempPathFactory, text: bytes, number: int) -> None:
    lines = read_tail(written(tmp_path_factory.mktemp("log"), text), number)
    assert lines is not None
    assert len(lines) <= number
    assert not any("\n" in line for line in lines)
