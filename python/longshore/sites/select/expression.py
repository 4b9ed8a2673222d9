"""Expressions over the state of sites: numbers, texts, comparisons, ``min`` and ``max``, without `eval`.

The work is bounded: texts are short, syntax trees are small, and numbers are floats, whose powers overflow at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

from longshore.errors import ConfigError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.wording import quote_value

Value: TypeAlias = "float | bool | str"
Names: TypeAlias = Mapping[str, "float | str"]
_Evaluator: TypeAlias = Callable[[Names], Value]

_MAX_LENGTH: Final = 1000
_MAX_NODES: Final = 200
_MAX_DEPTH: Final = 50
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[float, float], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CONSTANTS: Final = {"true": True, "false": False, "True": True, "False": False}
_TOKEN: Final = re.compile(r"'[^']*'|\"[^\"]*\"|&&|\|\||!=|!|[^'\"&|!]+|.", re.DOTALL)
_WORDS: Final = {"&&": " and ", "||": " or ", "!": " not "}
_HINT: Final = "For example 'nodes_free > 0 and cost < 3', 'min(100, memory_per_node - 100)', 'a if b > 0 else c'."


class UndefinedNameError(ConfigError):
    """An expression uses a name without a value."""

    def __init__(self, name: str) -> None:
        super().__init__(f"'{name}' has no value")
        self.name = name


class Expression:
    """An expression that was read; `names` are those that it uses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._evaluator, self.names = _parse(text)

    def evaluate(self, names: Names) -> Value:
        """Return the value with these names.

        Raises `UndefinedNameError` if a name has no value, `ConfigError` if an operation is impossible.
        """
        try:
            value = self._evaluator(names)
        except (TypeError, ValueError, ArithmeticError) as error:
            kinds: dict[type[Exception], str] = {
                ZeroDivisionError: "divides by zero",
                OverflowError: "has a value that is too large",
            }
            why = kinds.get(type(error)) or f"cannot be evaluated: {error}"
            raise ConfigError(f"{quote_value(self.text)} {why}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{quote_value(self.text)} is not finite")
        return value


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[_Evaluator, frozenset[str]]:
    """Parse an expression, and find its names; raises `ConfigError` if it is none."""
    if len(text) > _MAX_LENGTH:
        raise ConfigError(f"an expression has at most {_MAX_LENGTH} characters, and this one {len(text)}")
    # The line has no indentation, and Python's words for C's operators.
    line = "".join(_WORDS.get(token, token) for token in _TOKEN.findall(" ".join(text.split())))
    try:
        with warnings.catch_warnings():
            # Python warns of what it will refuse one day, such as '1or 2'.
            warnings.simplefilter("ignore")
            tree = ast.parse(line.strip(), mode="eval").body
    except (SyntaxError, MemoryError, *DECODE_ERRORS):
        way_out = "Write 'A if CONDITION else B' for a choice. " if "?" in text else ""
        raise ConfigError(f"{quote_value(text)} is no expression", hint=way_out + _HINT) from None
    names: set[str] = set()
    compiler = _Compiler(text, names)
    return compiler.compile(tree, 0), frozenset(names)


class _Compiler:
    """Turns a syntax tree into functions; only known kinds of nodes have one."""

    def __init__(self, text: str, names: set[str]) -> None:
        self._text = text
        self._names = names
        self._count = 0

    def compile(self, node: ast.expr, depth: int) -> _Evaluator:
        """Compile one node; raises `ConfigError` if it is not allowed."""
        self._count += 1
        if self._count > _MAX_NODES or depth > _MAX_DEPTH:
            raise ConfigError(f"{quote_value(self._text)} is too large: an expression has at most {_MAX_NODES} parts")
        match node:
            case ast.Constant(value=bool() | str() as constant):
                return lambda _: constant
            case ast.Constant(value=int() | float() as number):
                value = self._number(number)
                return lambda _: value
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=sign, operand=operand):
                return self._unary(sign, self.compile(operand, depth + 1))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _binary(_OPERATORS[type(sign)], self.compile(left, depth + 1), self.compile(right, depth + 1))
            case ast.BoolOp() | ast.Compare() | ast.IfExp():
                return self._condition(node, depth)
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_] as arguments, keywords=[]):
                values_of = [self.compile(each, depth + 1) for each in arguments]
                choose = min if name == "min" else max
                return lambda names: choose(_as_number(value(names)) for value in values_of)
        raise ConfigError(
            f"{quote_value(self._text)} has '{ast.unparse(node)}', which an expression cannot have", hint=_HINT
        )

    def _condition(self, node: ast.BoolOp | ast.Compare | ast.IfExp, depth: int) -> _Evaluator:
        match node:
            case ast.BoolOp(op=sign, values=values):
                parts = [self.compile(each, depth + 1) for each in values]
                join = all if isinstance(sign, ast.And) else any
                return lambda names: join(is_true(part(names)) for part in parts)
            case ast.Compare(left=left, ops=signs, comparators=others):
                return _comparison(signs, [self.compile(each, depth + 1) for each in [left, *others]])
        condition, yes, no = (self.compile(each, depth + 1) for each in (node.test, node.body, node.orelse))
        return lambda names: yes(names) if is_true(condition(names)) else no(names)

    def _number(self, number: float) -> float:
        try:
            return float(number)
        except OverflowError:
            raise ConfigError(f"{quote_value(self._text)} has a number that is too large") from None

    def _name(self, name: str) -> _Evaluator:
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda _: constant
        self._names.add(name)

        def look_up(names: Names) -> Value:
            if name not in names:
                raise UndefinedNameError(name)
            value = names[name]
            return value if isinstance(value, str | bool) else float(value)

        return look_up

    def _unary(self, sign: ast.unaryop, operand: _Evaluator) -> _Evaluator:
        match sign:
            case ast.Not():
                return lambda names: not is_true(operand(names))
            case ast.USub():
                return lambda names: -_as_number(operand(names))
            case ast.UAdd():
                return lambda names: _as_number(operand(names))
        raise ConfigError(f"{quote_value(self._text)} is no expression", hint=_HINT)


def is_true(value: Value) -> bool:
    """Whether a condition holds; raises `TypeError` for a text, which is no condition."""
    if isinstance(value, str):
        raise TypeError(f"the text {quote_value(value)} is no condition")
    return bool(value)


def _binary(operate: Callable[[float, float], float], left: _Evaluator, right: _Evaluator) -> _Evaluator:
    def evaluate(names: Names) -> Value:
        value = operate(_as_number(left(names)), _as_number(right(names)))
        # A power of a negative number may be complex.
        return _as_number(value)

    return evaluate


def _comparison(signs: list[ast.cmpop], parts: list[_Evaluator]) -> _Evaluator:
    for sign in signs:
        if type(sign) not in _COMPARISONS and not isinstance(sign, ast.Eq | ast.NotEq):
            raise ConfigError("an expression compares by <, <=, >, >=, == and != only", hint=_HINT)

    def evaluate(names: Names) -> bool:
        values = [part(names) for part in parts]
        return all(_compare(sign, *pair) for sign, pair in zip(signs, pairwise(values), strict=True))

    return evaluate


def _compare(sign: ast.cmpop, left: Value, right: Value) -> bool:
    match sign:
        case ast.Eq():
            return left == right
        case ast.NotEq():
            return left != right
    return _COMPARISONS[type(sign)](_as_number(left), _as_number(right))


def _as_number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    raise TypeError(f"{quote_value(str(value))} is no number")
