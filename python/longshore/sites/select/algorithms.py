"""Algorithms of selection: ``first``, ``random``, ``cheapest``, ``least_loaded`` and ``fastest_start``."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from longshore.contract.site_selection import SelectionSettings, SiteCandidate, SiteSelection
from longshore.sites.select.constraint import sort_by_value

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
