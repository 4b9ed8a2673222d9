"""The language of ``dataQuery``, the Butler's syntax: its parse into postfix order, and its conditions on columns."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from functools import cached_property
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from longshore.errors import ConfigError, Origin
from longshore.graphs.tables import Value, ValueKind, spelled_numbers, value_kind
from longshore.model.wording import quote_value

# Parses a ``dataQuery``, in the Butler's syntax, into tests and connectives in postfix order.


COMPARISONS: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
RESERVED: Final = frozenset({"AND", "OR", "NOT", "IN", "GLOB", "OVERLAPS"})
"""Reserved words, in capitals; columns cannot have these names."""

_LONGEST_NUMBER: Final = 300
"""Characters of a number; Python refuses to read very long ones."""
_MAX_LISTED: Final = 100_000
"""Maximum numbers of ranges in the set of a membership, so that many ranges are one lookup."""

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<text>'[^']*(?:''[^']*)*')"
    r"|(?P<word>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<sign>\.\.|==|!=|<=|>=|[=<>(),:+-])"
    r"|(?P<end>\Z))",
    re.ASCII,
)
_BLANK = re.compile(r"\s*", re.ASCII)


class Column(msgspec.Struct, frozen=True, gc=False):
    """A dimension or a column of its table, by name; `at` is the column of the query, from 1."""

    name: str
    at: int


class Literal(msgspec.Struct, frozen=True, gc=False):
    """A number or a text."""

    value: int | float | str
    at: int


Operand: TypeAlias = Column | Literal


class Comparison(msgspec.Struct, frozen=True):
    """A comparison of two operands by one of `COMPARISONS`."""

    operator: str
    left: Operand
    right: Operand
    at: int


class Membership(msgspec.Struct, frozen=True):
    """A test of whether an operand is among numbers and texts."""

    operand: Operand
    values: frozenset[int | float | str]
    ranges: tuple[range, ...]
    literals: tuple[Literal, ...]
    """What `values` was made of, for messages; of a range, its first number."""


class Glob(msgspec.Struct, frozen=True):
    """A match of an operand with a pattern of ``*``, ``?`` and backslashes."""

    operand: Operand
    pattern: str
    at: int


class Connective(StrEnum):
    """A logical operator on one or two conditions."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"


Test: TypeAlias = Comparison | Membership | Glob
Expression: TypeAlias = tuple[Test | Connective, ...]
"""Postfix: the operands of a connective precede it. It is flat, so depth is unlimited."""


def query_error(message: str, at: int, origin: Origin | None, hint: str = "") -> ConfigError:
    """Error at a character of the query, counted from 1."""
    return ConfigError(f"{message}, at column {at} of the query", origin=origin, hint=hint)


def parse_query(text: str, origin: Origin | None = None) -> Expression:
    """Parse a query; an empty one selects everything.

    Raises `ConfigError` with the column of the syntax error.
    """
    return _Parser(text, origin).expression()


# ------------------------------------------------------------------------------------------------------------ tokens


class _Token(NamedTuple):
    kind: str
    """``number``, ``text``, ``name``, ``end``, a sign, or a reserved word in capitals."""
    text: str
    at: int


def _tokenize(text: str, origin: Origin | None) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while not tokens or tokens[-1].kind != "end":
        found = _TOKEN.match(text, place)
        if found is None:
            raise _token_error(text, place, origin)
        kind = found.lastgroup or "end"
        word = found[kind]
        at = found.start(kind) + 1
        if kind == "word":
            kind = word.upper() if word.upper() in RESERVED else "name"
        elif kind == "sign":
            kind = "=" if word == "==" else word
        tokens.append(_Token(kind, word, at))
        place = found.end()
    return tokens


