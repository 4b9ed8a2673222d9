"""Reads the priorities of the algorithm ``constraint``, as YAML or as a text of YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.errors import ConfigError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.wording import quote_value
from longshore.sites.select.expression import Expression

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
