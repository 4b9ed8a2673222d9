"""What starts first: worked examples with their exact starts, and random runs held to the rule found the slow way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.engine.schedulers import make_scheduler

from longshore.contract.executor import Limits
from longshore.engine.schedule.estimates import RuntimeEstimates
from longshore.engine.schedule.ready_queue import compute_pressures
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.model.event import Ended, Started, Submitted, Submitting
from longshore.model.workflow import MIB, Request, round_up
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState


def scheduler(
    state: RunState,
    run_s: Sequence[float],
    requests: Sequence[Request],
    capacity: Mapping[str, int] | None,
    *,
    limits: Limits | None = None,
    priorities: Sequence[float] = (),
) -> Scheduler:
    """A scheduler to which every job is of a profile of its own, and known to run so long."""
    profiles = [SchedulerProfile(request=request) for request in requests]
    if priorities:
        profiles = [
            SchedulerProfile(request=request, priority=priority)
            for request, priority in zip(requests, priorities, strict=True)
        ]
    return make_scheduler(
        state,
        profiles,
        range(state.size),
        pool=None if capacity is None else Pool(capacity),
        limits=limits,
        estimates=RuntimeEstimates(state.labels, (), dict(enumerate(run_s))),
    )


def starts(
    parents: Sequence[tuple[int, ...]],
    run_s: Sequence[float],
    capacity: Mapping[str, int],
    requests: Sequence[Request] | None = None,
) -> tuple[list[tuple[float, int]], float]:
    """Every start (when, job) of a run under a simulated clock, and when it ends."""
    state = RunState(parents, [0] * len(parents))
    chooser = scheduler(state, run_s, requests or [Request()] * len(parents), capacity)
    now, ends, seen = 0.0, list[tuple[float, int]](), list[tuple[float, int]]()
    while not state.is_over:
        for batch in chooser.next_batches(now):
            for job in submitted(state, batch):
                seen.append((now, job))
                heappush(ends, (now + run_s[job], job))
        now = ends[0][0]
        # All that ends at one moment is known before anything starts.
        while ends and ends[0][0] == now:
            apply_event(state, Ended(j=heappop(ends)[1], a=1, exit=0))
    return seen, now


def submitted(state: RunState, batch: Submitting) -> list[int]:
    apply_event(state, batch)
    apply_event(state, Submitted(b=batch.b, id=batch.b))
    return [job for job, _ in batch.jobs]


A, B, C, T = range(4)
DIAMOND = [(), (A,), (), (B, C)]
DIAMOND_S = [2.0, 3.0, 4.0, 1.0]


def test_pressure_is_summed_along_the_critical_path() -> None:
    state = RunState(DIAMOND, [0] * 4)
    assert list(compute_pressures(state.children, DIAMOND_S)) == [6.0, 4.0, 5.0, 1.0]


@pytest.mark.parametrize(
    ("cpus", "expected", "end"),
    [(1, [(0, A), (2, C), (6, B), (9, T)], 10), (2, [(0, A), (0, C), (2, B), (5, T)], 6)],
)
def test_what_has_most_behind_it_starts_first(cpus: int, expected: list[tuple[float, int]], end: float) -> None:
    assert starts(DIAMOND, DIAMOND_S, {"cpus": cpus}) == (expected, end)


def test_exact_amounts_are_reserved_and_not_rounded_ones() -> None:
    requests = [Request(cpus=1, memory_b=9)] * 2
    assert starts([(), ()], [10.0, 8.0], {"cpus": 4, "memory": 18}, requests) == ([(0, 0), (0, 1)], 10.0)


def test_a_job_that_fits_does_not_wait_for_one_that_does_not() -> None:
    w, z, x, y = range(4)
    requests = [Request(cpus=cpus) for cpus in (4, 1, 2, 2)]
    expected = [(0, w), (100, z), (100, x), (150, y)]
    assert starts([()] * 4, [100.0, 90.0, 50.0, 40.0], {"cpus": 4}, requests) == (expected, 190.0)


def test_amounts_are_rounded_up_to_four_steps_per_octave() -> None:
    amounts = (8, 9, 11, 17, 33, 100, 1000, 1025, 2049, 4097)
    assert [round_up(amount) for amount in amounts] == [8, 10, 12, 20, 40, 112, 1024, 1280, 2560, 5120]
    assert len({round_up(amount) for amount in range(1, 2**20 + 1, 7)}) <= 76


@given(st.integers(0, 2**60))
def test_rounding_adds_a_quarter_at_most(amount: int) -> None:
    assert amount <= round_up(amount) <= amount * 5 // 4
    assert round_up(round_up(amount)) == round_up(amount)


def test_few_of_a_kind_wait_and_those_of_another_do_not_hold_them_up() -> None:
    memory = [1000, 1024, 1000, 1000, 1000, 1025]
    state = RunState([()] * 6, [0] * 6)
    chooser = scheduler(
        state,
        [50.0, 40.0, 30.0, 20.0, 10.0, 5.0],
        [Request(memory_b=mib * MIB) for mib in memory],
        None,
        limits=Limits(max_waiting_alike=2),
    )
    assert [job for batch in chooser.next_batches(0.0) for job in submitted(state, batch)] == [0, 1, 5]
    assert chooser.next_batches(0.0) == []
    apply_event(state, Started(j=0, a=1))
    assert [job for batch in chooser.next_batches(0.0) for job in submitted(state, batch)] == [2]
    apply_event(state, Started(j=1, a=1))
    apply_event(state, Ended(j=1, a=1, exit=0))
    assert [job for batch in chooser.next_batches(0.0) for job in submitted(state, batch)] == [3]


def test_an_array_holds_equal_requests_only() -> None:
    state = RunState([()] * 5, [0] * 5)
    requests = [Request(memory_b=mib * MIB) for mib in (1000, 1000, 1024, 1000, 1000)]
    chooser = scheduler(state, [5.0, 4.0, 3.0, 2.0, 1.0], requests, None, limits=Limits(max_batch=9))
    assert [submitted(state, batch) for batch in chooser.next_batches(0.0)] == [[0, 1, 3, 4], [2]]


def test_an_array_keeps_to_the_limit_of_its_kind() -> None:
    state = RunState([()] * 5, [0] * 5)
    requests = [Request(memory_b=mib * MIB) for mib in (1000, 1024, 1000, 1000, 1000)]
    chooser = scheduler(
        state, [5.0, 4.0, 3.0, 2.0, 1.0], requests, None, limits=Limits(max_batch=9, max_waiting_alike=3)
    )
    assert [submitted(state, batch) for batch in chooser.next_batches(0.0)] == [[0, 2, 3]]
    apply_event(state, Started(j=2, a=1))
    assert [submitted(state, batch) for batch in chooser.next_batches(0.0)] == [[1]]


def test_what_a_run_learns_changes_its_order() -> None:
    # Labels 0 and 1 are alike at first; the first of each shows that label 1 takes long.
    state = RunState([()] * 6, [0, 1, 0, 0, 1, 1])
    chooser = make_scheduler(state, pool=Pool({"cpus": 2}))
    assert [job for batch in chooser.next_batches(0.0) for job in submitted(state, batch)] == [0, 1]
    for job, run_s in ((0, 1.0), (1, 60.0)):
        apply_event(state, Ended(j=job, a=1, exit=0))
        chooser.estimates.learn(job, run_s)
    assert [job for batch in chooser.next_batches(0.0) for job in submitted(state, batch)] == [4, 5]


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[float], list[Request], list[float], dict[str, int]]:
    size = draw(st.integers(1, 12))
    parents = [tuple(sorted(draw(st.sets(st.integers(0, job - 1), max_size=3)))) if job else () for job in range(size)]
    run_s = [draw(st.floats(0.1, 100.0)) for _ in range(size)]
    amounts = st.builds(Request, cpus=st.integers(1, 20), memory_b=st.none() | st.integers(0, 40))
    capacity = {"cpus": draw(st.integers(20, 40)), "memory": draw(st.integers(40, 90))}
    priorities = [draw(st.sampled_from([0.0, 0.0, 5.0, -1.0])) for _ in range(size)]
    return parents, run_s, [draw(amounts) for _ in range(size)], priorities, capacity


def longest(children: Sequence[Sequence[int]], run_s: Sequence[float], job: int) -> float:
    """Pressure of a job as its definition has it: the longest of all chains that begin with it."""
    return run_s[job] + max((longest(children, run_s, child) for child in children[job]), default=0.0)


@settings(max_examples=examples(80))
@given(runs(), st.randoms(use_true_random=False))
def test_the_best_head_that_fits_starts(
    run: tuple[list[tuple[int, ...]], list[float], list[Request], list[float], dict[str, int]], dice: object
) -> None:
    parents, run_s, requests, priorities, capacity = run
    state = RunState(parents, [0] * len(parents))
    chooser = scheduler(state, run_s, requests, capacity, priorities=priorities)

    def bucket(job: int) -> tuple[tuple[str, int], ...]:
        asked = requests[job].amounts()
        return tuple((name, min(round_up(amount), capacity[name])) for name, amount in asked.items())

    def rank(job: int) -> tuple[float, float, int]:
        return (-priorities[job], -longest(state.children, run_s, job), job)

    def used(jobs: list[int], name: str) -> int:
        return sum(requests[job].amounts().get(name, 0) for job in jobs)

    def fits(job: int, running: list[int]) -> bool:
        return all(used([*running, job], name) <= most for name, most in capacity.items())

    while not state.is_over:
        running = list(state.active)
        ready = [job for job in range(state.size) if state.code[job] == JobCode.READY]
        expected = []
        while True:
            heads = {bucket(job): job for job in sorted(ready, key=rank, reverse=True)}
            fitting = [job for job in heads.values() if fits(job, running)]
            if not fitting:
                break
            best = min(fitting, key=rank)
            ready.remove(best)
            running.append(best)
            expected.append(best)
        assert [job for batch in chooser.next_batches(0.0) for job in submitted(state, batch)] == expected
        over = dice.choice(sorted(state.active))  # type: ignore[attr-defined]
        apply_event(state, Ended(j=over, a=1, exit=0))
