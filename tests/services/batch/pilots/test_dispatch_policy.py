"""Who gets how much work ahead, what is taken back, and how many allocations are asked for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.pool import (
    MOST_HANDED,
    PilotView,
    WaitingWork,
    plan_handouts,
    plan_returns,
    room_for,
    wanted_allocations,
)
from longshore.services.batch.pilots.work_queue import WorkKind


def pilot(number: int = 1, **options: float) -> PilotView:
    """Return a pilot with four processors."""
    return PilotView(id=(number, 0), cpus=4, memory_b=4000, **options)  # type: ignore[arg-type]


def work(count: int, run_s: float | None = None, *, cpus: int = 1, memory_b: int = 0, need_s: float | None = None):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Return waiting work of one kind."""
    return WaitingWork(1, WorkKind(cpus, memory_b, need_s, 1), count, run_s)


@pytest.mark.parametrize(
    ("waiting", "view", "room"),
    [
        (work(100), pilot(), 8),
        (work(100, cpus=2), pilot(), 4),
        (work(100, memory_b=4000), pilot(), 2),
        (work(100, cpus=5), pilot(), 0),
        (work(100, 60.0), pilot(), 8),
        (work(100, 1.0), pilot(), 124),
        (work(10**6, 0.001), pilot(), MOST_HANDED),
        (work(100, need_s=50.0), pilot(left_s=40.0), 0),
        (work(100, 1.0), pilot(left_s=9.0), 40),
        (work(100), pilot(load=2.0), 0),
    ],
)
def test_work_ahead(waiting: WaitingWork, view: PilotView, room: int) -> None:
    assert room_for(view, waiting) == room


def test_work_is_shared_evenly() -> None:
    handouts = plan_handouts([work(10, 100.0)], [pilot(1), pilot(2)])
    assert sorted(each.count for each in handouts) == [5, 5]


def test_a_busy_pilot_gets_less() -> None:
    counts = {each.pilot: each.count for each in plan_handouts([work(8, 10.0)], [pilot(1, backlog_s=20.0), pilot(2)])}
    assert counts == {(2, 0): 8}


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3000), st.none() | st.floats(0.0, 100.0)), max_size=5),
    st.lists(st.tuples(st.integers(1, 8), st.floats(0, 3)), max_size=5),
)
def test_no_more_is_handed_out_than_waits_or_has_room(
    kinds: list[tuple[int, int, float | None]], nodes: list[tuple[int, float]]
) -> None:
    works = [WaitingWork(n, WorkKind(c, 10, None, n), count, run_s) for n, (c, count, run_s) in enumerate(kinds, 1)]
    views = [PilotView(id=(n, 0), cpus=cpus, memory_b=1000, load=load) for n, (cpus, load) in enumerate(nodes)]
    handouts = plan_handouts(works, views)
    for each in works:
        handed = sum(handout.count for handout in handouts if handout.kind == each.number)
        assert handed <= each.count
        if handed < each.count:
            assert not any(room_for(view, each) for view in views), "room was left beside waiting work"
    assert len({(handout.pilot, handout.kind) for handout in handouts}) == len(handouts)


def test_a_busy_pilot_gives_back_half_while_another_is_idle() -> None:
    busy = pilot(1, load=5.0, backlog_s=50.0, handed=20, waiting=16)
    assert plan_returns([busy, pilot(2)]) == [((1, 0), 8)]
    assert plan_returns([busy, pilot(2, load=1.0)]) == []
    busy.is_asked_back = True
    assert plan_returns([busy, pilot(2)]) == []


def test_work_of_a_second_is_not_moved() -> None:
    assert plan_returns([pilot(1, load=5.0, backlog_s=1.0, handed=20, waiting=16), pilot(2)]) == []


@pytest.mark.parametrize(
    ("load", "work_s", "count"),
    [(0.0, 0.0, 0), (0.25, None, 1), (1.5, None, 2), (99.0, None, 4), (99.0, 30.0, 1), (99.0, 130.0, 3), (2.0, 1e9, 2)],
)
def test_allocations_follow_the_work(load: float, work_s: float | None, count: int) -> None:
    assert wanted_allocations(PilotSettings(count=4), load, work_s) == count


def test_an_allocation_may_have_several_nodes() -> None:
    assert wanted_allocations(PilotSettings(count=4, nodes=2), 3.0, None) == math.ceil(3 / 2)
