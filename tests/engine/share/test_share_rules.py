"""How a machine is divided: nothing is given twice, nobody starves, and who ends first has most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.share.share_rules import PATIENCE_S, choose_identities, claimable_amounts, compute_shares
from longshore.model.run.claim import ResourceClaim

MACHINE = {"cpus": 4}


def claim(run: str, **more: Any) -> ResourceClaim:
    given_: dict[str, Any] = {"capacity": MACHINE, "wants": MACHINE, "next": {"cpus": 1}, **more}
    return ResourceClaim(run=run, **given_)


def cpus(claims: Sequence[ResourceClaim], now: float = 0.0) -> dict[str, int]:
    return {run: amounts.get("cpus", 0) for run, amounts in compute_shares(claims, now).items()}


def test_alone_a_run_has_it_all() -> None:
    assert cpus([claim("a", wants={}, next={})]) == {"a": 4}


def test_the_nearest_end_has_all_but_one_jobs_worth_for_each_other() -> None:
    assert cpus([claim("a", end_at=9.0), claim("b", end_at=5.0), claim("c", end_at=7.0)]) == {"a": 1, "b": 2, "c": 1}


def test_what_nobody_wants_goes_to_all_alike() -> None:
    assert cpus([claim("a", wants={"cpus": 1}), claim("b", wants={"cpus": 1})]) == {"a": 2, "b": 2}


def test_a_run_that_counts_less_gets_no_more_than_that() -> None:
    assert cpus([claim("a", capacity={"cpus": 1}, wants={"cpus": 1}), claim("b", wants={})]) == {"a": 1, "b": 3}


def test_what_jobs_of_a_dead_engine_hold_is_theirs() -> None:
    assert cpus([claim("a"), claim("dead", alive=False, holds={"cpus": 3})]) == {"a": 1}


def test_a_run_whose_jobs_are_large_does_not_starve() -> None:
    small, large = claim("small", end_at=1.0), claim("large", end_at=9.0, next=MACHINE, idle_since=100.0)
    assert cpus([small, large], 100.0 + PATIENCE_S - 1) == {"small": 4, "large": 0}
    assert cpus([small, large], 100.0 + PATIENCE_S) == {"small": 0, "large": 4}


def test_there_is_room_for_what_others_have_not_claimed() -> None:
    others = [claim("a", leased={"cpus": 1}), claim("dead", alive=False, leased={"cpus": 4}, holds={"cpus": 2})]
    assert claimable_amounts(others, claim("me")) == {"cpus": 1}
    assert claimable_amounts([*others, claim("b", leased={"cpus": 3})], claim("me")) == {"cpus": 0}


def test_members_that_are_had_are_kept_and_those_of_others_left() -> None:
    assert choose_identities(("0", "1", "2", "3"), ["2"], ["0"], 2) == ("2", "1")
    assert choose_identities(("0", "1"), [], ["0", "1"], 2) == ()
    assert choose_identities(("0", "1"), ["0", "1"], [], 1) == ("0", "1"), "what is in use cannot be taken back"


amounts = st.fixed_dictionaries({"cpus": st.integers(0, 8), "memory": st.integers(0, 20)})


@st.composite
def parties(draw: st.DrawFn) -> list[ResourceClaim]:
    capacity = {"cpus": draw(st.integers(1, 8)), "memory": draw(st.integers(1, 20))}
    found = []
    for number in range(draw(st.integers(1, 5))):
        some = st.fixed_dictionaries({name: st.integers(0, most) for name, most in capacity.items()})
        found.append(
            ResourceClaim(
                run=f"run{number}",
                capacity=capacity,
                wants=draw(some),
                next=draw(some),
                end_at=draw(st.floats(0.0, 100.0)),
                idle_since=draw(st.none() | st.floats(0.0, 100.0)),
            )
        )
    return found


@given(parties(), st.randoms(use_true_random=False))
def test_all_is_given_and_nothing_twice_whoever_works_it_out(claims: list[ResourceClaim], dice: Any) -> None:
    found = compute_shares(claims, 100.0)
    for name, most in claims[0].capacity.items():
        assert sum(each.get(name, 0) for each in found.values()) == most
        assert all(each.get(name, 0) >= 0 for each in found.values())
    dice.shuffle(claims)
    assert compute_shares(claims, 100.0) == found


@given(parties(), st.lists(st.tuples(st.integers(0, 4), st.randoms(use_true_random=False)), max_size=40))
def test_claims_never_come_to_more_than_there_is(claims: list[ResourceClaim], turns: list[tuple[int, Any]]) -> None:
    """Each in its turn, with jobs that end or not in between, as `PoolShare` does it."""
    table = {claim.run: claim for claim in claims}
    for number, dice in turns:
        own = claims[number % len(claims)].run
        others = [claim for run, claim in table.items() if run != own]
        before = table[own]
        held = {name: dice.randint(0, before.leased.get(name, 0)) for name in before.capacity}
        share, most = compute_shares(table.values(), 100.0)[own], claimable_amounts(others, before)
        leased = {name: max(held[name], min(share.get(name, 0), most[name])) for name in before.capacity}
        table[own] = msgspec.structs.replace(before, leased=leased, holds=held)
        for name, most_of_all in before.capacity.items():
            assert sum(claim.leased.get(name, 0) for claim in table.values()) <= most_of_all