def _token_error(text: str, place: int, origin: Origin | None) -> ConfigError:
    blank = _BLANK.match(text, place)
    at = blank.end() if blank else place
    sign = text[at]
    if sign == "'":
        hint = "A quotation mark inside of a text is written twice: 'it''s'."
        return query_error("a text has no closing quotation mark", at + 1, origin, hint)
    hints = {
        '"': "Texts stand in single quotation marks: 'it''s'.",
        "`": "Texts stand in single quotation marks: 'it''s'.",
        "!": "NOT negates a condition, and != compares.",
        "&": "Conditions are joined by AND.",
        "|": "Conditions are joined by OR.",
    }
    otherwise = "A column is compared with a value or with another column; nothing is calculated."
    return query_error(f"{quote_value(repr(sign)[1:-1])} is not understood", at + 1, origin, hints.get(sign, otherwise))


# ------------------------------------------------------------------------------------------------------------- parser


class _Precedence(IntEnum):
    """Precedence of an operator on the stack."""

    PARENTHESIS = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4


class _PendingOperator(NamedTuple):
    binds: _Precedence
    token: _Token


class _Parser:
    """Operator-precedence parser with explicit stacks, so that parentheses nest to any depth."""

    def __init__(self, text: str, origin: Origin | None) -> None:
        self.origin = origin
        self._remaining = _tokenize(text, origin)
        self._remaining.reverse()
        self._operators: list[_PendingOperator] = []
        self._operands: list[Operand | None] = []
        """Values that wait to be compared; ``None`` for a condition, which is in `_output` already."""
        self._output: list[Test | Connective] = []

    def expression(self) -> Expression:
        """Parse the whole query."""
        if self._next.kind == "end":
            return ()
        self._operand()
        while self._next.kind != "end":
            if self._next.kind == ")":
                self._close(self._take())
            elif self._next.kind in {"IN", "GLOB", "NOT"}:
                self._predicate()
            else:
                self._operator()
                self._operand()
        self._reduce(_Precedence.OR)
        if self._operators:
            raise self._error("'(' is never closed", self._operators[-1].token.at)
        self._pop_condition("the query")
        return tuple(self._output)

    @property
    def _next(self) -> _Token:
        return self._remaining[-1]

    def _take(self) -> _Token:
        return self._remaining.pop()

    def _expect(self, kind: str, what: str) -> _Token:
        if self._next.kind != kind:
            raise self._unexpected(what)
        return self._take()

    def _error(self, message: str, at: int, hint: str = "") -> ConfigError:
        return query_error(message, at, self.origin, hint)

    def _unexpected(self, what: str) -> ConfigError:
        token = self._next
        if token.kind == "OVERLAPS":
            return self._error(
                "'OVERLAPS' cannot be used here", token.at, "Join dimensions by a table under 'relations'."
            )
        if token.kind == "end":
            return self._error(f"the query ends where {what} is expected", token.at)
        hint = "Nothing is calculated in a query; columns and values are only compared." if token.text in "+-" else ""
        return self._error(f"{quote_value(token.text)} stands where {what} is expected", token.at, hint)

    # ---------------------------------------------------------------------------------------------------- operands

    def _operand(self) -> None:
        """Parse an operand: a value, or a call of GLOB."""
        while self._next.kind in {"(", "NOT"}:
            token = self._take()
            self._operators.append(
                _PendingOperator(_Precedence.NOT if token.kind == "NOT" else _Precedence.PARENTHESIS, token)
            )
        if self._next.kind == "GLOB":
            self._glob_call()
        else:
            self._operands.append(self._value())

    def _value(self) -> Operand:
        token = self._next
        if token.kind == "name":
            self._take()
            return Column(token.text, token.at)
        return self._literal()

    def _literal(self) -> Literal:
        token = self._next
        if token.kind == "text":
            self._take()
            return Literal(token.text[1:-1].replace("''", "'"), token.at)
        if token.kind in {"+", "-"} and self._remaining[-2].kind == "number":
            self._take()
            number = self._number(self._take())
            return Literal(-number if token.kind == "-" else number, token.at)
        if token.kind == "number":
            return Literal(self._number(self._take()), token.at)
        raise self._unexpected("a column, a number or a text")

    def _number(self, token: _Token) -> int | float:
        if len(token.text) > _LONGEST_NUMBER:
            raise self._error(f"the number {quote_value(token.text)} is too long", token.at)
        if token.text.isdigit():
            return int(token.text)
        number = float(token.text)
        if math.isinf(number):
            raise self._error(f"the number {quote_value(token.text)} is too large", token.at)
        return number

    def _glob_call(self) -> None:
        name = self._take()
        self._expect("(", "'(' and a column")
        operand = self._value()
        self._expect(",", "','")
        pattern = self._expect("text", "a pattern in quotation marks")
        self._expect(")", "')'")
        self._append_glob(operand, pattern, name.at)
        self._operands.append(None)

    def _append_glob(self, operand: Operand, pattern: _Token, at: int) -> None:
        self._output.append(Glob(operand, pattern.text[1:-1].replace("''", "'"), at))

    # --------------------------------------------------------------------------------------------------- operators

    def _operator(self) -> None:
        """Push an operator, after those of higher precedence are reduced."""
        token = self._next
        if token.kind in COMPARISONS:
            binds = _Precedence.COMPARISON
        elif token.kind in {"AND", "OR"}:
            binds = _Precedence[token.kind]
        else:
            raise self._unexpected("an operator such as =, IN or AND")
        self._take()
        self._reduce(binds)
        self._operators.append(_PendingOperator(binds, token))

    def _predicate(self) -> None:
        """Parse ``IN (...)`` or ``GLOB '...'`` after a value, perhaps with NOT in front."""
        negation = self._take() if self._next.kind == "NOT" else None
        token = self._next
        if token.kind not in {"IN", "GLOB"}:
            raise self._unexpected("IN or GLOB")
        self._take()
        operand = self._operands.pop()
        if operand is None:
            raise self._error(f"'{token.text}' needs a value in front, not a condition", token.at)
        if token.kind == "IN":
            self._members(operand)
        else:
            self._append_glob(operand, self._expect("text", "a pattern in quotation marks"), token.at)
        if negation:
            self._output.append(Connective.NOT)
        self._operands.append(None)

    def _members(self, operand: Operand) -> None:
        """Parse the list of IN; each column in it becomes a comparison."""
        self._expect("(", "'('")
        literals: list[Literal] = []
        columns: list[Column] = []
        values: set[int | float | str] = set()
        ranges: list[range] = []
        while True:
            item = self._value()
            if isinstance(item, Column):
                columns.append(item)
            elif self._next.kind == "..":
                literals.append(item)
                numbers, length = self._range(item)
                if len(values) + length <= _MAX_LISTED:
                    values.update(numbers)
                else:
                    ranges.append(numbers)
            else:
                literals.append(item)
                values.add(item.value)
            if self._next.kind != ",":
                break
            self._take()
        self._expect(")", "',' or ')'")
        self._output.append(Membership(operand, frozenset(values), tuple(ranges), tuple(literals)))
        for column in columns:
            self._output += [Comparison("=", operand, column, column.at), Connective.OR]

    def _range(self, first: Literal) -> tuple[range, int]:
        """Parse ``first..last:step``, both ends included; returns the range and its length."""
        self._take()
        last = self._literal()
        step = self._step() if self._next.kind == ":" else 1
        if not isinstance(first.value, int) or not isinstance(last.value, int):
            at = last.at if isinstance(first.value, int) else first.at
            raise self._error("the ends of a range must be whole numbers", at)
        if last.value < first.value:
            raise self._error(f"the range {first.value}..{last.value} ends before it begins", first.at)
        # `len` can do with numbers of 64 bits only.
        return range(first.value, last.value + 1, step), (last.value - first.value) // step + 1

    def _step(self) -> int:
        self._take()
        step = self._literal()
        if not isinstance(step.value, int) or step.value < 1:
            raise self._error("the step of a range must be a whole number of at least 1", step.at)
        return step.value

    # --------------------------------------------------------------------------------------------------- reduction

    def _close(self, parenthesis: _Token) -> None:
        self._reduce(_Precedence.OR)
        if not self._operators:
            raise self._error("')' closes nothing", parenthesis.at)
        self._operators.pop()

    def _reduce(self, binds: _Precedence) -> None:
        """Reduce the operators on the stack of at least this precedence."""
        while self._operators and self._operators[-1].binds >= binds:
            kind, token = self._operators.pop()
            if kind is _Precedence.COMPARISON:
                right, left = self._operands.pop(), self._operands.pop()
                if left is None or right is None:
                    raise self._error(f"'{token.text}' compares values, not conditions", token.at)
                self._output.append(Comparison(token.kind, left, right, token.at))
            else:
                self._pop_condition(f"'{token.text}'")
                if kind is not _Precedence.NOT:
                    self._pop_condition(f"'{token.text}'")
                self._output.append(Connective(token.kind))
            self._operands.append(None)

    def _pop_condition(self, whose: str) -> None:
        operand = self._operands.pop()
        if operand is not None:
            name = operand.name if isinstance(operand, Column) else operand.value
            message = f"{whose} needs a condition, and {quote_value(name)} alone is none"
            raise self._error(message, operand.at, "Compare it with a value.")


