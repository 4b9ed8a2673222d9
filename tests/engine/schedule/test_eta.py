"""When a run is expected to be over, and what history advises to ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.schedule.eta import Eta, LabelWork, estimate_eta, is_relevant_change, make_advice
from longshore.model.run.label_history import AttemptUsage, LabelHistory, update_history
from longshore.model.workflow.request import MIB, Request


def test_work_is_divided_by_the_processors() -> None:
    work = [LabelWork(open=8, run_s=10.0), LabelWork(open=2, run_s=30.0, cpus=2.0)]
    assert estimate_eta(work, 4).expected_s == (80.0 + 120.0) / 4


def test_what_runs_has_done_part_of_its_work() -> None:
    assert estimate_eta([LabelWork(open=4, running=2, elapsed_s=15.0, run_s=10.0)], 2).expected_s == (20.0 + 5.0) / 2


def test_no_number_of_processors_makes_one_job_shorter() -> None:
    assert estimate_eta([LabelWork(open=2, run_s=100.0)], 64).expected_s == 100.0


def test_a_run_that_is_over_takes_no_time() -> None:
    assert estimate_eta([LabelWork(open=0, run_s=9.0)], 4) == Eta(expected_s=0.0, earliest_s=0.0, latest_s=0.0)


def test_an_estimate_lies_between_the_shortest_and_the_longest() -> None:
    found = estimate_eta([LabelWork(open=10, run_s=10.0, shortest_s=5.0, longest_s=40.0)], 1)
    assert (found.earliest_s, found.expected_s, found.latest_s) == (50.0, 100.0, 400.0)


seconds = st.floats(0.0, 1e5)
works = st.builds(
    LabelWork,
    open=st.integers(0, 1000),
    cpus=st.floats(1.0, 64.0),
    run_s=seconds,
    shortest_s=st.none() | seconds,
    longest_s=st.none() | seconds,
)


@given(st.lists(works, max_size=5), st.integers(1, 100))
def test_the_range_holds_the_estimate_and_more_processors_never_hurt(work: list[LabelWork], cpus: int) -> None:
    found = estimate_eta(work, cpus)
    assert 0.0 <= found.earliest_s <= found.expected_s <= found.latest_s
    assert estimate_eta(work, cpus + 1).expected_s <= found.expected_s


@pytest.mark.parametrize(
    ("before", "now", "told"), [(None, 5.0, True), (116.0, 117.0, False), (116.0, 124.0, True), (116.0, 108.0, True)]
)
def test_an_estimate_is_told_anew_when_it_moves_by_a_sixteenth(before: float | None, now: float, told: bool) -> None:
    assert is_relevant_change(before, now, at=0.0) == told


def test_advice_goes_by_what_jobs_used() -> None:
    successes = [
        AttemptUsage(label="m", job=f"m_{job}", run_s=10.0, cpu_s=15.0, peak_memory_b=(100 + job) * MIB)
        for job in range(100)
    ]
    asked = Request(cpus=4, memory_b=4096 * MIB)
    found = make_advice(update_history(LabelHistory(label="m"), successes), asked)
    assert (found.label, found.successes, found.request, found.run_s) == ("m", 100, asked, 10.0)
    assert found.memory_max_b == 199 * MIB
    assert found.memory_b == 224 * MIB, "a tenth more, rounded up"
    assert found.memory_p50_b == 160 * MIB
    assert found.cpus_used == pytest.approx(1.5)
    assert found.cpus == 2


def test_of_what_nobody_measured_nothing_is_advised() -> None:
    found = make_advice(
        update_history(LabelHistory(label="m"), [AttemptUsage(label="m", job="m_1", run_s=1.0)]), Request()
    )
    assert (found.memory_b, found.memory_max_b, found.memory_p95_b, found.cpus) == (None, None, None, None)
