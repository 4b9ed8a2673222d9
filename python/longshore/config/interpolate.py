"""What the text of a value means: ``{name}`` through other values, ``bpsEval``, and arithmetic of amounts."""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, TypeAlias, cast
from warnings import catch_warnings, simplefilter

import msgspec

from longshore.config.merge import COMPUTED_LAYERS, LayerRank, Node, NodeValue, plain_value, written_value
from longshore.config.templates import (
    ATTEMPT_MARK,
    ATTEMPT_NAME,
    Data,
    Field,
    Part,
    Parts,
    Quotation,
    Spelled,
    Template,
    Word,
    expand_env,
    format_value,
    is_value,
    join_parts,
    parts_text,
    plain_parts,
    protect_data,
    shell_contexts,
    split_angled,
    split_variables,
)
from longshore.errors import CodeRefusedError, ConfigError, Origin, ReferenceCycleError, UndefinedVariableError
from longshore.model.values import YamlValue, number_of
from longshore.model.wording import did_you_mean, name_all, quote_value

# Scope of a search: current values, environment and free variables; and a value as written.


UndefinedHandler: TypeAlias = Callable[[str, Origin | None], str]
"""Handles an undefined variable, by its name and origin: returns a replacement text, or raises an error."""


class RawValue(msgspec.Struct, frozen=True):
    """A value before interpolation: a node of the configuration, or a plain value from elsewhere."""

    value: NodeValue | YamlValue
    node: Node | None = None

    @property
    def origin(self) -> Origin | None:
        """Where it was written; ``None`` for a value from outside the configuration."""
        return self.node.origin if self.node else None

    @property
    def is_data(self) -> bool:
        """Whether nothing in it is a variable: it was computed, and not written as configuration."""
        return self.node is None or (not self.node.origin.line and self.node.origin.file in COMPUTED_LAYERS)

    def plain_value(self) -> YamlValue:
        """The value as ordinary maps, lists and scalars."""
        return plain_value(self.node) if self.node else cast("YamlValue", self.value)

    @property
    def as_written(self) -> YamlValue:
        """The value as ordinary maps, lists and scalars, with the texts of scalars that were written in another way."""
        return written_value(self.node) if self.node else self.plain_value()

    @property
    def text(self) -> str:
        """The text of the value, for all that asks for no type: that of a scalar as it was written."""
        if isinstance(self.value, list | dict):
            return str(_shown(self.node) if self.node else self.value)
        return self.node.text if self.node else str(self.value)

    @property
    def has_text(self) -> bool:
        """Whether it is one value with a text; see `Node.has_text`."""
        if self.node is not None:
            return self.node.has_text
        return isinstance(self.value, str | int | float) and not isinstance(self.value, bool)


class _Shown(str):
    """Text that stands for itself in a list or a map."""

    __slots__ = ()
    __repr__ = str.__str__