# Binds a parsed ``dataQuery`` to the values of dimensions: conditions that are tested column by column.


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


class ColumnValues(msgspec.Struct, frozen=True, dict=True):
    """Values of a column of a query, one for each value of a dimension."""

    dimension: str
    values: Sequence[Value]
    """Indexed by the code of the dimension's value."""
    kind: ValueKind

    @cached_property
    def numbers(self) -> Sequence[int | float] | None:
        """The number of each value, by which it is compared with numbers; ``None`` if one is no number."""
        return spelled_numbers(self.values)

    def compared_with(self, kind: ValueKind) -> ColumnValues:
        """The column with values of the given kind, if it has them."""
        if kind is self.kind or kind is ValueKind.TEXT or self.numbers is None:
            return self
        return ColumnValues(self.dimension, self.numbers, ValueKind.NUMBER)


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
                self._same_kind(_alike(side, literal), literal, test.operand, literal)
            return _mask(side, lambda _: _member_mask(side, test))
        if _kind(side) is not ValueKind.TEXT:
            hint = f"Compare it, as in '{_name(test.operand)} > 5'."
            message = f"GLOB needs a column of text, and {quote_value(_name(test.operand))} holds numbers"
            raise query_error(message, test.operand.at, self.origin, hint)
        matches = re.compile(_glob_expression(test.pattern), re.DOTALL).fullmatch
        return _mask(side, lambda values: bytes([matches(str(value)) is not None for value in values]))

    def _comparison(self, test: Comparison) -> Mask | ColumnComparison | Constant:
        left, right = self._side(test.left), self._side(test.right)
        left, right = _alike(left, right), _alike(right, left)
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


