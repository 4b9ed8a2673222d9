"""The other algorithms of selection: which site each chooses, and what it tells."""

from __future__ import annotations

from longshore.contract.algorithms import SelectionSettings, SiteCandidate
from longshore.sites.select import (
    load_of,
    select_cheapest,
    select_fastest_start,
    select_first,
    select_least_loaded,
    select_random,
)

SETTINGS = SelectionSettings(seed=7)


def sites(**states: dict[str, float | str] | None) -> list[SiteCandidate]:
    return [SiteCandidate(name=name, state=state) for name, state in states.items()]


def test_the_first_is_that_written_first() -> None:
    assert select_first(sites(b={}, a={}), SETTINGS).site == "b"
    assert select_first([], SETTINGS).site is None


def test_a_random_site_follows_the_seed() -> None:
    among = sites(**{name: {} for name in "abcdef"})
    chosen = [select_random(among, SelectionSettings(seed=seed)).site for seed in range(60)]
    assert set(chosen) == set("abcdef")
    assert chosen == [select_random(among, SelectionSettings(seed=seed)).site for seed in range(60)]
    assert select_random([], SETTINGS).site is None


def test_the_cheapest_has_the_lowest_cost() -> None:
    found = select_cheapest(sites(a={"cost": 3}, b=None, c={"cost": 0.5}), SETTINGS)
    assert (found.site, found.warnings) == ("c", ("'b' has no cost and comes last",))
    assert select_cheapest(sites(a={"cost_per_node_hour": 3}, b={"cost_per_node_hour": 2}), SETTINGS).site == "b"


def test_without_any_cost_the_first_is_chosen_and_told() -> None:
    found = select_cheapest(sites(a={}, b={"cost": "much"}), SETTINGS)
    assert (found.site, found.warnings) == ("a", ("no site has a cost: the first is selected",))


def test_a_load_is_what_is_used_or_waited_for() -> None:
    assert load_of({"cpus_total": 10, "cpus_free": 4, "cpus_waiting": 6}) == 1.2
    assert load_of({"nodes_total": 4, "nodes_free": 4}) == 0
    assert load_of({"load": 0.25, "cpus_total": 10, "cpus_free": 0}) == 0.25
    assert load_of({"cpus_total": 0, "cpus_free": 0}) is None
    assert load_of({}) is None


def test_the_least_loaded_has_the_lowest_load() -> None:
    assert (
        select_least_loaded(
            sites(a={"cpus_total": 10, "cpus_free": 1}, b={"nodes_total": 2, "nodes_free": 2}, c=None), SETTINGS
        ).site
        == "b"
    )


def test_the_fastest_start_is_the_shortest_median_wait() -> None:
    a = SiteCandidate(name="a", waits_s=[1, 1, 1, 1, 900])
    b = SiteCandidate(name="b", waits_s=[5, 5, 5, 5, 5])
    c = SiteCandidate(name="c", waits_s=[0, 0])
    found = select_fastest_start([b, a, c], SETTINGS)
    assert (found.site, found.warnings) == ("a", ("the median wait needs 5 earlier jobs: 'c' has 2",))


def test_with_few_waits_the_least_loaded_is_chosen_and_told() -> None:
    among = [SiteCandidate(name="a", state={"load": 2}), SiteCandidate(name="b", state={"load": 1}, waits_s=[1.0])]
    found = select_fastest_start(among, SETTINGS)
    assert found.site == "b"
    assert found.steps[0] == "no site has enough earlier jobs: the least loaded is selected"
    assert found.warnings == ("the median wait needs 5 earlier jobs: 'a' has 0, 'b' has 1",)
