"""A pool is never overshot, and what is returned is there again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.schedule.resource_pool import Identities, Pool

NAMES = ("cpus", "memory", "gpus")
amounts = st.dictionaries(st.sampled_from((*NAMES, "licences")), st.integers(0, 12))


def test_what_is_not_named_is_not_counted() -> None:
    pool = Pool({"cpus": 4})
    assert pool.clamp({"cpus": 2, "memory": 10**12}) == {"cpus": 2}


def test_a_request_above_the_capacity_gets_all_there_is() -> None:
    pool = Pool({"cpus": 4, "memory": 100})
    assert pool.clamp({"cpus": 9, "memory": 50}) == {"cpus": 4, "memory": 50}


@given(st.fixed_dictionaries({name: st.integers(0, 8) for name in NAMES}), st.lists(st.tuples(amounts, st.randoms())))
def test_it_is_never_overshot(capacity: dict[str, int], steps: list[tuple[dict[str, int], object]]) -> None:
    pool = Pool(capacity)
    taken: list[dict[str, int]] = []
    for asked, dice in steps:
        clamped = pool.clamp(asked)
        used = {name: sum(each.get(name, 0) for each in taken) for name in NAMES}
        assert pool.fits(clamped) == all(used[name] + amount <= capacity[name] for name, amount in clamped.items())
        if pool.fits(clamped):
            pool.take(clamped)
            taken.append(clamped)
        elif taken:
            pool.give(taken.pop(dice.randrange(len(taken))))  # type: ignore[attr-defined]
        assert all(0 <= free <= capacity[name] for name, free in pool.free.items())
    for each in taken:
        pool.give(each)
    assert pool.free == pool.capacity == capacity


@given(st.integers(0, 5), st.integers(0, 4), amounts, st.integers(0, 5))
def test_as_many_fit_as_can_be_taken_one_by_one(gpus: int, allowed: int, asked: dict[str, int], most: int) -> None:
    pool = Pool({"cpus": 7, "memory": 3}, {"gpus": [str(number) for number in range(gpus)]})
    pool.resize({"cpus": 7, "memory": 2, "gpus": allowed}, {"gpus": tuple(map(str, range(allowed)))})
    clamped = pool.clamp(asked)
    number = pool.count_fitting(clamped, most)
    for _ in range(number):
        assert pool.fits(clamped)
        pool.take(clamped)
    assert number == most or not pool.fits(clamped)


gpu_requests = st.fixed_dictionaries({"cpus": st.integers(0, 3), "gpus": st.integers(0, 3)})
steps = st.lists(st.tuples(st.sampled_from(["start", "start", "end", "crash", "resize"]), gpu_requests, st.randoms()))


@given(st.integers(0, 5), steps)
def test_no_identity_is_had_twice_and_the_ceiling_holds(
    count: int, steps: list[tuple[str, dict[str, int], Random]]
) -> None:
    names = tuple(f"GPU-{number}" for number in range(count))
    pool = Pool({"cpus": 6}, {"gpus": names})
    running: list[tuple[dict[str, int], Identities]] = []
    for what, asked, dice in steps:
        if what == "start" and pool.fits(amounts := pool.clamp(asked)):
            given_ = pool.take(amounts)
            running.append((amounts, given_))
            assert len(given_.get("gpus", ())) == amounts["gpus"]
            assert all(pool.amounts_in_use[name] <= most for name, most in pool.ceiling.items() if amounts[name])
        elif what == "end" and running:
            pool.give(*running.pop(dice.randrange(len(running))))
        elif what == "crash":
            # Another engine knows what runs from the journal, and nothing else.
            pool = Pool({"cpus": 6}, {"gpus": names})
            for amounts, given_ in running:
                pool.hold(amounts, given_)
        elif what == "resize":
            allowed = tuple(dice.sample(names, dice.randint(0, count)))
            pool.resize({"cpus": dice.randint(0, 9), "gpus": len(allowed)}, {"gpus": allowed})
        had = [identity for _, given_ in running for identity in given_.get("gpus", ())]
        assert len(had) == len(set(had))
        assert sorted(had) == sorted(pool.identities_in_use["gpus"])
        used = {name: sum(amounts[name] for amounts, _ in running) for name in ("cpus", "gpus")}
        assert pool.amounts_in_use == used
        assert all(amount <= pool.capacity[name] for name, amount in used.items())


def test_the_lowest_free_identity_is_given_first() -> None:
    pool = Pool({"cpus": 9}, {"gpus": ("0", "1", "3")})
    assert pool.capacity["gpus"] == 3
    first, second = pool.take({"gpus": 1}), pool.take({"gpus": 1, "cpus": 1})
    assert (first, second) == ({"gpus": ("0",)}, {"gpus": ("1",)})
    pool.give({"gpus": 1}, first)
    assert pool.take({"gpus": 2}) == {"gpus": ("0", "3")}
    assert not pool.fits({"gpus": 1})
    assert pool.fits({"gpus": 0, "cpus": 8})


def test_what_runs_on_members_that_are_gone_still_counts() -> None:
    pool = Pool({}, {"gpus": ("0", "1")})
    pool.hold({"gpus": 1}, {"gpus": ("7",)})
    assert pool.fits({"gpus": 1})
    assert not pool.fits({"gpus": 2})
    pool.give({"gpus": 1}, {"gpus": ("7",)})
    assert pool.take({"gpus": 2}) == {"gpus": ("0", "1")}


@pytest.mark.parametrize("ceiling", [{}, {"cpus": 1}])
def test_what_is_taken_stays_taken_under_a_lower_ceiling(ceiling: dict[str, int]) -> None:
    pool = Pool({"cpus": 4})
    pool.take({"cpus": 3})
    pool.resize(ceiling)
    assert not pool.fits({"cpus": 1})
    pool.give({"cpus": 3})
    assert pool.fits({"cpus": 1}) == bool(ceiling)
    pool.resize({"cpus": 99})
    assert pool.free == {"cpus": 4}
