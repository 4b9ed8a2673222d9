"""The estimated time left is a range, and nothing if too little is known."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from longshore.app.report.time_left import MIN_ENDED, time_left


def steady(ends: int, *, seconds: float = 10.0, slots: int = 2, left: int = 20) -> tuple[float, float] | None:
    """A run whose jobs all take the same time, in so many slots, without a pause."""
    times = [seconds * (number // slots + 1) for number in range(ends)]
    return time_left(
        now=times[-1] if times else 0.0,
        started_at=0.0,
        left=[left],
        run_s=[[seconds] * ends],
        ended_at=times,
        busy_s=list(accumulate([seconds] * ends)),
    )


def test_fewer_than_ten_ends_give_no_estimate() -> None:
    assert steady(MIN_ENDED - 1) is None
    assert steady(MIN_ENDED) is not None
    assert steady(0) is None
    assert steady(100, left=0) is None


def test_a_steady_run_needs_its_work_over_its_slots() -> None:
    low, high = steady(100, seconds=10.0, slots=2, left=20) or (0.0, 0.0)
    assert 90.0 <= low <= high <= 110.0


def test_a_run_that_became_slower_has_a_wider_range() -> None:
    ended = [float(number) for number in range(1, 51)] + [100.0]
    low, high = time_left(
        now=100.0, started_at=0.0, left=[10], run_s=[[1.0] * 51], ended_at=ended, busy_s=list(accumulate([1.0] * 51))
    ) or (0.0, 0.0)
    assert high > 4 * low


def test_a_label_without_ends_is_estimated_like_all_others() -> None:
    found = time_left(
        now=100.0,
        started_at=0.0,
        left=[0, 10],
        run_s=[[5.0] * 20, []],
        ended_at=[5.0 * number for number in range(1, 21)],
        busy_s=list(accumulate([5.0] * 20)),
    )
    assert found == (50.0, 50.0)


def test_running_jobs_have_done_part_of_their_work() -> None:
    """Of two jobs one is half done, and one has run longer than any did: what is left is half a job and none."""
    found = time_left(
        now=100.0,
        started_at=0.0,
        left=[2],
        running_s=[[5.0, 400.0]],
        run_s=[[10.0] * 10],
        ended_at=[10.0 * number for number in range(1, 11)],
        busy_s=list(accumulate([10.0] * 10)),
    )
    assert found == (5.0, 5.0)


@given(
    st.lists(st.tuples(st.floats(0, 1e5), st.integers(0, 2)), min_size=MIN_ENDED, max_size=60),
    st.lists(st.integers(0, 1000), min_size=3, max_size=3),
    st.floats(0.1, 1e5),
)
def test_the_range_is_ordered(ends: list[tuple[float, int]], left: list[int], elapsed: float) -> None:
    run_s: list[list[float]] = [[], [], []]
    for seconds, label in ends:
        run_s[label].append(seconds)
    step = elapsed / len(ends)
    found = time_left(
        now=elapsed,
        started_at=0.0,
        left=left,
        run_s=run_s,
        ended_at=[step * (number + 1) for number in range(len(ends))],
        busy_s=list(accumulate(seconds for seconds, _ in ends)),
    )
    if found:
        low, high = found
        assert 0.0 <= low <= high
        assert any(left)
