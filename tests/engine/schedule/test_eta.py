"""When a run is expected to be over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.schedule.estimates import LabelWork, estimate_rest_s, is_relevant_change


def test_work_is_divided_by_the_processors() -> None:
    work = [LabelWork(open=8, run_s=10.0), LabelWork(open=2, run_s=30.0, cpus=2.0)]
    assert estimate_rest_s(work, 4) == (80.0 + 120.0) / 4


def test_what_runs_has_done_part_of_its_work() -> None:
    assert estimate_rest_s([LabelWork(open=4, running=2, elapsed_s=15.0, run_s=10.0)], 2) == (20.0 + 5.0) / 2


def test_no_number_of_processors_makes_one_job_shorter() -> None:
    assert estimate_rest_s([LabelWork(open=2, run_s=100.0)], 64) == 100.0


def test_a_run_that_is_over_takes_no_time() -> None:
    assert estimate_rest_s([LabelWork(open=0, run_s=9.0)], 4) == 0.0


seconds = st.floats(0.0, 1e5)
works = st.builds(
    LabelWork,
    open=st.integers(0, 1000),
    cpus=st.floats(1.0, 64.0),
    run_s=seconds,
)


@given(st.lists(works, max_size=5), st.integers(1, 100))
def test_more_processors_never_hurt(work: list[LabelWork], cpus: int) -> None:
    assert 0.0 <= estimate_rest_s(work, cpus + 1) <= estimate_rest_s(work, cpus)


@pytest.mark.parametrize(
    ("before", "now", "told"), [(None, 5.0, True), (116.0, 117.0, False), (116.0, 124.0, True), (116.0, 108.0, True)]
)
def test_an_estimate_is_told_anew_when_it_moves_by_a_sixteenth(before: float | None, now: float, told: bool) -> None:
    assert is_relevant_change(before, now, at=0.0) == told
