"""Binds a parsed ``dataQuery`` to the values of dimensions: conditions that are tested column by column."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, TypeAlias

import msgspec

from longshore.graph.query.query import (
    Column,
    Comparison,
    Connective,
    Expression,
    Literal,
    Membership,
    Operand,
    Test,
    query_error,
)
from longshore.graph.query.tables import Value, ValueKind, value_kind
from longshore.model.wording import quote_value
from longshore.origin import Origin

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FLIPPED: Final = bytes([1, 0]) + bytes(range(2, 256))


class ColumnValues(msgspec.Struct, frozen=True):
    """Values of a column of a query, one for each value of a dimension."""

    dimension: str
    values: Sequence[Value]
    """Indexed by the code of the dimension's value."""
    kind: ValueKind


ColumnResolver: TypeAlias = Callable[[Column], ColumnValues]
"""Resolves a column, or raises `ConfigError`."""
Codes: TypeAlias = Mapping[str, Sequence[int]]
"""Per dimension, the code of its value in each row."""


class Mask(msgspec.Struct, frozen=True):
    """A test of one dimension: 1 for each value that passes, else 0."""

    dimension: str
    passes: bytes


class ColumnComparison(msgspec.Struct, frozen=True):
    """A comparison of columns of two dimensions."""

    operator: str
    left: ColumnValues
    right: ColumnValues


class Constant(msgspec.Struct, frozen=True):
    """A test that depends on no dimension."""

    passes: bool


Step: TypeAlias = Mask | ColumnComparison | Constant | Connective


class Condition(msgspec.Struct, frozen=True):
    """One of the conditions of a query; all must hold."""

    dimensions: frozenset[str]
    steps: tuple[Step, ...]
    """Tests and connectives in postfix order, without NOT."""

    @property
    def equality(self) -> ColumnComparison | None:
        """The comparison, if the condition is only that two columns are equal."""
        step = self.steps[0]
        return step if len(self.steps) == 1 and isinstance(step, ColumnComparison) and step.operator == "=" else None

    def passes(self, codes: Codes, rows: int) -> bytes:
        """Test rows: 1 for each row that satisfies the condition, else 0."""
        # One large integer holds a byte per row: a connective is one step for all rows.
        stack: list[int] = []
        for step in self.steps:
            if step is Connective.AND:
                stack.append(stack.pop() & stack.pop())
            elif step is Connective.OR:
                stack.append(stack.pop() | stack.pop())
            else:
                stack.append(int.from_bytes(_test_rows(step, codes, rows), "little"))
        return stack[0].to_bytes(rows, "little")


def _test_rows(step: Step, codes: Codes, rows: int) -> bytes:
    if isinstance(step, Mask):
        return bytes(map(step.passes.__getitem__, codes[step.dimension]))
    if isinstance(step, ColumnComparison):
        left = map(step.left.values.__getitem__, codes[step.left.dimension])
        right = map(step.right.values.__getitem__, codes[step.right.dimension])
        return bytes(map(_OPERATORS[step.operator], left, right))
    assert isinstance(step, Constant)
    return bytes([step.passes]) * rows


def bind_conditions(expression: Expression, resolve: ColumnResolver, origin: Origin | None = None) -> list[Condition]:
    """Conditions of a query, joined by AND.

    Raises `ConfigError` if a column is unknown, or a number is compared with text.
    """
    if not expression:
        return []
    binder = _Binder(resolve, origin)
    steps = [step if isinstance(step, Connective) else binder.step(step) for step in expression]
    return [_condition(part) for part in _conjuncts(_push_down_not(steps))]


def _condition(steps: Sequence[Step]) -> Condition:
    dimensions: set[str] = set()
    for step in steps:
        if isinstance(step, Mask):
            dimensions.add(step.dimension)
        elif isinstance(step, ColumnComparison):
            dimensions |= {step.left.dimension, step.right.dimension}
    return Condition(frozenset(dimensions), tuple(steps))


# ----------------------------------------------------------------------------------------------------------- the shape


def _push_down_not(steps: Sequence[Step]) -> list[Step]:
    """Push each NOT down to the tests."""
    done: list[Step] = []
    negated = [False]
    # From the end, that is from the top: whether what comes next is negated is known by then.
    for step in reversed(steps):
        negate = negated.pop()
        if step is Connective.NOT:
            negated.append(not negate)
        elif isinstance(step, Connective):
            negated += [negate, negate]
            done.append(step if not negate else Connective.OR if step is Connective.AND else Connective.AND)
        else:
            done.append(_negate(step) if negate else step)
    done.reverse()
    return done


def _negate(test: Mask | ColumnComparison | Constant) -> Step:
    if isinstance(test, Mask):
        return Mask(test.dimension, test.passes.translate(_FLIPPED))
    if isinstance(test, ColumnComparison):
        return ColumnComparison(_NEGATED[test.operator], test.left, test.right)
    return Constant(not test.passes)


