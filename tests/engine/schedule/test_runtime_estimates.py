"""How long a job is expected to run, and when the order should follow what was learnt."""

from __future__ import annotations

from longshore.engine.schedule.estimates import GUESS_S, RuntimeEstimates


def test_its_own_last_time_then_its_labels_mean_then_that_of_the_others() -> None:
    estimates = RuntimeEstimates([0, 0, 1, 2], [(10.0, 3), (30.0, 1), (0.0, 0)], {1: 7.0})
    assert [estimates.expected_s(job) for job in range(4)] == [10.0, 7.0, 30.0, 20.0]


def test_a_run_without_history_takes_all_jobs_to_be_alike() -> None:
    estimates = RuntimeEstimates([0, 1, 1])
    assert [estimates.expected_s(job) for job in range(3)] == [GUESS_S] * 3


def test_no_jobs_are_no_trouble() -> None:
    assert not RuntimeEstimates([]).has_changed()


def test_what_is_learnt_counts_once_it_is_settled() -> None:
    estimates = RuntimeEstimates([0, 1], [(10.0, 100), (10.0, 100)])
    estimates.learn(0, 120.0)
    assert estimates.label_s(0) == 11.1
    assert estimates.expected_s(0) == 10.0
    estimates.apply()
    assert estimates.expected_s(0) == 11.1


def test_only_a_relevant_change_is_worth_a_new_order() -> None:
    estimates = RuntimeEstimates([0, 0, 1, 1], [(10.0, 100), (10.0, 100)])
    estimates.learn(0, 60.0)
    assert estimates.label_s(0) == 10.5
    assert not estimates.has_changed(), "by a twentieth"
    fresh = RuntimeEstimates([0, 0, 1, 1])
    fresh.learn(0, 60.0)
    assert fresh.has_changed()
    fresh.apply()
    assert not fresh.has_changed()


def test_looks_are_rare_in_a_large_run_however_much_moves() -> None:
    size = 100_000
    estimates = RuntimeEstimates([0] * size)
    looks = 0
    for number in range(size):
        estimates.learn(number, float(3 ** (number % 12)))
        if estimates.has_changed():
            looks += 1
            estimates.apply()
    assert looks < 30