def _alike(side: ColumnValues | Literal, other: ColumnValues | Literal) -> ColumnValues | Literal:
    """A side as it is compared: by numbers, if both have them and the other is no literal text."""
    if isinstance(side, Literal):
        return side
    if isinstance(other, Literal):
        return side.compared_with(value_kind(other.value))
    return side if other.numbers is None else side.compared_with(ValueKind.NUMBER)


def _name(operand: Operand) -> object:
    return operand.value if isinstance(operand, Literal) else operand.name


def _kind(side: ColumnValues | Literal) -> ValueKind:
    return side.kind if isinstance(side, ColumnValues) else value_kind(side.value)


def _mask(side: ColumnValues | Literal, test: Callable[[Sequence[Value]], bytes]) -> Mask | Constant:
    if isinstance(side, ColumnValues):
        return Mask(side.dimension, test(side.values))
    return Constant(test([side.value]) == b"\1")


def _member_mask(side: ColumnValues | Literal, test: Membership) -> bytes:
    if isinstance(side, Literal):
        return bytes([side.value in test.values or _in_ranges(side.value, test.ranges)])
    found = bytes(map(test.values.__contains__, side.values))
    numbers = side.numbers
    if numbers is None:
        return found
    if side.kind is ValueKind.TEXT:
        found = bytes(map(operator.or_, found, map(test.values.__contains__, numbers)))
    if not test.ranges:
        return found
    return bytes([one or _in_ranges(value, test.ranges) for one, value in zip(found, numbers, strict=True)])


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