def _shown(node: Node) -> object:
    """A list or a map whose text has its scalars as they were written."""
    if isinstance(node.value, dict):
        return {key: _shown(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [_shown(item) for item in node.value]
    return _Shown(node.written) if node.written else plain_value(node)


def empty_text(_name: str, _origin: Origin | None) -> str:
    """Replace undefined variables by empty text, as BPS does."""
    return ""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a search: current values, environment, and variables left free.

    Attributes
    ----------
    current
        BPS's current values. They have the highest precedence; ``curr_site`` and the like choose the part of a section
        that is searched.
    searchobj
        Searched next: a map, or a node that holds one.
    env
        Environment variables.
    expand_env
        Whether ``${X}`` is replaced by its value; wins over `replace_env`.
    keep_delayed
        Whether ``<ENV:X>`` stays for the job even so.
    replace_env
        Whether ``${X}`` becomes ``<ENV:X>``.
    free
        Names of variables that stay fields, even where the configuration defines them.
    undefined
        Handler of undefined variables.
    of_attempts
        Whether the text is one that each attempt of a job gets anew: a command or a variable of its environment.
    is_shell_line
        Whether the text is a line for a shell, in which ``<name>`` can be a redirection.
    """

    current: Mapping[str, YamlValue] = msgspec.field(default_factory=dict)
    searchobj: Mapping[str, YamlValue] | Node | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    expand_env: bool = True
    keep_delayed: bool = False
    replace_env: bool = False
    free: Collection[str] = ()
    undefined: UndefinedHandler = empty_text
    of_attempts: bool = False
    is_shell_line: bool = False


DEFAULT_SCOPE: Final = Scope()
"""A search by the key alone."""


# Evaluates ``bpsEval(function, arguments)`` in a text: pure functions here, others through a `FunctionCaller`.


BPS_EVAL: Final = "bpsEval"

PURE_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "max": max,
    "min": min,
    "sum": sum,
    "len": len,
    "round": round,
    "abs": abs,
    "sorted": sorted,
    "str": str,
    "int": int,
    "float": float,
}
"""Functions without side effects, evaluated wherever a value is read; literal arguments can do no harm."""

_CALL_START = re.compile(r"bpsEval\s*\(\s*(?P<name>[A-Za-z_][\w.]*)\s*(?P<next>[,)])")
_CALL_BEGIN = re.compile(r"bpsEval\s*\(")
_WHOLE_CALL = re.compile(r"\s*(?P<name>[A-Za-z_][\w.]*)\s*\((?P<arguments>.*)\)\s*", re.DOTALL)
_MAX_CALL_LENGTH: Final = 10_000
"""Maximum characters of one call: the parser of literals needs far more memory than the text."""
_MAX_DIGITS: Final = 100
"""Maximum number of digits for `round`, which computes ten to the power of it."""
_MAX_NESTED_CALLS: Final = 20
_HINT: Final = (
    f"Write '{BPS_EVAL}(function, arguments)'; the arguments are literals of Python (numbers, quoted text, lists), for "
    f"example {BPS_EVAL}(max, [1, {{n}}])."
)


class FunctionCall(msgspec.Struct, frozen=True):
    """A parsed function call.

    Attributes
    ----------
    name
        A builtin, or the dotted path of a function.
    arguments, options
        Positional and keyword arguments.
    text
        The call as written in the configuration.
    origin
        Where it was written.
    """

    name: str
    arguments: tuple[object, ...]
    options: dict[str, object]
    text: str
    origin: Origin | None = None


FunctionCaller: TypeAlias = Callable[[FunctionCall], object]
"""Calls functions that are not pure."""


GENERATE_KEY: Final = "bpsGenerateConfig"
"""Key whose value is one call of a function that returns more configuration."""
GENERATE_HINT: Final = (
    f"Write '{GENERATE_KEY}: package.module.function(arguments)'; the arguments are literals of Python, for example "
    f"{GENERATE_KEY}: 'mine.settings(\"{{operator}}\", n=3)'."
)


def evaluate_calls(text: str, origin: Origin | None, caller: FunctionCaller | None, *, depth: int = 0) -> str:
    """Replace calls in a text by their results; without a caller, impure calls stay as written.

    Raises
    ------
    ConfigError
        A call cannot be parsed, or the function refuses its arguments.
    """
    return "".join(evaluated_parts(text, origin, caller, depth=depth)) if BPS_EVAL in text else text


def open_quotation(text: str) -> str | None:
    """Quotation mark that is open where a text ends within a call; empty for none, ``None`` outside of calls."""
    start = text.rfind(BPS_EVAL)
    while start >= 0:
        opened = _CALL_BEGIN.match(text, start)
        if opened and (found := _scan_call(text, opened.end()))[0] < 0:
            return found[1]
        start = text.rfind(BPS_EVAL, 0, start)
    return None


def quote_argument(text: str, mark: str) -> str:
    """Write data within a quotation mark of a call's arguments, so that it is exactly the data."""
    if not mark and BPS_EVAL not in text:
        return text
    within = mark or "'"
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace(within, f"\\{within}")
    # Nothing in data is a call.
    escaped = escaped.replace(BPS_EVAL, f"\\x{ord(BPS_EVAL[0]):02x}{BPS_EVAL[1:]}")
    return escaped if mark else f"'{escaped}'"


def evaluated_parts(
    text: str, origin: Origin | None, caller: FunctionCaller | None, *, depth: int = 0
) -> Iterator[str]:
    """The texts around the calls, and the results of these as `Data`; see `evaluate_calls`."""
    if depth > _MAX_NESTED_CALLS:
        raise ConfigError(f"'{BPS_EVAL}' stands in itself more than {_MAX_NESTED_CALLS} deep", origin=origin)
    at = 0
    while (start := text.find(BPS_EVAL, at)) >= 0:
        yield text[at:start]
        end, name, arguments = _split_call(text, start, origin)
        inner = evaluate_calls(arguments, origin, caller, depth=depth + 1)
        call_text = text[start:end]
        if BPS_EVAL in inner or (name not in PURE_FUNCTIONS and caller is None):
            # An inner call waits for a caller, so this call must wait too.
            yield call_text
        else:
            call = _make_call(name, inner, call_text, origin)
            yield Data(call_pure_function(call) if name in PURE_FUNCTIONS else caller(call) if caller else call_text)
        at = end
    yield text[at:]


def impure_calls(text: str) -> Iterator[str]:
    """Names of the impure functions that a text calls.

    Raises
    ------
    ConfigError
        A call cannot be parsed.
    """
    at = 0
    while (start := text.find(BPS_EVAL, at)) >= 0:
        at, name, arguments = _split_call(text, start, None)
        if name not in PURE_FUNCTIONS:
            yield name
        yield from impure_calls(arguments)


def parse_call(text: str, origin: Origin | None, *, hint: str) -> FunctionCall:
    """Parse a text that is exactly one call, ``function(arguments)``; errors show `hint`.

    Raises
    ------
    ConfigError
        The text is no call, or its arguments are not literals.
    """
    found = _WHOLE_CALL.fullmatch(text)
    if (
        found is None
        or len(text) > _MAX_CALL_LENGTH
        or _closing_index(found["arguments"] + ")", 0) != len(found["arguments"])
    ):
        raise ConfigError(f"{quote_value(text)} is no call of a function", origin=origin, hint=hint)
    return _make_call(found["name"], found["arguments"], text.strip(), origin, hint)


def _split_call(text: str, start: int, origin: Origin | None) -> tuple[int, str, str]:
    """End of a call, its function name, and the text of its arguments."""
    found = _CALL_START.match(text, start)
    if found is None:
        raise ConfigError(f"{quote_value(text[start:])} is no call of a function", origin=origin, hint=_HINT)
    if found["next"] == ")":
        return found.end(), found["name"], ""
    end = _closing_index(text, found.end())
    if end < 0 or end - start > _MAX_CALL_LENGTH:
        problem = "has no closing parenthesis" if end < 0 else f"is longer than {_MAX_CALL_LENGTH:,} characters"
        raise ConfigError(f"{quote_value(text[start:])} {problem}", origin=origin, hint=_HINT)
    return end + 1, found["name"], text[found.end() : end]


def _closing_index(text: str, at: int) -> int:
    """Index of the closing parenthesis, quoted text skipped; negative where it is missing."""
    return _scan_call(text, at)[0]


def _scan_call(text: str, at: int) -> tuple[int, str]:
    """Index of the closing parenthesis, and the quotation mark that is open where it is missing."""
    depth = 1
    quote = ""
    while at < len(text):
        character = text[at]
        if quote:
            if character == "\\":
                at += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if not depth:
                return at, ""
        at += 1
    return -1, quote


def _make_call(name: str, arguments: str, text: str, origin: Origin | None, hint: str = _HINT) -> FunctionCall:
    try:
        positional, options = _parse_literals(arguments)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ConfigError(
            f"the arguments of {quote_value(text)} are no literals", origin=origin, hint=f"{hint} Quote what is text."
        ) from None
    return FunctionCall(name, positional, options, text, origin)


def _parse_literals(arguments: str) -> tuple[tuple[object, ...], dict[str, object]]:
    """Parse arguments as literals; nothing in them is executed."""
    with catch_warnings():
        simplefilter("ignore")  # invalid escapes in a text are harmless
        tree = ast.parse(f"call({arguments}\n)", mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise TypeError(arguments)
    options = {option.arg: ast.literal_eval(option.value) for option in tree.keywords}
    if None in options:
        raise ValueError(arguments)
    positional = tuple(ast.literal_eval(argument) for argument in tree.args)
    return positional, {str(name): value for name, value in options.items()}


def call_pure_function(call: FunctionCall) -> object:
    """Call a pure function.

    Raises
    ------
    ConfigError
        There is no such function, or it refuses its arguments.
    """
    if call.name not in PURE_FUNCTIONS:
        raise ConfigError(
            f"{quote_value(call.text)} calls the unknown function '{call.name}'",
            origin=call.origin,
            hint=did_you_mean(call.name, PURE_FUNCTIONS) or name_all(PURE_FUNCTIONS),
        )
    if call.name == "round" and any(
        isinstance(digits, int) and abs(digits) > _MAX_DIGITS
        for digits in (*call.arguments[1:], *call.options.values())
    ):
        raise ConfigError(f"{quote_value(call.text)} asks for more than {_MAX_DIGITS} digits", origin=call.origin)
    try:
        return PURE_FUNCTIONS[call.name](*call.arguments, **call.options)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{quote_value(call.text)} fails: {str(error)[:200]}", origin=call.origin) from None


# Evaluates arithmetic with numbers and pure functions, for amounts that differ from job to job.


_EXPRESSION: Final = re.compile(
    r"\s*(?P<numbers>[\w\s.,+*/%()\[\]-]*?[\w.)\]])(?:(?<=[\d)\]])\s*(?P<unit>[kKmMgGtTpPeE]?i?[bB]))?\s*", re.ASCII
)
"""Arithmetic, and perhaps a unit of memory behind it."""
_OPERATOR: Final = re.compile(r"[*/%+(]|[\w.]\s+-|-\s+\w", re.ASCII)
_NUMBER: Final = re.compile(r"(?<![\w.])(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.])", re.ASCII)
"""Number as Python writes it, without an exponent."""
_SPELLED: Final = re.compile(
    r"(?<![\w.])(?:0[xXoObB][0-9a-fA-F_]+|(?:0[0-9_]|[0-9]+[_eE])[0-9_]*(?:\.[0-9_]*)?(?:(?:(?<=[eE])|[eE])[-+]?[0-9]+)?"
    r"|[0-9]+\.[0-9]+[eE][-+]?[0-9]+)(?![\w.])",
    re.ASCII,
)
"""Number that Python writes in another way."""
_MAX_FORMULA_LENGTH: Final = 1000
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
    text = _plain_numbers(evaluate_calls(text, origin, None))
    if len(text) > _MAX_FORMULA_LENGTH:
        return text
    try:
        # Texts of one label differ in their numbers only, and parsing takes longest.
        formula = _parse_formula(_NUMBER.sub("0", text))
        if formula is None:
            return text
        values = [float(each) if "." in each else int(each) for each in _NUMBER.findall(text)]
        value = _number(formula.evaluate(_Numbers(values, text, origin)))
        written = _written_number(value)
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        problem = "divides by zero" if isinstance(error, ZeroDivisionError) else "is no arithmetic with numbers"
        raise ConfigError(
            f"{quote_value(text)} {problem}",
            origin=origin,
            hint="For example '{sample.size_mb} * 3' or 'round({sample.size_mb} / 2) GB'.",
        ) from None
    return f"{written} {formula.unit}" if formula.unit else written


def _plain_numbers(text: str) -> str:
    """The text with its numbers as Python writes them; variables and tables have others, such as ``0x10``."""
    # Digits of a time of day are no numbers of their own.
    if not _SPELLED.search(text) or ":" in text or len(text) > _MAX_FORMULA_LENGTH:
        return text
    return _SPELLED.sub(lambda found: _decimal(found.group()), text)


def _decimal(text: str) -> str:
    number = number_of(text)
    return text if number is None else _written_number(number)


def _written_number(number: float) -> str:
    return str(number) if isinstance(number, int) else format(Decimal(repr(number)).normalize(), "f")


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


# Interpolates ``{name}`` in values, through other values; refuses a value that refers to itself.


_MAX_DEPTH = 100
_MAX_LENGTH = 1_000_000
"""Maximum characters and fields of one value: variables that double each other reach any size in a few lines."""


class KeyLookup(Protocol):
    """Looks up a key; `Config` does."""

    caller: FunctionCaller | None

    def lookup(self, key: str, scope: Scope) -> RawValue | None:
        """Find a key, and return its value as written."""


class Interpolator:
    """Interpolates variables, each of them once per interpolator.

    With `defers_calls`, a function call with free variables in its arguments stays as written, for later.
    """

    def __init__(self, config: KeyLookup, scope: Scope, *, defers_calls: bool = False) -> None:
        self.config = config
        self.scope = scope
        self._defers_calls = defers_calls
        self._columns = frozenset(name for name in scope.free if "." in name)
        self._parts_by_name: dict[str, Parts | RawValue | None] = {}
        self._active_names: dict[str, Origin | None] = {}

    def value(self, key: str, hit: RawValue) -> YamlValue:
        """The value of a hit: text with its variables substituted, anything else unchanged."""
        if not isinstance(hit.value, str) or hit.is_data:
            return hit.plain_value()
        text = parts_text(self.parts(hit.value, hit.origin, name=key))
        # BPS normalizes this path, because dimensions that a job lacks leave doubled slashes in it.
        return normalize_path(text, slash=hit.value.endswith("/")) if key == "subDirTemplate" else text

    def template(self, text: str, origin: Origin | None, *, name: str = "", starts_later: bool = False) -> Template:
        """Interpolate a text, but for the free variables.

        `name` is the key whose value the text is, so that a reference to itself is found. With `starts_later`, the
        placeholders of the text are substituted when the job starts: data has none.
        """
        parts = self.parts(text, origin, name=name)
        return Template(protect_data(parts) if starts_later else plain_parts(parts), origin)

    def parts(self, text: str, origin: Origin | None, *, name: str = "") -> Parts:
        """Interpolate a text as `template` does; what came from outside stays `Data`."""
        if not name:
            return self._parts(text, origin)
        self._active_names[name] = origin
        parts = self._parts(text, origin)
        del self._active_names[name]
        return parts

    def _parts(self, text: str, origin: Origin | None) -> Parts:
        parts: list[Part] = []
        size = 0
        for piece in self._pieces(text, origin):
            new_parts = (piece,) if isinstance(piece, str) else self._substitute(piece, origin)
            parts.extend(new_parts)
            size += sum(len(part) if isinstance(part, str) else 1 for part in new_parts)
            if size > _MAX_LENGTH:
                raise ConfigError(f"the value is longer than {_MAX_LENGTH:,} characters", origin=origin)
        return self._evaluate_calls(join_parts(parts), origin)

    def _pieces(self, text: str, origin: Origin | None) -> Parts:
        """Literals and fields of a text, each once: no value is read again; ``<name>`` is a field of that variable."""
        parts = split_variables(text, self._expand, self._columns)
        if not any(type(part) is str and "<" in part for part in parts):
            return parts
        pieces: list[Part] = []
        angled: set[int] = set()
        for part in parts:
            if type(part) is not str:
                pieces.append(part)
                continue
            for piece in split_angled(part, self._is_variable):
                if isinstance(piece, Field):
                    angled.add(len(pieces))
                pieces.append(piece)
        if self.scope.is_shell_line and angled:
            _refuse_redirections(tuple(pieces), angled, origin)
        return tuple(pieces)

    def _expand(self, name: str, written: str) -> str:
        """What stands for a reference to an environment variable."""
        scope = self.scope
        is_angled, delayed = written.startswith("$<"), written.startswith("<")
        if (is_angled and name not in scope.env) or (delayed and scope.expand_env and scope.keep_delayed):
            return written
        if scope.expand_env:
            return Data(scope.env[name]) if name in scope.env else f"${{{name}}}" if delayed else written
        if scope.replace_env:
            return f"<ENV:{name}>"
        return f"${{{name}}}" if is_angled else written

    def _is_variable(self, name: str) -> bool:
        return name in self.scope.free or self.config.lookup(name, self.scope) is not None

    def _evaluate_calls(self, parts: Parts, origin: Origin | None) -> Parts:
        """The parts with function calls evaluated; data in a call is an argument, and never a call."""
        if not any(type(part) is str and BPS_EVAL in part for part in parts):
            return parts
        fields = ", ".join(f"'{part.name}'" for part in parts if isinstance(part, Field))
        if fields and self._defers_calls:
            return parts
        try:
            return join_parts(
                evaluated
                for part in _calls_with_data(parts)
                for evaluated in (evaluated_parts(part, origin, self.config.caller) if type(part) is str else (part,))
            )
        except CodeRefusedError:
            raise
        except ConfigError:
            if not fields:
                raise
            raise ConfigError(
                f"'{BPS_EVAL}' cannot wait for {fields}, which differs from job to job", origin=origin
            ) from None

    def _substitute(self, variable: Field, origin: Origin | None) -> Parts:
        name = variable.name
        if name in self.scope.free:
            return (variable,)
        found = self._lookup_variable(name, origin)
        if found is None:
            return (self._undefined(name, origin),)
        if "$" in variable.spec:
            variable = Field(name, expand_env(variable.spec, self.scope.env))
        if isinstance(found, RawValue):
            if found.value is None:
                return (_text_of_null(name, found, origin),)
            if self.scope.of_attempts and found.node is not None and (null := _find_null(found.node)) is not None:
                raise UndefinedVariableError(
                    f"'{{{name}}}' has an item without a value: it is null at {null.origin}",
                    origin=origin or null.origin,
                    hint='Give it a value; an empty text is written "".',
                )
            value, written = found.plain_value(), found.text
            text = format_value(value, variable, origin, text=written if written != str(value) else "")
            if found.node is None:
                return (text,)
            # A computed name is one word for a shell; values of a search may have signs for it, and placeholders.
            return (Word(text) if found.is_data else Data(text) if text == str(value) else Spelled(text, str(value)),)
        if not variable.spec:
            return found
        if any(isinstance(part, Field) for part in found):
            raise ConfigError(f"'{variable}' cannot be formatted: its value differs from job to job", origin=origin)
        return (Data(format_value("".join(map(str, found)), variable, origin)),)

    def _undefined(self, name: str, origin: Origin | None) -> str:
        """Text for a name that nothing defines."""
        if name != ATTEMPT_NAME:
            return self.scope.undefined(name, origin)
        if self.scope.of_attempts:
            return ATTEMPT_MARK
        raise UndefinedVariableError(
            f"'{{{ATTEMPT_NAME}}}' has no value here: it is the number of an attempt",
            origin=origin,
            hint="Commands of jobs have it, 'preCmdline' and 'postCmdline', and values of 'environment'.",
        )

    def _lookup_variable(self, name: str, origin: Origin | None) -> Parts | RawValue | None:
        """Parts, a value that is not text, or ``None`` for an undefined variable."""
        if name in self._parts_by_name:
            return self._parts_by_name[name]
        if name in self._active_names:
            raise self._cycle_error(name)
        if len(self._active_names) >= _MAX_DEPTH:
            raise ConfigError(f"variables lead to variables more than {_MAX_DEPTH} deep at '{name}'", origin=origin)
        hit = self.config.lookup(name, self.scope)
        if hit is not None and isinstance(hit.value, str) and not hit.is_data:
            self._active_names[name] = hit.origin
            parts = self._parts(hit.value, hit.origin)
            if self.scope.is_shell_line and _has_comment_sign(hit.value, hit.origin, parts):
                parts = (Word("".join(map(str, parts))),)
            self._parts_by_name[name] = parts
            del self._active_names[name]
        else:
            self._parts_by_name[name] = hit
        return self._parts_by_name[name]

    def _cycle_error(self, name: str) -> ReferenceCycleError:
        names = list(self._active_names)
        ring = [*names[names.index(name) :], name]
        return ReferenceCycleError(
            "a value is defined by itself: " + " -> ".join(f"'{each}'" for each in ring),
            origin=self._active_names[name],
        )


def _has_comment_sign(text: str, origin: Origin | None, parts: Parts) -> bool:
    """Whether a text of the command line would end the line for a shell: what was typed there is no script."""
    is_typed = origin is not None and origin.layer == LayerRank.COMMAND_LINE.label
    return is_typed and re.search(r"(?:^|\s)#", text) is not None and not any(isinstance(part, Field) for part in parts)


_NO_REDIRECTION = re.compile(r"\|\||&&|[;<)\n]|[ \t]+[;|&<>)#\n]|[ \t]*\Z")
"""Text that cannot follow the ``>`` of a redirection."""
_TEXT_IN_QUOTES = frozenset({Quotation.SINGLE, Quotation.DOUBLE, Quotation.COMMENT})


def _refuse_redirections(parts: Parts, angled: Collection[int], origin: Origin | None) -> None:
    """Refuse each ``<name>`` of a variable where a shell would read two redirections.

    `angled` holds the indices of these fields.
    """
    contexts = iter(shell_contexts(parts))
    for number, part in enumerate(parts):
        if not is_value(part) or next(contexts).quotation in _TEXT_IN_QUOTES or number not in angled:
            continue
        following = "".join(
            each if isinstance(each, str) else f"<{each.name}>" if at in angled else "x"
            for at, each in enumerate(parts[number + 1 :], number + 1)
        )
        if isinstance(part, Field) and not _NO_REDIRECTION.match(following):
            raise ConfigError(
                f"'<{part.name}>' may mean the variable '{part.name}' or two redirections of the shell",
                origin=origin,
                hint=f"Write '{{{part.name}}}' for the variable, and '< {part.name} > FILE' for redirections.",
            )


def _calls_with_data(parts: Parts) -> Iterator[Part]:
    """The parts, with the data that stands within a call written into its arguments."""
    text = ""
    for part in parts:
        if isinstance(part, Data):
            mark = open_quotation(text) if BPS_EVAL in text else None
            if mark is not None:
                # An argument is the value, unless quotation marks make it a text.
                text += part.value if isinstance(part, Spelled) and not mark else quote_argument(part, mark)
                continue
        elif isinstance(part, str):
            text += part
            continue
        if text:
            yield text
        text = ""
        yield part
    if text:
        yield text


_OPTIONAL_NAMES = frozenset({"inCollection", "dataQuery"})


def is_optional(name: str) -> bool:
    """Whether a variable without a value is empty text, because BPS's commands rely on that."""
    is_extra = name.startswith("extra") and name.endswith("Options")
    return is_extra or name.endswith("PreCmdOpts") or name in _OPTIONAL_NAMES


def _find_null(node: Node) -> Node | None:
    """The first value in a list or a map that is null."""
    items = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    return next((null for item in items if (null := item if item.value is None else _find_null(item))), None)


def _text_of_null(name: str, found: RawValue, origin: Origin | None) -> str:
    """Text of a variable whose value is null: empty where BPS's commands rely on that."""
    if is_optional(name):
        return ""
    place = f" at {found.origin}" if found.origin and found.origin.line else ""
    raise UndefinedVariableError(
        f"'{{{name}}}' has no value: '{name}' is null{place}",
        origin=origin or found.origin,
        hint=f"Give '{name}' a value; an empty text is written \"\".",
    )


def normalize_path(path: str, *, slash: bool = False) -> str:
    """Normalize a path: no doubled slashes or dots, with or without a trailing slash."""
    tidy = posixpath.normpath(path)
    return f"{tidy}/" if slash and not tidy.endswith("/") else tidy
