"""Selects one of the sites that match, by their state: algorithms, priorities and their expressions (pure)."""

from __future__ import annotations

import ast
import json
import math
import operator
import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Any, Final, TypeAlias

import msgspec

from longshore.contract.algorithms import SelectionSettings, SiteCandidate, SiteSelection
from longshore.errors import DECODE_ERRORS, ConfigError
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value

# Expressions over the state of sites: numbers, texts, comparisons, ``min`` and ``max``, without `eval`. The work is
# bounded: texts are short, syntax trees are small, and numbers are floats, whose powers overflow at once.


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


# Reads the priorities of the algorithm ``constraint``, as YAML or as a text of YAML.


FILTER: Final = "filter"
CALC: Final = "calc"
ASCENDING: Final = "sort_ascending"
DESCENDING: Final = "sort_descending"
SELECT: Final = "select"
STEPS: Final = (FILTER, CALC, ASCENDING, DESCENDING, SELECT)
METHODS: Final = ("first", "last", "random")
_NAME: Final = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_CALC: Final = re.compile(r"\s*([A-Za-z_]\w{0,99})\s*=(?!=)(.*)", re.ASCII | re.DOTALL)
_EXAMPLE: Final = '[[{filter: "nodes_free > 0"}, {sort_ascending: cost}, {select: first}]]'
_MOST: Final = 100
"""Most priorities, and most steps of each."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its kind, the name that it sets or sorts by, or the method of selection, and its expression."""

    kind: str
    text: str
    name: str = ""
    expression: Any = None
    """An `Expression`, for ``filter`` and ``calc``."""


