"""A search finds what the matcher finds, in short and long texts, and a slow one is given up."""

from __future__ import annotations

import re
from os import times
from time import process_time

import pytest

from longshore.system.host import CpuLimitError
from longshore.system.regex_search import find_match, select_matching

LONG = "x" * 100_000


@pytest.mark.parametrize("padding", ["", LONG, LONG + "\n"])
@pytest.mark.parametrize(
    "regex", ["a+b", "^a+", "c$", r"(?s)a.*c", r"\ba(b)?", "é[b-d]*", "never", "(?P<n>x{0})", "[\ud800]+|a*c"]
)
def test_a_match_is_that_of_the_matcher(regex: str, padding: str) -> None:
    pattern = re.compile(regex, re.MULTILINE)
    text = f"{padding}aab é aab c\nac\n{padding}\ud800"
    matches = list(pattern.finditer(text))
    for expected, is_last in ((matches[:1], False), (matches[-1:], True)):
        found = find_match(pattern, text, seconds=10.0, is_last=is_last)
        assert [(each.span(), each.groups()) for each in expected] == (
            [(found.span(), found.groups())] if found else []
        )


@pytest.mark.parametrize("padding", [b"", LONG.encode()])
def test_lines_that_match_are_selected(padding: bytes) -> None:
    lines = [b"a1" + padding, padding + b"b", padding + b"a22", b"", b"\xff a3"]
    assert select_matching(re.compile(rb"a\d+"), lines, seconds=10.0) == [lines[0], lines[2], lines[4]]
    assert select_matching(re.compile(rb"a\d"), [], seconds=10.0) == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("regex", ["[^y]*y", "(x+)+$", "x*y|x*z|x*w"])
def test_a_search_that_would_take_minutes_is_given_up(regex: str) -> None:
    with pytest.raises(CpuLimitError, match=r"0\.2 s"):
        find_match(re.compile(regex), LONG * 10 + "!", seconds=0.2)
    with pytest.raises(CpuLimitError):
        select_matching(re.compile(regex.encode()), [LONG.encode() * 10 + b"!"], seconds=0.2)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("regex", "flags"),
    [("(((x+)+)+)+$", 0), ("((x*)*)*y", 0), ("((x+)  +\n ) + $", re.VERBOSE), ("(x+x+)+y|(z+)*y", 0)],
)
def test_nested_repetitions_keep_the_limit_on_a_short_text(regex: str, flags: int) -> None:
    before = process_time() + sum(times()[2:4])
    with pytest.raises(CpuLimitError, match=r"0\.2 s"):
        find_match(re.compile(regex, flags), "x" * 60 + "!", seconds=0.2)
    assert process_time() + sum(times()[2:4]) - before < 1.5
