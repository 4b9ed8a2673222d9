"""Evaluates ``bpsEval(function, arguments)`` in a text: pure functions here, others through a `FunctionCaller`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias
from warnings import catch_warnings, simplefilter

import msgspec

from longshore.config.values.templates import Data
from longshore.errors import ConfigError
from longshore.model.suggestions import did_you_mean, name_all
from longshore.model.wording import quote_value
from longshore.origin import Origin

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
_MAX_DEPTH: Final = 20
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
    if depth > _MAX_DEPTH:
        raise ConfigError(f"'{BPS_EVAL}' stands in itself more than {_MAX_DEPTH} deep", origin=origin)
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
