"""Pressure along the critical path, and the order in which ready jobs are taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.queue import ReadyQueue, pressures


def test_pressure_is_the_longest_chain_from_a_job_on() -> None:
    #  0 -> 1 -> 3    and 4 alone; job 2 is the long way round
    #  0 -> 2 -> 3
    run_s = [1.0, 2.0, 10.0, 5.0, 7.0]
    assert pressures([[1, 2], [3], [3], [], []], run_s.__getitem__) == [16.0, 7.0, 15.0, 5.0, 7.0]


def test_no_jobs_have_no_pressure() -> None:
    assert pressures([], lambda _: 1.0) == []


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[float]]:
    size = draw(st.integers(1, 12))
    children = [sorted(draw(st.sets(st.integers(job + 1, size - 1)))) if job + 1 < size else [] for job in range(size)]
    return children, draw(st.lists(st.floats(0.0, 1e6), min_size=size, max_size=size))


@given(graphs())
def test_pressure_follows_its_formula(graph: tuple[list[list[int]], list[float]]) -> None:
    children, run_s = graph
    pressure = pressures(children, run_s.__getitem__)
    for job, these in enumerate(children):
        assert pressure[job] == run_s[job] + max((pressure[child] for child in these), default=0.0)


def anything(_bucket: object) -> bool:
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
    assert queue.pop(lambda bucket: bucket == "small") == (2, "small")
    assert queue.pop(lambda bucket: bucket == "small") is None
    assert len(queue) == 2


def test_only_one_bucket_is_looked_into_when_asked() -> None:
    queue = ReadyQueue([1.0, 9.0])
    queue.push(0, "small")
    queue.push(1, "large")
    assert queue.pop(anything, only="small") == (0, "small")
    assert queue.pop(anything, only="small") is None
    assert queue.pop(anything) == (1, "large")


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=20), st.sets(st.sampled_from("abc")))
def test_jobs_come_by_pressure_then_by_index(jobs: list[tuple[int, str]], fitting: set[str]) -> None:
    queue = ReadyQueue([float(pressure) for pressure, _ in jobs])
    for job, (_, bucket) in enumerate(jobs):
        queue.push(job, bucket)
    taken = []
    while found := queue.pop(fitting.__contains__):
        taken.append(found)
    expected = sorted((-pressure, job, bucket) for job, (pressure, bucket) in enumerate(jobs) if bucket in fitting)
    assert taken == [(job, bucket) for _, job, bucket in expected]
    assert len(queue) == len(jobs) - len(taken)
