"""Regular expressions of users are bounded in length and groups, and every error is one kind."""

from __future__ import annotations

import pytest

from longshore.model.values import MAX_GROUPS, MAX_REGEX_LENGTH, RegexError, compile_regex


def test_an_expression_is_compiled_for_text_and_for_bytes() -> None:
    assert compile_regex("a(b)").search("xab")
    assert compile_regex(b"a(b)").search(b"xab")
    assert compile_regex("^b", multiline=True).search("a\nb")
    assert not compile_regex("^b").search("a\nb")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(" * 5000, "characters"),
        ("(" * 3000 + ")" * 1000, "parentheses"),
        ("((((" + "(" * MAX_GROUPS + ")" * (MAX_GROUPS + 4), "parentheses"),
        ("x" * (MAX_REGEX_LENGTH + 1), "characters"),
        ("a{99999999999999999999}", "too large"),
        ("a(", "at character 2"),
        ("[[:", "at character"),
        (r"\1", "at character"),
    ],
)
def test_what_is_no_expression_or_too_large_is_one_error(text: str, reason: str) -> None:
    for each in (text, text.encode()):
        with pytest.raises(RegexError, match=reason):
            compile_regex(each)


def test_an_expression_within_the_bounds_compiles() -> None:
    assert compile_regex("(?:" * MAX_GROUPS + "a" + ")" * MAX_GROUPS).fullmatch("a")
    assert compile_regex("a" * MAX_REGEX_LENGTH).fullmatch("a" * MAX_REGEX_LENGTH)
