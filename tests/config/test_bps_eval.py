"""`bpsEval` is worked out for pure functions of literals, and never runs anything else by itself."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.interpolate import FunctionCall, Scope, evaluate_calls, impure_calls
from longshore.config.merge import LayerRank, make_layer
from longshore.config.search import Config
from longshore.config.templates import Template
from longshore.errors import ConfigError, LongshoreError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v=bpsEval(max, [1, 7])", "v=7"),
        ("bpsEval(min, 3, 2) and bpsEval(sum, [1, 2])", "2 and 3"),
        ("bpsEval(len, 'a)b(')", "4"),
        ("bpsEval(round, 2.5678, 2)", "2.57"),
        ("bpsEval(abs,-3)", "3"),
        ("bpsEval(sorted, [2, 1], reverse=True)", "[2, 1]"),
        ("bpsEval(str, 'x') bpsEval(int, '12') bpsEval(float, 1)", "x 12 1.0"),
        ("bpsEval(str)", ""),
        ("bpsEval(max, [1, bpsEval(min, [5, 9])])", "5"),
        ("bpsEval(max, [\n  1,\n  2,\n])", "2"),
        ("bpsEval(os.getcwd)", "bpsEval(os.getcwd)"),
        ("bpsEval(max, [1, bpsEval(my.f, 'x')]) bpsEval(max, 1, 2)", "bpsEval(max, [1, bpsEval(my.f, 'x')]) 2"),
        ("bpsEval(open, '/etc/passwd')", "bpsEval(open, '/etc/passwd')"),
    ],
)
def test_calls(text: str, expected: str) -> None:
    assert evaluate_calls(text, None, None) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bpsEval", "is no call of a function"),
        ("bpsEval(max, [1, 2]", "has no closing parenthesis"),
        ("bpsEval(max, [1, x])", "are no literals"),
        ("bpsEval(max, __import__('os').getpid())", "are no literals"),
        ("bpsEval(max, **{'a': 1})", "are no literals"),
        ("bpsEval(max, 1), [2]) + (3", "fails"),
        ("bpsEval(__import__('os').system, 'ls')", "is no call of a function"),
        ("bpsEval(max, [])", "fails"),
        ("bpsEval(int, 'x')", "fails"),
        ("bpsEval(int, '" + "9" * 5000 + "')", "fails"),
        ("bpsEval(round, 5, -999999999)", "more than 100 digits"),
        ("bpsEval(round, 5, ndigits=-999999999)", "more than 100 digits"),
        ("bpsEval(str, '" + "x" * 20000 + "')", "is longer than"),
        ("bpsEval(max, 1, " * 30 + "2" + ")" * 30, "deep"),
        ("bpsEval(len, " + "[" * 4000 + "]" * 4000 + ")", "are no literals"),
    ],
)
def test_what_is_no_call(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate_calls(text, None, None)


def test_other_functions_go_to_whoever_calls_them() -> None:
    seen: list[FunctionCall] = []

    def caller(call: FunctionCall) -> object:
        seen.append(call)
        return 5

    text = "a bpsEval(my.f, [1, bpsEval(max, 2, 3)], x='y') b"
    assert evaluate_calls(text, None, caller) == "a 5 b"
    assert [(call.name, call.arguments, call.options) for call in seen] == [("my.f", ([1, 3],), {"x": "y"})]
    assert list(impure_calls(text)) == ["my.f"]


def config_of(caller: object = None, **values: object) -> Config:
    return Config(make_layer(values, "x", LayerRank.FILE).root, caller)  # type: ignore[arg-type]


def test_variables_are_filled_in_first() -> None:
    config = config_of(n=7, m="bpsEval(max, [1, {n}])", v="{m} bpsEval(len, '{m}')")
    assert config.search("v").value == "7 1"
    assert config_of(lambda call: call.name, v="bpsEval(my.f)").search("v").value == "my.f"


def test_what_differs_from_job_to_job_cannot_be_worked_out_yet() -> None:
    with pytest.raises(ConfigError, match="cannot wait for 'visit'"):
        config_of(v="bpsEval(max, [1, {visit}])").template("v", Scope(free=["visit"]))
    assert str(config_of(v="bpsEval(max, 1, 2) {visit}").template("v", Scope(free=["visit"]))) == "2 {visit}"
    assert config_of(v="<visit>").template("v", Scope(free=["visit"])) == Template(
        config_of(v="{visit}").template("v", Scope(free=["visit"])).parts  # type: ignore[union-attr]
    )


@given(st.text("bpsEval(max, [1'\"])\\{}x", max_size=40).map(lambda text: f"bpsEval({text}"))
def test_any_text_is_worked_out_or_refused_by_us(text: str) -> None:
    with suppress(LongshoreError):
        evaluate_calls(text, None, None)
