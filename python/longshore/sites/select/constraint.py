"""Algorithm ``constraint``: priorities with steps that filter, calculate, sort and select."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from longshore.contract.site_selection import SelectionSettings, SiteCandidate, SiteSelection
from longshore.errors import ConfigError
from longshore.sites.select.expression import Names, UndefinedNameError, is_true
from longshore.sites.select.priorities import (
    CALC,
    DESCENDING,
    FILTER,
    SELECT,
    Priority,
    Step,
    priority_warnings,
    read_priorities,
)


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
