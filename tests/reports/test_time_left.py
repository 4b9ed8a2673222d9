"""The time left: chains, slots, running jobs, labels without run times, and the first seconds of a run."""

from __future__ import annotations

import math
import statistics
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshore.model.event import Ended, Event, Started
from longshore.reports.attempts import AttemptCollector
from longshore.reports.time_left import (
    LabelRunTimes,
    RemainingWork,
    SummedWork,
    find_open_jobs,
    map_parents,
    simulate_time_left,
    sum_time_left,
    summed_work,
    typical_run_time,
)

STEADY = [10.0] * 50


def remaining(
    parents: list[tuple[int, ...]],
    *,
    slots: int,
    elapsed: dict[int, float] | None = None,
    labels: list[int] | None = None,
) -> RemainingWork:
    return RemainingWork(
        labels=labels or [0] * len(parents),
        parents=parents,
        elapsed_s=[(elapsed or {}).get(job) for job in range(len(parents))],
        run_s=[STEADY, []],
        slots=(slots, slots),
    )


def test_wide_work_is_divided_by_the_slots() -> None:
    low, high = simulate_time_left(remaining([()] * 20, slots=4))
    assert 45.0 <= low <= 50.0 <= high <= 55.0


def test_a_chain_takes_its_length_whatever_the_slots() -> None:
    low, high = simulate_time_left(remaining([(), (0,), (1,), (2,)], slots=64))
    assert 34.0 <= low <= 40.0 <= high <= 46.0


def test_running_jobs_have_done_part_of_their_work() -> None:
    low, high = simulate_time_left(remaining([(), ()], slots=2, elapsed={0: 4.0, 1: 9.0}))
    assert 5.0 <= low <= 6.0 <= high <= 7.0


def test_a_label_without_run_times_makes_the_range_wide() -> None:
    low, high = simulate_time_left(remaining([()] * 8, slots=1, labels=[0] * 4 + [1] * 4))
    assert low < 60.0
    assert high > 80.0


def test_jobs_that_still_run_make_the_others_look_longer() -> None:
    """Of ten jobs that began together, the first to end is the shortest."""
    assert LabelRunTimes([1.0], [1.0] * 9).mean_s > 1.0
    assert LabelRunTimes([1.0, 2.0, 3.0]).mean_s == pytest.approx(2.0)
    assert LabelRunTimes([1.0] * 5, [], {9000: 5.0}).mean_s == pytest.approx(5.0)
    assert LabelRunTimes([], [], {9000: 5.0}).mean_s == pytest.approx(9.0)
    assert LabelRunTimes([], [40.0], fallback_s=7.0).mean_s == pytest.approx(40.0)
    assert typical_run_time([[4.0], [], [9.0]]) == pytest.approx(6.0)
    assert typical_run_time([[]]) == 1.0


@st.composite
def run_times(draw: st.DrawFn) -> LabelRunTimes:
    """Return the run times of a label with ended, running and earlier jobs, none of them rare."""
    seconds = st.floats(0.0, 100.0)
    earlier = st.dictionaries(st.integers(1, 100_000), st.integers(1, 5).map(float), max_size=6)
    return LabelRunTimes(
        draw(st.lists(seconds, max_size=8)),
        draw(st.lists(seconds, max_size=8)),
        draw(earlier),
        fallback_s=draw(seconds),
    )


@given(run_times(), st.sampled_from((0.5, 1.0, 3.0)), st.integers())
@example(LabelRunTimes([1.0], [10.0] * 9), 1.0, 1)
@example(LabelRunTimes([0.0, 0.0, 0.0, 10.0]), 1.0, 1)
def test_the_mean_is_that_of_the_drawn_run_times(times: LabelRunTimes, scale: float, seed: int) -> None:
    dice = Random(seed)
    drawn = [times.draw(dice, scale) for _ in range(4_000)]
    noise = statistics.stdev(drawn) / math.sqrt(len(drawn))
    assert times.mean_s * scale == pytest.approx(statistics.fmean(drawn), rel=1e-9, abs=6 * noise)


def test_the_mean_counts_how_long_the_running_jobs_may_still_take() -> None:
    """Of ten jobs one took 1 s, and nine have run for 10 s: these take 14.2 s, the mean of 10 exp(abs(x))."""
    assert LabelRunTimes([1.0], [10.0] * 9).mean_s == pytest.approx(0.1 * 1.0 + 0.9 * 14.2, rel=1e-3)


def test_one_slot_is_never_without_work() -> None:
    """With one slot the range is that of the summed run times; with many, chains of jobs make it longer."""
    one, many = (
        sum_time_left(SummedWork(open_jobs=[2000], running_s=[[]], run_s=[STEADY], paces=(slots, slots)))
        for slots in (1.0, 500.0)
    )
    assert 0.9 * 20_000 < one[0] < 20_000 < one[1] < 1.1 * 20_000
    assert 40.0 < many[0] < many[1] < 54.0


def test_the_first_seconds_do_not_mislead() -> None:
    """Two of four slots ended a job after 10 s, and all four have been busy: 36 jobs more need 90 s."""
    events: list[Event] = [Started(t=0.0, j=job, a=1, at=1000.0) for job in range(4)]
    events += [Ended(t=1010.0, j=job, a=1, end=1010.0, run_s=10.0) for job in range(2)]
    events += [Started(t=1010.0, j=job, a=1, at=1010.0) for job in (4, 5)]
    attempts = AttemptCollector([0] * 40, 1)
    attempts.add(events)
    low, high = sum_time_left(summed_work(attempts, [38], 1011.0))
    assert low <= 90.0 <= high < 180.0


def test_descendants_of_failed_and_deleted_jobs_are_not_open() -> None:
    parents = [(), (0,), (1,), (), (3,), ()]
    assert find_open_jobs(bytes((1, 0, 0, 2, 0, 0)), {1: "failed"}, parents) == [5]
    assert find_open_jobs(bytes(6), {}, parents) == list(range(6))
    assert list(map_parents([1, 2, 5], parents)) == [(1, ()), (2, (0,)), (5, ())]


@given(
    st.lists(st.lists(st.floats(0.0, 1e6), max_size=12), min_size=2, max_size=2),
    st.integers(1, 30),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_every_range_is_ordered_and_the_same_again(
    run_s: list[list[float]], jobs: int, slots: int, dice: Random
) -> None:
    parents = [
        tuple(sorted({dice.randrange(job) for _ in range(2)})) if job and dice.random() < 0.5 else ()
        for job in range(jobs)
    ]
    work = RemainingWork(
        labels=[job % 2 for job in range(jobs)],
        parents=parents,
        elapsed_s=[dice.random() * 100 if not parents[job] and dice.random() < 0.3 else None for job in range(jobs)],
        run_s=run_s,
        slots=(slots, slots + 1),
    )
    low, high = simulate_time_left(work)
    assert 0.0 <= low <= high
    assert (low, high) == simulate_time_left(work)
    summed = SummedWork(open_jobs=[jobs, 0], running_s=[[1.0], []], run_s=run_s, paces=(1.0, float(slots)))
    low, high = sum_time_left(summed)
    assert 0.0 <= low <= high
