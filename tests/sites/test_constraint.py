"""The algorithm ``constraint``, by the worked numbers of its specification."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.contract.algorithms import SelectionSettings, SiteCandidate, SiteSelection
from longshore.errors import ConfigError
from longshore.sites.select import priority_warnings, read_priorities, select_by_constraint

A = {"cost_per_node_hour": 3.0, "nodes_free": 20.0, "memory_per_node": 200.0}
B = {"cost_per_node_hour": 1.0, "nodes_free": 5.0, "memory_per_node": 400.0}
C = {"cost_per_node_hour": 0.5, "nodes_free": 0.0, "memory_per_node": 200.0}
FREE = {"filter": "nodes_free > 0"}
COST = {"calc": "build_cost=(cost_per_node_hour * (memory_per_node * seconds_per_gb)/60/60)"}
LESS = {"calc": "memory_min=min(100, memory_per_node - 100)"}
COST_OF_LESS = {"calc": "build_cost=(cost_per_node_hour * (memory_min * seconds_per_gb)/60/60)"}
UP, DOWN = {"sort_ascending": "build_cost"}, {"sort_descending": "build_cost"}
FIRST, LAST, RANDOM = {"select": "first"}, {"select": "last"}, {"select": "random"}


def select(
    *priorities: list[dict[str, str]], seconds: float | None = 2.0, seed: int = 0, **states: dict[str, Any]
) -> SiteSelection:
    """Select among three sites by lists of steps."""
    candidates = [SiteCandidate(name=name, state=state) for name, state in (states or {"A": A, "B": B, "C": C}).items()]
    options = {"priorities": [{"priority": i + 1, "steps": steps} for i, steps in enumerate(priorities)]}
    parameters = {} if seconds is None else {"seconds_per_gb": seconds}
    return select_by_constraint(candidates, SelectionSettings(options=options, seed=seed, parameters=parameters))


WORKED = [
    ([FREE, COST, UP, FIRST], "B"),
    ([FREE, COST, DOWN, FIRST], "A"),
    ([FREE, COST, UP, LAST], "A"),
    ([COST, UP, FIRST], "C"),
    ([FREE, LESS, COST_OF_LESS, UP, FIRST], "B"),
    ([LESS, COST_OF_LESS, UP, FIRST], "C"),
]


@pytest.mark.parametrize(("steps", "site"), WORKED)
def test_worked_numbers(steps: list[dict[str, str]], site: str) -> None:
    assert select(steps).site == site


def test_calculated_numbers_are_those_of_the_specification() -> None:
    (shown,) = [step for step in select([FREE, COST, UP, FIRST]).steps if "calc" in step]
    assert shown.endswith("A 0.333333, B 0.222222")
    (shown,) = [step for step in select([LESS, COST_OF_LESS, FIRST]).steps if "calc build_cost" in step]
    assert shown.endswith("A 0.166667, B 0.0555556, C 0.0277778")


def test_a_priority_without_sites_gives_way_to_the_next() -> None:
    found = select([{"filter": "memory_per_node > 500"}, FIRST], [FREE, LAST])
    assert found.site == "B"
    assert "no site is left" in " ".join(found.steps)
    assert select([{"filter": "memory_per_node > 500"}, FIRST]).site is None


def test_a_missing_parameter_keeps_the_order_and_warns() -> None:
    found = select([FREE, COST, UP, FIRST], seconds=None)
    assert found.site == "A"
    assert any("'A' has no value 'seconds_per_gb'" in warning for warning in found.warnings)


def test_a_site_without_the_value_comes_last() -> None:
    cheap = {"nodes_free": 1.0}
    found = select([UP | {}, FIRST], X=cheap, Y={"build_cost": 9.0})
    assert (found.site, found.warnings) == ("Y", ("'X' has no number 'build_cost' and comes last",))
    assert select([DOWN, FIRST], X=cheap, Y={"build_cost": 9.0}).site == "Y"


def test_an_undefined_name_in_a_filter_drops_the_site() -> None:
    found = select([{"filter": "nosuch > 1"}, FIRST], [FREE, LAST])
    assert found.site == "B"
    assert any("'A' has no value 'nosuch'" in warning for warning in found.warnings)


def test_a_filter_that_cannot_be_evaluated_drops_the_site() -> None:
    found = select(
        [{"filter": "cost > 1 / nodes"}, FIRST], X={"cost": 1.0, "nodes": 0.0}, Y={"cost": 1.0, "nodes": 2.0}
    )
    assert found.site == "Y"
    assert any(warning.startswith("'X' is left out: ") for warning in found.warnings)


def test_a_calculation_that_is_impossible_leaves_no_earlier_value() -> None:
    steps = [{"calc": "rate = 1 / nodes"}, {"sort_descending": "rate"}, FIRST]
    found = select(steps, X={"nodes": 0.0, "rate": 9.0}, Y={"nodes": 2.0})
    assert found.site == "Y"
    assert any(warning.startswith("'X' has no 'rate': ") for warning in found.warnings)
    assert "'X' has no number 'rate' and comes last" in found.warnings


def test_a_text_is_no_condition() -> None:
    found = select([{"filter": "name"}, FIRST], X={"name": "false"}, Y={"name": 1.0})
    assert found.site == "Y"
    assert any("no condition" in warning for warning in found.warnings)


def test_a_state_wins_over_a_parameter_and_is_not_changed() -> None:
    state = {"seconds_per_gb": 7.0}
    found = select([{"calc": "seconds_per_gb = seconds_per_gb + 1"}, FIRST], X=state)
    assert "X 8" in found.steps[0]
    assert state == {"seconds_per_gb": 7.0}


def test_a_site_without_a_state_is_left_out() -> None:
    options = {"priorities": [FIRST]}
    candidates = [SiteCandidate(name="unknown"), SiteCandidate(name="known", state={})]
    found = select_by_constraint(candidates, SelectionSettings(options=options))
    assert (found.site, found.warnings) == ("known", ("'unknown' has no state and is left out",))


def test_a_random_selection_follows_the_seed_among_what_passes() -> None:
    chosen = [select([FREE, RANDOM], seed=seed).site for seed in range(40)]
    assert set(chosen) == {"A", "B"}
    assert chosen == [select([FREE, RANDOM], seed=seed).site for seed in range(40)]


def test_priorities_are_yaml_or_a_text_of_yaml() -> None:
    text = '- {priority: 2, steps: [{select: last}]}\n- {priority: 1, steps: [{filter: "x > 0"}, {select: first}]}\n'
    found = read_priorities(text)
    assert [each.number for each in found] == [1, 2]
    (short,) = read_priorities([[{"filter": "x > 0"}, {"select": "first"}]])
    assert [(step.kind, step.text) for step in short.steps] == [(step.kind, step.text) for step in found[0].steps]


def test_a_name_and_a_comparison_can_be_calculated() -> None:
    (priority,) = read_priorities([[{"calc": " ok = nodes_free >= 1"}, {"select": "first"}]])
    assert priority.steps[0].name == "ok"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "'priorities' must be a list"),
        ([], "'priorities' must be a list"),
        ("- [", "cannot be read"),
        (["x"], "a priority must be a list of steps"),
        ([{"filter": "x > 0"}], "priority 1 selects nothing"),
        ([[{"fliter": "x > 0"}, {"select": "first"}]], "has no step 'fliter'"),
        ([{"select": "best"}], "'best' is no method of selection"),
        ([[{"filter": "x >"}, {"select": "first"}]], "is no expression"),
        ([[{"calc": "x > 1"}, {"select": "first"}]], "must be NAME = EXPRESSION"),
        ([[{"calc": "x == 1"}, {"select": "first"}]], "must be NAME = EXPRESSION"),
        ([[{"sort_ascending": "a + b"}, {"select": "first"}]], "must be a name"),
        (
            [{"select": "first", "filter": "x > 0"}],
            "1 is a map of 2 steps, and the keys of a map have no order",
        ),
        ("- {sort_ascending: cost, select: first}", "priority 1 is a map of 2 steps"),
        ([[{"select": "first"}, {"filter": "x > 0"}]], "'filter' of priority 1 stands after 'select'"),
        ([{"steps": [FREE, FIRST, LAST]}], "'select' of priority 1 stands after 'select'"),
        ([{"filter": "x > 0"}, {"select": "first"}], "priority 1 selects nothing"),
        ([{"priority": "high", "select": "first"}], "must be a whole number"),
        ([{"steps": [{"select": "first"}], "filter": "x"}], "has 'steps' and 'filter'"),
        ([{"steps": {"select": "first"}}], "'steps' must be a list"),
        ([{"steps": ["select"]}], "a step must be a map with one key"),
        ([[{"filter": ["x"]}, {"select": "first"}]], "'filter' of priority 1 must be text"),
        ([{"select": "first"}] * 101, "at most 100 priorities"),
        ([{"steps": [{"select": "first"}] * 101}], "at most 100 steps"),
    ],
)
def test_a_wrong_priority_is_an_error(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_priorities(value)


def test_a_map_of_steps_is_refused_with_its_steps_as_a_list() -> None:
    with pytest.raises(ConfigError) as caught:
        read_priorities([{"select": "first", "filter": "x > 0", "sort_ascending": "cost"}])
    assert '[{filter: "x > 0"}, {sort_ascending: cost}, {select: first}]' in caught.value.hint


def test_what_has_no_effect_is_a_warning() -> None:
    both = [{"steps": [FREE, COST, DOWN, RANDOM]}, {"steps": [FREE, LESS, COST_OF_LESS, DOWN, RANDOM]}]
    assert [warning.partition(":")[0] for warning in priority_warnings(read_priorities(both))] == [
        "priority 1 sorts and then selects at random",
        "priority 2 sorts and then selects at random",
        "priority 2 is never reached",
    ]
    assert priority_warnings(read_priorities([[{"filter": "a > 1"}, {"select": "first"}], {"select": "first"}])) == ()
