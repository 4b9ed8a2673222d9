"""Evaluates arithmetic with numbers and pure functions, for amounts that differ from job to job."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from longshore.config.values.bps_eval import FunctionCall, call_pure_function, evaluate_calls
from longshore.errors import ConfigError
from longshore.model.wording import quote_value
from longshore.origin import Origin

_EXPRESSION: Final = re.compile(
    r"\s*(?P<numbers>[\w\s.,+*/%()\[\]-]*?[\w.)\]])(?:(?<=[\d)\]])\s*(?P<unit>[kKmMgGtTpPeE]?i?[bB]))?\s*", re.ASCII
)
"""Arithmetic, and perhaps a unit of memory behind it."""
_OPERATOR: Final = re.compile(r"[*/%+(]|[\w.]\s+-|-\s+\w", re.ASCII)
_NUMBER: Final = re.compile(r"(?<![\w.])(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.])", re.ASCII)
"""Number as Python writes it, without an exponent."""
_MAX_LENGTH: Final = 1000
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate_amount(text: str, origin: Origin | None = None) -> str:
    """Evaluate the arithmetic in a text, and calls of pure functions; any other text is unchanged.

    Raises
    ------
    ConfigError
        The text is arithmetic, and cannot be evaluated.
    """
    text = evaluate_calls(text, origin, None)
    if len(text) > _MAX_LENGTH:
        return text
    try:
        # Texts of one label differ in their numbers only, and parsing takes longest.
        formula = _parse_formula(_NUMBER.sub("0", text))
        if formula is None:
            return text
        values = [float(each) if "." in each else int(each) for each in _NUMBER.findall(text)]
        value = _number(formula.evaluate(_Numbers(values, text, origin)))
        written = str(value) if isinstance(value, int) else format(Decimal(repr(value)).normalize(), "f")
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        problem = "divides by zero" if isinstance(error, ZeroDivisionError) else "is no arithmetic with numbers"
        raise ConfigError(
            f"{quote_value(text)} {problem}",
            origin=origin,
            hint="For example '{sample.size_mb} * 3' or 'round({sample.size_mb} / 2) GB'.",
        ) from None
    return f"{written} {formula.unit}" if formula.unit else written


class _Numbers(NamedTuple):
    """Numbers of one text, which take the places of the zeros of its formula."""

    values: Sequence[int | float]
    text: str
    origin: Origin | None


_Evaluator: TypeAlias = Callable[[_Numbers], object]


class _Formula(NamedTuple):
    """Arithmetic whose numbers are zeros, and the unit of memory behind it."""

    evaluate: _Evaluator
    unit: str


@lru_cache(maxsize=256)
def _parse_formula(text: str) -> _Formula | None:
    """Parse a text whose numbers are zeros; ``None`` if it is no arithmetic."""
    found = _EXPRESSION.fullmatch(text) if _OPERATOR.search(text) else None
    if found is None:
        return None
    # On one line, each number has a place of its own.
    numbers = " ".join(found["numbers"].split())
    places = {each.start(): index for index, each in enumerate(_NUMBER.finditer(numbers))}
    return _Formula(_compile(ast.parse(numbers, mode="eval").body, places), found["unit"] or "")


def _compile(node: ast.expr, places: Mapping[int, int]) -> _Evaluator:
    """Compile a node; `places` has the index of each number by its place in the text.

    Raises `TypeError` if it is no arithmetic.
    """
    match node:
        case ast.Constant(value=int() | float() as number):
            if node.col_offset not in places:
                return lambda _: number
            index = places[node.col_offset]
            return lambda numbers: numbers.values[index]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            members = [_compile(item, places) for item in items]
            return lambda numbers: [member(numbers) for member in members]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _compile(operand, places)
            return lambda numbers: -_number(positive(numbers))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            operate, one, other = _OPERATORS[type(sign)], _compile(left, places), _compile(right, places)
            return lambda numbers: operate(_number(one(numbers)), _number(other(numbers)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            values = [_compile(argument, places) for argument in arguments]
            return lambda numbers: call_pure_function(
                FunctionCall(name, tuple([value(numbers) for value in values]), {}, numbers.text, numbers.origin)
            )
    raise TypeError(node)


def _number(value: object) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise TypeError(value)
