"""Evaluates arithmetic with numbers and pure functions, for amounts that differ from job to job."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from longshore.config.values.bps_eval import FunctionCall, call_pure_function, evaluate_calls
from longshore.config.values.templates import quote_value
from longshore.errors import ConfigError
from longshore.origin import Origin

_EXPRESSION: Final = re.compile(
    r"\s*(?P<numbers>[\w\s.,+*/%()\[\]-]*?[\w.)\]])(?:(?<=[\d)\]])\s*(?P<unit>[kKmMgGtTpPeE]?i?[bB]))?\s*", re.ASCII
)
"""Arithmetic, and perhaps a unit of memory behind it."""
_OPERATOR: Final = re.compile(r"[*/%+(]|[\w.]\s+-|-\s+\w", re.ASCII)
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
    found = _EXPRESSION.fullmatch(text) if len(text) <= _MAX_LENGTH and _OPERATOR.search(text) else None
    if found is None:
        return text
    try:
        tree = ast.parse(found["numbers"].strip(), mode="eval").body
        value = _number(_evaluate(tree, text, origin))
        written = str(value) if isinstance(value, int) else format(Decimal(repr(value)).normalize(), "f")
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        problem = "divides by zero" if isinstance(error, ZeroDivisionError) else "is no arithmetic with numbers"
        raise ConfigError(
            f"{quote_value(text)} {problem}",
            origin=origin,
            hint="For example '{sample.size_mb} * 3' or 'round({sample.size_mb} / 2) GB'.",
        ) from None
    return f"{written} {found['unit']}" if found["unit"] else written


def _evaluate(node: ast.expr, text: str, origin: Origin | None) -> object:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_evaluate(item, text, origin) for item in items]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_evaluate(operand, text, origin))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            one, other = (_number(_evaluate(each, text, origin)) for each in (left, right))
            return _OPERATORS[type(sign)](one, other)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            values = tuple(_evaluate(argument, text, origin) for argument in arguments)
            return call_pure_function(FunctionCall(name, values, {}, text, origin))
    raise TypeError(text)


def _number(value: object) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise TypeError(value)