class Priority(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that select a site; the number orders the priorities."""

    number: int
    steps: tuple[Step, ...]

    @property
    def conditions(self) -> frozenset[tuple[str, str]]:
        """Its filters, with the calculations before them."""
        last = max((index for index, step in enumerate(self.steps) if step.kind == FILTER), default=-1)
        return frozenset((step.kind, _normal(step)) for step in self.steps[: last + 1] if step.kind in {FILTER, CALC})


def read_priorities(value: Any) -> tuple[Priority, ...]:
    """Read priorities, ordered by their numbers; those without a number keep their places.

    Raises `ConfigError` if a step is unknown or wrong, or a priority selects nothing.
    """
    if isinstance(value, str):
        value = _parse_text(value)
    if not isinstance(value, list) or not value:
        raise ConfigError(
            f"'priorities' must be a list, not {quote_value(value)}",
            hint=f"For example '{_EXAMPLE}'.",
        )
    if len(value) > _MOST:
        raise ConfigError(f"there are at most {_MOST} priorities, not {len(value)}")
    found = [_read_priority(item, index + 1) for index, item in enumerate(value)]
    return tuple(sorted(found, key=lambda priority: priority.number))


def priority_warnings(priorities: Sequence[Priority]) -> tuple[str, ...]:
    """Return warnings of what has no effect: a sort before a random selection, and a priority never reached."""
    warnings = []
    for index, priority in enumerate(priorities):
        kinds = [step.kind for step in priority.steps]
        chooses_at_random = any(step.kind == SELECT and step.name == "random" for step in priority.steps)
        if chooses_at_random and not {ASCENDING, DESCENDING}.isdisjoint(kinds):
            warnings.append(f"priority {priority.number} sorts and then selects at random: the sort has no effect")
        earlier = next((each for each in priorities[:index] if each.conditions <= priority.conditions), None)
        if earlier is not None:
            warnings.append(
                f"priority {priority.number} is never reached: what passes its filters passes those of priority "
                f"{earlier.number}, which selects it"
            )
    return tuple(warnings)


def _parse_text(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text) if len(text) <= 100_000 else None
    except (yaml.YAMLError, *DECODE_ERRORS) as error:
        first = str(error).splitlines()[0] if str(error) else "it is no YAML"
        raise ConfigError(f"the text of 'priorities' cannot be read: {first}") from None


def _read_priority(value: Any, place: int) -> Priority:
    """Read a list of steps, a map with one step, or a map with ``priority`` and a list ``steps``."""
    if isinstance(value, list):
        value = {"steps": value}
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"a priority must be a list of steps, not {quote_value(value)}", hint=f"For example '{_EXAMPLE}'."
        )
    number = value.get("priority", place)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigError(f"'priority' must be a whole number, not {quote_value(number)}")
    pairs = _step_pairs({key: item for key, item in value.items() if key != "priority"}, number)
    if len(pairs) > _MOST:
        raise ConfigError(f"a priority has at most {_MOST} steps, not {len(pairs)}")
    steps = tuple(_read_step(kind, item, number) for kind, item in pairs)
    selects = next((index for index, step in enumerate(steps) if step.kind == SELECT), None)
    if selects is None:
        raise ConfigError(
            f"priority {number} selects nothing",
            hint=f"End its list of steps with 'select: first', or {', '.join(METHODS[1:])}: '{_EXAMPLE}'.",
        )
    if dead := steps[selects + 1 :]:
        raise ConfigError(
            f"the step '{dead[0].kind}' of priority {number} stands after 'select', and would never run",
            hint="Move 'select' to the end of the list.",
        )
    return Priority(number=number, steps=steps)


def _step_pairs(value: Mapping[Any, Any], number: int) -> list[tuple[Any, Any]]:
    """Kind and value of each step, in their order."""
    if "steps" in value:
        if len(value) > 1:
            extra = next(key for key in value if key != "steps")
            raise ConfigError(f"priority {number} has 'steps' and '{extra}'", hint="Move it into the list.")
        items = value["steps"]
        if not isinstance(items, list):
            raise ConfigError(f"'steps' must be a list, not {quote_value(items)}")
        return [_only_pair(item) for item in items]
    if len(value) > 1:
        # What selects is the last step.
        ordered = sorted(value.items(), key=lambda pair: pair[0] == SELECT)
        listed = ", ".join(f"{{{key}: {_yaml_text(item)}}}" for key, item in ordered)
        raise ConfigError(
            f"priority {number} is a map of {len(value)} steps, and the keys of a map have no order",
            hint=f"Write its steps as a list, in the order in which they run: [{listed}].",
        )
    return list(value.items())


def _yaml_text(value: Any) -> str:
    """A value as YAML, in quotation marks where it is more than a name."""
    return str(value) if _NAME.fullmatch(str(value)) else json.dumps(str(value), ensure_ascii=False)


def _only_pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, Mapping) or len(item) != 1:
        raise ConfigError(f"a step must be a map with one key, not {quote_value(item)}")
    return next(iter(item.items()))


def _read_step(kind: Any, value: Any, number: int) -> Step:
    if kind not in STEPS:
        hint = did_you_mean(str(kind), STEPS, likeness=NAME_LIKENESS) or name_all(STEPS)
        raise ConfigError(f"priority {number} has no step {quote_value(kind)}", hint=hint)
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    if not text:
        raise ConfigError(f"'{kind}' of priority {number} must be text, not {quote_value(value)}")
    if kind == SELECT:
        if text not in METHODS:
            raise ConfigError(f"'{text}' is no method of selection", hint=name_all(METHODS))
        return Step(kind=kind, text=text, name=text)
    if kind in {ASCENDING, DESCENDING}:
        if not _NAME.fullmatch(text):
            raise ConfigError(f"'{kind}' of priority {number} must be a name, not {quote_value(text)}")
        return Step(kind=kind, text=text, name=text)
    if kind == FILTER:
        return Step(kind=kind, text=text, expression=Expression(text))
    found = _CALC.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"'calc' of priority {number} must be NAME = EXPRESSION, not {quote_value(text)}",
            hint="For example 'cost = cost_per_node_hour * hours'.",
        )
    return Step(kind=kind, text=text, name=found[1], expression=Expression(found[2].strip()))


def _normal(step: Step) -> str:
    return f"{step.name}={''.join(step.expression.text.split())}"


# Algorithm ``constraint``: priorities with steps that filter, calculate, sort and select.


def select_by_constraint(candidates: Sequence[SiteCandidate], settings: SelectionSettings) -> SiteSelection:
    """Select by the first priority that leaves a site.

    A site whose filter cannot be evaluated is dropped; one without a value to sort by comes last.
    """
    options = settings.options.get("options") or {}
    priorities = read_priorities(settings.options.get("priorities", options.get("priorities")))
    record = _Record([*priority_warnings(priorities)])
    known = [each for each in candidates if each.state is not None]
    record.warnings += [f"'{each.name}' has no state and is left out" for each in candidates if each.state is None]
    for priority in priorities:
        values = {each.name: {**settings.parameters, **(each.state or {})} for each in known}
        site = _run_priority(priority, values, settings.seed, record)
        if site is not None:
            return record.selection(site)
    record.steps.append("no site passed a priority")
    return record.selection(None)


class _Record:
    """What the steps did, and warnings, each once."""

    def __init__(self, warnings: list[str]) -> None:
        self.steps: list[str] = []
        self.warnings = warnings

    def selection(self, site: str | None) -> SiteSelection:
        """Return the result with this record."""
        return SiteSelection(site=site, steps=tuple(self.steps), warnings=tuple(dict.fromkeys(self.warnings)))


def _run_priority(
    priority: Priority, values: dict[str, dict[str, float | str]], seed: int, record: _Record
) -> str | None:
    """Run the steps of one priority; ``None`` if a filter leaves no site."""
    names = list(values)
    for step in priority.steps:
        before = f"priority {priority.number}: {step.kind} {step.text}"
        if not names:
            record.steps.append(f"priority {priority.number}: no site is left")
            return None
        if step.kind == SELECT:
            chosen = _choose(names, step.name, seed)
            record.steps.append(f"{before}: {chosen}")
            return chosen
        if step.kind == FILTER:
            names = [name for name in names if _passes(name, step, values[name], record)]
        elif step.kind == CALC:
            for name in names:
                _calculate(name, step, values[name], record)
            shown = [f"{name} {_text(values[name][step.name])}" for name in names if step.name in values[name]]
            record.steps.append(f"{before}: {', '.join(shown) or 'no value'}")
            continue
        else:
            names = sort_by_value(
                names, {name: values[name].get(step.name) for name in names}, descending=step.kind == DESCENDING
            )
            record.warnings += [
                f"'{name}' has no number '{step.name}' and comes last"
                for name in names
                if not is_number(values[name].get(step.name))
            ]
        record.steps.append(f"{before}: {', '.join(names) or 'none'}")
    return None


def sort_by_value(
    names: Sequence[str], values: Mapping[str, float | str | None], *, descending: bool = False
) -> list[str]:
    """Sort names by numbers, stably; names without a number come last in either order."""

    def key(name: str) -> tuple[bool, float]:
        value = values.get(name)
        if not isinstance(value, int | float):
            return True, 0.0
        return False, -float(value) if descending else float(value)

    return sorted(names, key=key)


def is_number(value: object) -> bool:
    """Whether a value can be sorted by."""
    return isinstance(value, int | float)


def _choose(names: Sequence[str], method: str, seed: int) -> str:
    if method == "random":
        return random.Random(seed).choice(names)  # noqa: S311
    return names[0] if method == "first" else names[-1]


def _passes(name: str, step: Step, values: Names, record: _Record) -> bool:
    try:
        return is_true(step.expression.evaluate(values))
    except UndefinedNameError as error:
        record.warnings.append(f"'{name}' has no value '{error.name}' for the filter '{step.text}' and is left out")
    except ConfigError as error:
        record.warnings.append(f"'{name}' is left out: {error.message}")
    except TypeError as error:
        record.warnings.append(f"'{name}' is left out: {error}")
    return False


def _calculate(name: str, step: Step, values: dict[str, float | str], record: _Record) -> None:
    """Set a value of one site; without one, an earlier value of that name is gone as well."""
    try:
        values[step.name] = step.expression.evaluate(values)
        return
    except UndefinedNameError as error:
        record.warnings.append(f"'{name}' has no value '{error.name}' for the calculation '{step.text}'")
    except ConfigError as error:
        record.warnings.append(f"'{name}' has no '{step.name}': {error.message}")
    values.pop(step.name, None)


def _text(value: float | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Algorithms of selection: ``first``, ``random``, ``cheapest``, ``least_loaded`` and ``fastest_start``.


LEAST_WAITS: Final = 5
"""Waits of earlier jobs below which a median says nothing."""
_COSTS: Final = ("cost", "cost_per_node_hour")
_KINDS: Final = ("cpus", "nodes")


def select_first(candidates: Sequence[SiteCandidate], _settings: SelectionSettings) -> SiteSelection:
    """Select the first candidate."""
    site = candidates[0].name if candidates else None
    return SiteSelection(site=site, steps=(f"first of {len(candidates)}",))


def select_random(candidates: Sequence[SiteCandidate], settings: SelectionSettings) -> SiteSelection:
    """Select any candidate, by a seed."""
    if not candidates:
        return SiteSelection(site=None, steps=("no candidate",))
    site = random.Random(settings.seed).choice(candidates).name  # noqa: S311
    return SiteSelection(site=site, steps=(f"random of {len(candidates)}, seed {settings.seed}",))


def select_cheapest(candidates: Sequence[SiteCandidate], _settings: SelectionSettings) -> SiteSelection:
    """Select the site with the lowest ``cost``, or ``cost_per_node_hour`` where no site has a cost."""
    states = {each.name: each.state or {} for each in candidates}
    key = next((key for key in _COSTS if any(key in state for state in states.values())), _COSTS[0])
    return _select_lowest(candidates, {name: state.get(key) for name, state in states.items()}, key)


def select_least_loaded(candidates: Sequence[SiteCandidate], _settings: SelectionSettings) -> SiteSelection:
    """Select the site with the lowest load: what is used or waited for, of all processors, or else nodes."""
    return _select_lowest(candidates, {each.name: load_of(each.state or {}) for each in candidates}, "load")


def load_of(state: Mapping[str, float | str]) -> float | None:
    """Load of a site, 0 if it is idle, 1 if all is used; ``None`` if its state does not tell."""
    load = state.get("load")
    if isinstance(load, int | float):
        return float(load)
    for kind in _KINDS:
        total, free, waiting = (state.get(f"{kind}_{each}") for each in ("total", "free", "waiting"))
        if isinstance(total, int | float) and isinstance(free, int | float) and total > 0:
            return (total - free + (waiting if isinstance(waiting, int | float) else 0)) / total
    return None


def select_fastest_start(candidates: Sequence[SiteCandidate], settings: SelectionSettings) -> SiteSelection:
    """Select the site at which the user's earlier jobs waited the shortest median time.

    Sites with few waits come last. If no site has enough, the least loaded is selected.
    """
    waits = {each.name: median(each.waits_s) for each in candidates if len(each.waits_s) >= LEAST_WAITS}
    few = [f"'{each.name}' has {len(each.waits_s)}" for each in candidates if each.name not in waits]
    warnings = (f"the median wait needs {LEAST_WAITS} earlier jobs: {', '.join(few)}",) if few else ()
    if not waits:
        other = select_least_loaded(candidates, settings)
        steps = ("no site has enough earlier jobs: the least loaded is selected", *other.steps)
        return SiteSelection(site=other.site, steps=steps, warnings=(*warnings, *other.warnings))
    found = _select_lowest(candidates, {each.name: waits.get(each.name) for each in candidates}, "median wait in s")
    return SiteSelection(site=found.site, steps=found.steps, warnings=warnings)


def _select_lowest(
    candidates: Sequence[SiteCandidate], values: Mapping[str, float | str | None], what: str
) -> SiteSelection:
    """Select the site with the lowest value; those without come last, each with a warning."""
    known = {name: value for name, value in values.items() if isinstance(value, int | float)}
    names = sort_by_value([each.name for each in candidates], known)
    shown = ", ".join(f"{name} {known[name]:.6g}" if name in known else f"{name} ?" for name in names)
    warnings = [f"'{name}' has no {what} and comes last" for name in names if name not in known]
    if names and not known:
        warnings = [f"no site has a {what}: the first is selected"]
    return SiteSelection(
        site=names[0] if names else None, steps=(f"lowest {what}: {shown or 'none'}",), warnings=tuple(warnings)
    )