def _conjuncts(steps: Sequence[Step]) -> list[Sequence[Step]]:
    """Split an expression at its topmost ANDs."""
    begins: list[int] = []
    """Where the expression that ends at each step begins."""
    for position, step in enumerate(steps):
        begins.append(begins[begins[-1] - 1] if isinstance(step, Connective) else position)
    found: list[Sequence[Step]] = []
    waiting = [len(steps) - 1]
    while waiting:
        end = waiting.pop()
        if steps[end] is Connective.AND:
            waiting += [end - 1, begins[end - 1] - 1]
        else:
            found.append(steps[begins[end] : end + 1])
    return found


# ----------------------------------------------------------------------------------------------------------- the tests


class _Binder:
    """Binds the tests of a query to the values of columns."""

    def __init__(self, resolve: ColumnResolver, origin: Origin | None) -> None:
        self.resolve = resolve
        self.origin = origin

    def step(self, test: Test) -> Mask | ColumnComparison | Constant:
        """Resolve the columns of a test; a test of one column is evaluated for all its values."""
        if isinstance(test, Comparison):
            return self._comparison(test)
        side = self._side(test.operand)
        if isinstance(test, Membership):
            for literal in test.literals:
                self._same_kind(side, literal, test.operand, literal)
            return _mask(side, lambda values: _member_mask(values, test))
        if _kind(side) is not ValueKind.TEXT:
            hint = f"Compare it, as in '{_name(test.operand)} > 5'."
            message = f"GLOB needs a column of text, and {quote_value(_name(test.operand))} holds numbers"
            raise query_error(message, test.operand.at, self.origin, hint)
        matches = re.compile(_glob_expression(test.pattern), re.DOTALL).fullmatch
        return _mask(side, lambda values: bytes([matches(str(value)) is not None for value in values]))

    def _comparison(self, test: Comparison) -> Mask | ColumnComparison | Constant:
        left, right = self._side(test.left), self._side(test.right)
        self._same_kind(left, right, test.left, test.right)
        compare = _OPERATORS[test.operator]
        if isinstance(left, Literal) and isinstance(right, ColumnValues):
            return self._comparison(Comparison(_MIRRORED[test.operator], test.right, test.left, test.at))
        if isinstance(right, Literal):
            value = right.value
            return _mask(left, lambda values: bytes(map(compare, values, repeat(value))))
        assert isinstance(left, ColumnValues)
        if left.dimension == right.dimension:
            return Mask(left.dimension, bytes(map(compare, left.values, right.values)))
        return ColumnComparison(test.operator, left, right)

    def _side(self, operand: Operand) -> ColumnValues | Literal:
        return operand if isinstance(operand, Literal) else self.resolve(operand)

    def _same_kind(
        self, left: ColumnValues | Literal, right: ColumnValues | Literal, one: Operand, other: Operand
    ) -> None:
        if _kind(left) is _kind(right):
            return
        hint = ""
        for operand, beside in ((one, left), (other, right)):
            if isinstance(operand, Literal) and isinstance(beside, Literal):
                quoted = isinstance(operand.value, str)
                hint = "Numbers stand without quotation marks." if quoted else f"Texts are quoted: '{operand.value}'."
        message = (
            f"{quote_value(_name(one))} ({_kind(left)}) cannot be compared with {quote_value(_name(other))} "
            f"({_kind(right)})"
        )
        raise query_error(message, other.at if isinstance(other, Literal) else one.at, self.origin, hint)


def _name(operand: Operand) -> object:
    return operand.value if isinstance(operand, Literal) else operand.name


def _kind(side: ColumnValues | Literal) -> ValueKind:
    return side.kind if isinstance(side, ColumnValues) else value_kind(side.value)


def _mask(side: ColumnValues | Literal, test: Callable[[Sequence[Value]], bytes]) -> Mask | Constant:
    if isinstance(side, ColumnValues):
        return Mask(side.dimension, test(side.values))
    return Constant(test([side.value]) == b"\1")


def _member_mask(values: Sequence[Value], test: Membership) -> bytes:
    found = bytes(map(test.values.__contains__, values))
    if not test.ranges:
        return found
    return bytes([one or _in_ranges(value, test.ranges) for one, value in zip(found, values, strict=True)])


def _in_ranges(value: Value, ranges: Iterable[range]) -> bool:
    # A range looks through all its numbers for anything but an `int`.
    return isinstance(value, int | float) and value == int(value) and any(int(value) in each for each in ranges)


def _glob_expression(pattern: str) -> str:
    """Regular expression of a glob with ``*``, ``?`` and backslashes."""
    expression: list[str] = []
    opened = False
    for piece in re.findall(r"\*+|\?|\\.|[^*?\\]+|\\", pattern, re.DOTALL):
        if piece[0] == "*":
            # As short as can be, and never tried again: what is left over is the most there can be for the next.
            expression.append(")(?>.*?" if opened else "(?>.*?")
            opened = True
        elif piece == "?":
            expression.append(".")
        else:
            expression.append(re.escape(piece[1:] if piece[0] == "\\" and len(piece) > 1 else piece))
    return "".join(expression) + (r"\Z)" if opened else "")
