"""Expressions give numbers, truth values or errors with a message, whatever they are made of."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import ConfigError
from longshore.sites.select import Expression, UndefinedNameError

NAMES: dict[str, float | str] = {"a": 3.0, "b": 0.0, "free": 5, "name": "gpu", "long_name": 2.5}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4 / 8 % 5", 6.5),
        ("2 ** 3", 8.0),
        ("-a + +1", -2.0),
        ("(a * (free * 2)/60/60)", 30 / 3600),
        ("min(100, a - 100)", -97.0),
        ("max(1, a, free)", 5.0),
        ("free > 0 && !(a < 1) || false", True),
        ("free > 0 and not b", True),
        ("1 < a <= 3", True),
        ("a != 3", False),
        ("name == 'gpu'", True),
        ("name == 'a && b'", False),
        ("name != 3", True),
        ("a if b > 0 else free", 5.0),
        ("true", True),
        ("False || a == 3", True),
        (" a\n + b ", 3.0),
    ],
)
def test_values(text: str, value: float | bool) -> None:
    assert Expression(text).evaluate(NAMES) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no expression"),
        ("a >", "is no expression"),
        ("a ? b : 1", "is no expression"),
        ("a; b", "is no expression"),
        ("a = 1", "is no expression"),
        ("__import__('os').system('x')", "which an expression cannot have"),
        ("a.real", "which an expression cannot have"),
        ("[1, 2]", "which an expression cannot have"),
        ("(lambda: 1)()", "which an expression cannot have"),
        ("f'{a}'", "which an expression cannot have"),
        ("a := 1", "is no expression"),
        ("min(1)", "which an expression cannot have"),
        ("min(1, 2, key=3)", "which an expression cannot have"),
        ("pow(1, 2)", "which an expression cannot have"),
        ("1 // 2", "which an expression cannot have"),
        ("~1", "is no expression"),
        ("a in name", "compares by"),
        ("1j", "which an expression cannot have"),
        ("None", "which an expression cannot have"),
        ("x" * 1001, "at most 1000 characters"),
        ("+".join("1" * 400), "is too large"),
        ("-" * 300 + "1", "is too large"),
        ("(" * 300 + "1" + ")" * 300, "is no expression"),
        ("1" * 900, "a number that is too large"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / b", "divides by zero"),
        ("9 ** 9 ** 9 ** 9", "has a value that is too large"),
        ("(0 - 8) ** 0.5", "is no number"),
        ("name + 1", "is no number"),
        ("1 if name else 2", "no condition"),
        ("1e308 * 10", "is not finite"),
    ],
)
def test_what_has_no_value_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Expression(text).evaluate(NAMES)


def test_an_undefined_name_is_named() -> None:
    expression = Expression("a + nosuch")
    assert expression.names == {"a", "nosuch"}
    with pytest.raises(UndefinedNameError, match="'nosuch' has no value"):
        expression.evaluate(NAMES)


PARTS = [
    *NAMES, "nosuch", "1", "0", "2.5", "1e300", "99999999999999999999", "'x'", '"', "'", "(", ")", "[", "]", "{", "}",
    "+", "-", "*", "/", "%", "**", "//", "<", ">", "<=", "==", "!=", "!", "&&", "||", "and", "or", "not", "if", "else",
    "min", "max", ",", ".", ":", ";", "=", "lambda", "for", "in", "await", "\\", "\n", "\t", "\0", "#", "é", " ",
]  # fmt: skip


def evaluate(text: str) -> float | bool | str | None:
    """Return the value of a text, or `None` if it has none."""
    try:
        return Expression(text).evaluate(NAMES)
    except ConfigError:
        return None


def test_ten_thousand_texts_cause_no_other_error() -> None:
    chance = random.Random(21)
    for _ in range(10_000):
        text = chance.choice(["", " "]).join(chance.choices(PARTS, k=chance.randint(0, 30)))
        assert isinstance(evaluate(text), float | bool | str | None)


@given(st.text(max_size=100))
def test_any_text_causes_no_other_error(text: str) -> None:
    assert isinstance(evaluate(text), float | bool | str | None)
