"""Amounts may be arithmetic with numbers and pure functions; any other text stays as it is."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.interpolate import evaluate_amount
from longshore.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100 * 3", "300"),
        ("250.5 * 2", "501"),
        ("1 / 3 * 3 + 0.5", "1.5"),
        ("(1 + 2) * 4 GB", "12 GB"),
        ("(1 +\n 2)\n * 4", "12"),
        ("10 - 4", "6"),
        ("7 // 2 + 7 % 4", "6"),
        ("-2 * -3", "6"),
        ("max(200, 100 * 3)", "300"),
        ("round(2.6) + int(3.9) MiB", "6 MiB"),
        ("sum([1, 2, 3])", "6"),
        ("bpsEval(max, [1, 5]) * 2", "10"),
        ("0.0000001 * 1", "0.0000001"),
        # Not arithmetic:
        ("2048", "2048"),
        ("1.5 GiB", "1.5 GiB"),
        ("1:30:00", "1:30:00"),
        ("2-03:00:00", "2-03:00:00"),
        ("1h30m", "1h30m"),
        ("", ""),
    ],
)
def test_arithmetic_is_evaluated_and_other_text_is_kept(text: str, value: str) -> None:
    assert evaluate_amount(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 / 0", "divides by zero"),
        ("x * 3", "is no arithmetic with numbers"),
        ("2 ** 9", "is no arithmetic with numbers"),
        ("(1, 2)", "is no arithmetic with numbers"),
        ("open(1)", "calls the unknown function 'open'"),
        ("rund(1.5)", "calls the unknown function 'rund'"),
        ("int()() * 2", "is no arithmetic with numbers"),
        ("str(1) + 1", "is no arithmetic with numbers"),
        ("round(1, 999)", "asks for more than 100 digits"),
    ],
)
def test_what_cannot_be_evaluated_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        evaluate_amount(text)
    assert problem in caught.value.message


@given(st.text("0123456789.+-*/%()[], aemxinrud_KMGiB:", max_size=30))
def test_any_text_is_evaluated_kept_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(evaluate_amount(text), str)


@given(st.integers(0, 10**18), st.decimals(0, 10**6, places=2), st.sampled_from(["", " GB", "MiB"]))
def test_texts_that_differ_in_numbers_only_have_values_of_their_own(whole: int, part: Decimal, unit: str) -> None:
    text = f"max({whole}, 7) + {whole} // 3 - ({part} + 0){unit}"
    value = Decimal(evaluate_amount(text).removesuffix(unit.strip()))
    assert value == Decimal(repr(max(whole, 7) + whole // 3 - (float(part) + 0)))


@pytest.mark.parametrize("text", ["1.5.2 * 3", "1 2 * 3"])
def test_a_malformed_number_is_an_error_after_a_good_one_of_its_form(text: str) -> None:
    assert evaluate_amount("12 * 3") == "36"
    with pytest.raises(ConfigError, match="is no arithmetic"):
        evaluate_amount(text)
