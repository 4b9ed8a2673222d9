"""Types of parameters refuse an empty name and what is no number, in usual words."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.cli.options import OUTPUT_FILE, STDOUT, Number, WholeNumber


@pytest.mark.parametrize("text", ["abc", "nan", "NaN", "", "0.5", "11", "inf"])
def test_what_is_no_number_of_the_range_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        Number(min=1.0, max=10.0)(text)
    assert "range type" not in caught.value.message
    assert repr(text) in caught.value.message or "not in the range 1.0<=x<=10.0" in caught.value.message


@given(st.floats(1.0, 10.0))
def test_numbers_of_the_range_are_taken(number: float) -> None:
    assert Number(min=1.0, max=10.0)(repr(number)) == number


def test_a_whole_number_is_named_so() -> None:
    with pytest.raises(click.BadParameter, match="'x' is not a valid whole number"):
        WholeNumber(min=1)("x")


def test_a_file_has_a_name() -> None:
    with pytest.raises(click.BadParameter, match="the name of the file is empty"):
        OUTPUT_FILE.convert("", None, None)
    assert OUTPUT_FILE.convert("-", None, None) == STDOUT
