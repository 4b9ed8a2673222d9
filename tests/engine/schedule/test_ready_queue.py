"""Pressure along the critical path, and the order in which ready jobs are taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.schedule.ready_queue import ReadyQueue, compute_pressures


def test_pressure_is_the_longest_chain_from_a_job_on() -> None:
    #  0 -> 1 -> 3    and 4 alone; job 2 is the long way round
    #  0 -> 2 -> 3
    run_s = [1.0, 2.0, 10.0, 5.0, 7.0]
    assert list(compute_pressures([[1, 2], [3], [3], [], []], run_s)) == [16.0, 7.0, 15.0, 5.0, 7.0]


def test_no_jobs_have_no_pressure() -> None:
    assert list(compute_pressures([], [])) == []


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[float]]:
    size = draw(st.integers(1, 12))
    children = [sorted(draw(st.sets(st.integers(job + 1, size - 1)))) if job + 1 < size else [] for job in range(size)]
    return children, draw(st.lists(st.floats(0.0, 1e6), min_size=size, max_size=size))


@given(graphs())
def test_pressure_follows_its_formula(graph: tuple[list[list[int]], list[float]]) -> None:
    children, run_s = graph
    pressure = compute_pressures(children, run_s)
    for job, these in enumerate(children):
        assert pressure[job] == run_s[job] + max((pressure[child] for child in these), default=0.0)


def anything(_job: int, _bucket: object) -> bool:
    return True


def test_the_lowest_index_wins_a_tie_within_and_across_buckets() -> None:
    queue = ReadyQueue([1.0] * 4)
    for job, bucket in ((3, "small"), (2, "large"), (1, "small"), (0, "large")):
        queue.push(job, bucket)
    assert [queue.pop(anything) for _ in range(5)] == [(0, "large"), (1, "small"), (2, "large"), (3, "small"), None]


def test_a_head_that_does_not_fit_hides_its_bucket_and_no_other() -> None:
    queue = ReadyQueue([9.0, 8.0, 1.0])
    queue.push(0, "large")
    queue.push(1, "large")
    queue.push(2, "small")
    assert queue.pop(lambda job, _: job != 0) == (2, "small"), "job 1 would fit, and is not looked at"
    assert queue.pop(lambda job, _: job != 0) is None
    assert len(queue) == 2


def test_heads_can_be_looked_at_and_left() -> None:
    queue = ReadyQueue([1.0, 9.0, 2.0])
    for job, bucket in ((0, "small"), (1, "large"), (2, "small")):
        queue.push(job, bucket)
    assert queue.peek() == 1
    assert sorted(queue.bucket_heads()) == [(1, 1), (2, 2)]
    assert (queue.pop_from("small"), queue.pop_from("none")) == (2, None)
    assert len(queue) == 2


def test_priority_goes_before_pressure() -> None:
    queue = ReadyQueue([1.0, 9.0, 5.0, 5.0], lambda job: 7.0 if job in {0, 3} else 0.0)
    for job in range(4):
        queue.push(job, job % 2)
    assert [found[0] for _ in range(4) if (found := queue.pop(anything))] == [3, 0, 1, 2]


entries = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from("abc")), max_size=20)


@given(entries, st.sets(st.sampled_from("abc")), st.lists(st.integers(0, 3), min_size=20, max_size=20))
def test_jobs_come_by_priority_then_pressure_then_index(
    jobs: list[tuple[int, int, str]], fitting: set[str], later: list[int]
) -> None:
    queue = ReadyQueue([float(pressure) for pressure, _, _ in jobs], lambda job: jobs[job][1])
    for job, (_, _, bucket) in enumerate(jobs):
        queue.push(job, bucket)
    queue.reorder([float(pressure) for pressure in later])
    taken = []
    while found := queue.pop(lambda _, bucket: bucket in fitting):
        taken.append(found)
    expected = sorted(
        (-priority, -later[job], job, bucket) for job, (_, priority, bucket) in enumerate(jobs) if bucket in fitting
    )
    assert taken == [(job, bucket) for _, _, job, bucket in expected]
    assert len(queue) == len(jobs) - len(taken)
