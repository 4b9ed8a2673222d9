"""What is remembered of a label: means, distributions, and the newest run time of each job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model import measurements as module
from longshore.model.measurements import (
    MAX_JOBS,
    AttemptUsage,
    LabelHistory,
    count_quantile,
    update_history,
    update_mean,
)
from longshore.model.workflow import MIB

NOTHING = LabelHistory(label="measure")


def success(job: str = "measure_1", run_s: float = 1.0, **more: float) -> AttemptUsage:
    return AttemptUsage(label="measure", job=job, run_s=run_s, **more)  # type: ignore[arg-type]


def test_a_mean_is_plain_for_a_hundred_values_and_moves_from_then_on() -> None:
    mean, weight = 0.0, 0
    for value in (10.0, 20.0, 30.0):
        mean, weight = update_mean(mean, weight, value)
    assert (mean, weight) == (20.0, 3)
    assert update_mean(20.0, 100, 120.0) == (21.0, 100)


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=100))
def test_the_mean_of_few_is_their_mean(values: list[float]) -> None:
    mean, weight = 0.0, 0
    for value in values:
        mean, weight = update_mean(mean, weight, value)
    assert weight == len(values)
    assert mean == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-6)


def test_successes_teach_time_memory_and_processors() -> None:
    history = update_history(
        NOTHING,
        [
            success("measure_1", 10.0, cpu_s=20.0, peak_memory_b=100 * MIB),
            success("measure_2", 30.0, cpu_s=40.0, peak_memory_b=300 * MIB),
            success("measure_1", 20.0),
        ],
    )
    assert (history.run_s, history.weight) == (20.0, 3)
    assert (history.cpu_s, history.cpu_weight) == (30.0, 2)
    assert history.peak_memory_b == 300 * MIB
    assert history.memory_mib == {112: 1.0, 320: 1.0}
    assert history.jobs == {"measure_1": 20.0, "measure_2": 30.0}, "the newest of each job"


def test_folding_at_once_or_in_parts_is_the_same() -> None:
    all_of_them = [success(f"measure_{job}", 1.0 + job) for job in range(30)]
    assert update_history(NOTHING, all_of_them) == update_history(
        update_history(NOTHING, all_of_them[:11]), all_of_them[11:]
    )


def test_a_history_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JOBS", 5)
    monkeypatch.setattr(module, "_MAX_COUNTED", 50)
    history = update_history(NOTHING, [success(f"measure_{job}", 1.0) for job in range(200)])
    assert len(history.jobs) == 5
    assert sum(history.run_ms.values()) <= 50
    assert update_history(history, [success("measure_3", 9.0)]).jobs["measure_3"] == 9.0, "those that are known go on"
    assert MAX_JOBS > 1000


def test_what_is_old_counts_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_COUNTED", 20)
    slow = update_history(NOTHING, [success(run_s=100.0)] * 20)
    fast = update_history(slow, [success(run_s=1.0)] * 60)
    assert count_quantile(slow.run_ms, 0.5) == 114688
    assert count_quantile(fast.run_ms, 0.5) == 1024


@given(st.dictionaries(st.integers(1, 100), st.integers(1, 5)), st.floats(0.01, 1.0))
def test_a_quantile_covers_its_share(counts: dict[int, int], share: float) -> None:
    amount = count_quantile({key: float(number) for key, number in counts.items()}, share)
    if not counts:
        assert amount is None
        return
    assert amount is not None
    everything = sum(counts.values())
    assert sum(number for key, number in counts.items() if key <= amount) >= share * everything - 1e-6
    assert sum(number for key, number in counts.items() if key < amount) < share * everything + 1e-6
