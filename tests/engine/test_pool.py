"""A pool is never overshot, and what is returned is there again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.pool import Pool

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
