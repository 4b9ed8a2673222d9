"""What the scheduler starts, in which order and how much at once; and a whole run under a simulated clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.engine.schedulers import make_scheduler

from longshore.contract.executor import Limits
from longshore.engine.policy.retry import RetryRules
from longshore.engine.schedule.ready_queue import compute_pressures
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.model.event import (
    Deleted,
    Ended,
    Failed,
    Lost,
    Refused,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState

NO_RULES = RetryRules()


def scheduler(
    state: RunState,
    *,
    requests: Sequence[Request] = (Request(),),
    rules: RetryRules = NO_RULES,
    profile_of: Sequence[int] | None = None,
    capacity: dict[str, int] | None = None,
    limits: Limits | None = None,
) -> Scheduler:
    return make_scheduler(
        state,
        [SchedulerProfile(request=request, rules=rules) for request in requests],
        profile_of,
        pool=None if capacity is None else Pool(capacity),
        limits=limits,
        tag="r-1",
    )


def independent(size: int) -> RunState:
    return RunState([()] * size, [0] * size)


def hand_over(state: RunState, batches: Sequence[Submitting]) -> list[int]:
    for batch in batches:
        apply_event(state, batch)
        apply_event(state, Submitted(b=batch.b, id=batch.b))
    return [job for batch in batches for job, _ in batch.jobs]


def end(state: RunState, job: int) -> None:
    apply_event(state, Ended(j=job, a=state.attempts[job], exit=0))


@st.composite
def runs(draw: st.DrawFn) -> tuple[RunState, dict[str, Any]]:
    """A graph of jobs with a few distinct requests, a pool, and limits."""
    size = draw(st.integers(1, 14))
    parents = [tuple(sorted(draw(st.sets(st.integers(0, job - 1), max_size=2)))) if job else () for job in range(size)]
    request = st.builds(
        Request,
        cpus=st.integers(1, 4),
        memory_b=st.none() | st.integers(0, 9),
        resources=st.dictionaries(st.just("gpus"), st.integers(0, 3)),
    )
    requests = draw(st.lists(request, min_size=1, max_size=4))
    return RunState(parents, [0] * size), {
        "requests": requests,
        "profile_of": [draw(st.integers(0, len(requests) - 1)) for _ in range(size)],
        "capacity": {
            "cpus": draw(st.integers(1, 6)),
            "memory": draw(st.integers(0, 8)),
            "gpus": draw(st.integers(0, 2)),
        },
        "limits": Limits(max_batch=draw(st.integers(1, 3)), max_waiting=draw(st.none() | st.integers(1, 4))),
    }


def best_first(state: RunState, given: dict[str, Any], used: dict[str, int]) -> list[tuple[int, ...]]:
    """The batches that the rule asks for, found the slow way: the highest pressure that fits, again and again."""
    pressure = compute_pressures(state.children, [1.0] * len(state.children))
    capacity, limits = given["capacity"], given["limits"]
    waiting = sum(code == JobCode.PENDING for code in state.code)
    ready = [job for job in range(state.size) if state.code[job] == JobCode.READY]
    batches: list[tuple[int, ...]] = []

    def fits(job: int) -> bool:
        if limits.max_waiting is not None and waiting >= limits.max_waiting:
            return False
        amounts = amounts_of(given, job)
        return all(used[name] + amount <= capacity[name] for name, amount in amounts.items())

    while found := sorted((-pressure[job], job) for job in ready if fits(job)):
        first = found[0][1]
        batch: list[int] = []
        for _, job in sorted((-pressure[job], job) for job in ready):
            same = key_of(given, job) == key_of(given, first)
            if same and len(batch) < limits.max_batch and fits(job):
                batch.append(job)
                ready.remove(job)
                waiting += 1
                for name, amount in amounts_of(given, job).items():
                    used[name] += amount
        batches.append(tuple(batch))
    return batches


def key_of(given: dict[str, Any], job: int) -> tuple[object, ...]:
    key: tuple[object, ...] = given["requests"][given["profile_of"][job]].key()
    return key


def amounts_of(given: dict[str, Any], job: int) -> dict[str, int]:
    asked = given["requests"][given["profile_of"][job]].amounts()
    return {name: min(amount, given["capacity"][name]) for name, amount in asked.items()}


@settings(max_examples=examples(120))
@given(runs(), st.randoms(use_true_random=False))
def test_nothing_is_overshot_and_the_best_that_fits_starts(run: tuple[RunState, dict[str, Any]], dice: Random) -> None:
    state, given_ = run
    chooser = scheduler(state, **given_)
    rounds = 0
    while not state.is_over:
        rounds += 1
        assert rounds < 100, "jobs that fit are not started"
        used = dict.fromkeys(given_["capacity"], 0)
        for job in state.active:
            for name, amount in amounts_of(given_, job).items():
                used[name] += amount
        expected = best_first(state, given_, used)
        batches = chooser.next_batches(0.0)
        assert [tuple(job for job, _ in batch.jobs) for batch in batches] == expected
        for batch in batches:
            assert {key_of(given_, job) for job, _ in batch.jobs} == {batch.request.key() if batch.request else None}
        hand_over(state, batches)
        assert all(used[name] <= capacity for name, capacity in given_["capacity"].items())
        assert chooser.pool
        assert chooser.pool.free == {name: amount - used[name] for name, amount in given_["capacity"].items()}
        for job in dice.sample(list(state.active), dice.randint(1, len(state.active))):
            apply_event(state, Started(j=job, a=1))
            if dice.random() < 0.6:
                end(state, job)
    assert chooser.make_finish_event()


def test_a_large_job_does_not_hold_up_a_small_one_that_fits() -> None:
    state = RunState([(), (), (1,)], [0] * 3)
    chooser = scheduler(state, requests=[Request(cpus=1), Request(cpus=4)], profile_of=[0, 1, 0], capacity={"cpus": 4})
    assert hand_over(state, chooser.next_batches(0.0)) == [1], "its pressure is higher"
    end(state, 1)
    assert hand_over(state, chooser.next_batches(0.0)) == [0, 2]


def test_a_small_job_runs_while_a_large_one_waits() -> None:
    state = RunState([(), (), (), (1,)], [0] * 4)
    requests = [Request(cpus=3), Request(cpus=4), Request()]
    hand_over(state, [Submitting(b="x", tag="x", jobs=((0, 1),))])
    chooser = scheduler(state, requests=requests, profile_of=[0, 1, 2, 2], capacity={"cpus": 4})
    assert hand_over(state, chooser.next_batches(0.0)) == [2], (
        "the pressure of the large one is higher, but it does not fit"
    )
    end(state, 0)
    end(state, 2)
    assert hand_over(state, chooser.next_batches(0.0)) == [1]


def test_a_request_above_the_capacity_has_the_machine_for_itself() -> None:
    state = independent(2)
    chooser = scheduler(state, requests=[Request(cpus=99)], capacity={"cpus": 4})
    assert hand_over(state, chooser.next_batches(0.0)) == [0]
    assert hand_over(state, chooser.next_batches(0.0)) == []
    end(state, 0)
    assert hand_over(state, chooser.next_batches(0.0)) == [1]


def test_without_a_pool_everything_is_handed_over() -> None:
    state = independent(10)
    assert len(hand_over(state, scheduler(state, requests=[Request(cpus=10**6)]).next_batches(0.0))) == 10


def test_running_jobs_do_not_count_as_waiting() -> None:
    state = independent(5)
    chooser = scheduler(state, limits=Limits(max_waiting=2))
    assert hand_over(state, chooser.next_batches(0.0)) == [0, 1]
    assert hand_over(state, chooser.next_batches(0.0)) == []
    apply_event(state, Started(j=0, a=1))
    assert hand_over(state, chooser.next_batches(0.0)) == [2]
    end(state, 1)
    assert hand_over(state, chooser.next_batches(0.0)) == [3]


def test_a_round_of_starts_has_a_bound_and_says_so() -> None:
    state = independent(150)
    chooser = scheduler(state)
    sizes = [(len(hand_over(state, chooser.next_batches(0.0))), chooser.has_more) for _ in range(3)]
    assert sizes == [(64, True), (64, True), (22, False)]


def test_batches_have_tags_of_their_own_and_the_request_they_are_for() -> None:
    state = independent(3)
    batches = scheduler(state, requests=[Request(cpus=2)], limits=Limits(max_batch=2)).next_batches(0.0)
    assert [(batch.b, batch.tag, batch.jobs) for batch in batches] == [
        ("r-1-1", "r-1-1", ((0, 1), (1, 1))),
        ("r-1-2", "r-1-2", ((2, 1),)),
    ]
    assert all(batch.request == Request(cpus=2) for batch in batches)


def test_a_retry_waits_for_its_time_and_goes_with_its_new_request() -> None:
    state = independent(2)
    chooser = scheduler(state, rules=RetryRules(retries=2), capacity={"cpus": 8})
    hand_over(state, chooser.next_batches(0.0))
    apply_event(state, Ended(j=0, a=1, cause=Cause.OOM))
    assert chooser.decide_retries() == [Retry(j=0, a=2, cause=Cause.OOM)]
    apply_event(state, Retry(j=0, a=2, cause=Cause.OOM, request=Request(cpus=7), not_before=100.0))
    assert chooser.request_of(0) == Request(cpus=7)
    assert chooser.request_of(1) == Request()
    assert chooser.next_wake() is None
    assert chooser.next_batches(99.0) == []
    assert chooser.next_wake() == 100.0
    (batch,) = chooser.next_batches(100.0)
    assert (batch.jobs, batch.request) == (((0, 2),), Request(cpus=7))
    assert chooser.next_wake() is None


def test_a_job_cancelled_while_it_waits_never_starts() -> None:
    state = independent(3)
    chooser = scheduler(state, rules=RetryRules(retries=2), capacity={"cpus": 1})
    hand_over(state, chooser.next_batches(0.0))
    apply_event(state, Ended(j=0, a=1, cause=Cause.EXIT))
    apply_event(state, Retry(j=0, a=2, cause=Cause.EXIT, not_before=5.0))
    hand_over(state, chooser.next_batches(0.0))
    apply_event(state, Deleted(jobs=(0, 2)))
    end(state, 1)
    assert chooser.next_batches(9.0) == []
    assert chooser.make_finish_event()


def test_a_history_read_back_does_not_queue_a_job_twice() -> None:
    state = independent(1)
    for attempt in (1, 2):
        apply_event(state, Submitting(b=str(attempt), tag=str(attempt), jobs=((0, attempt),)))
        apply_event(state, Lost(j=0, a=attempt, why="?"))
        apply_event(state, Retry(j=0, a=attempt + 1, cause=Cause.LOST))
    assert state.newly_ready == [0, 0, 0]
    chooser = scheduler(state, rules=RetryRules(retries=9))
    assert hand_over(state, chooser.next_batches(0.0)) == [0]
    apply_event(state, Ended(j=0, a=3, cause=Cause.EXIT))
    apply_event(state, Retry(j=0, a=4, cause=Cause.EXIT, not_before=50.0))
    assert chooser.next_batches(0.0) == [], "not even from a second entry in the queue"


def test_a_new_life_counts_what_runs_already() -> None:
    state = independent(4)
    apply_event(state, Submitting(b="b", tag="b", jobs=((1, 1), (2, 1))))
    chooser = scheduler(state, capacity={"cpus": 3})
    assert hand_over(state, chooser.next_batches(0.0)) == [0]


def test_a_batch_that_was_not_taken_gives_back_what_it_held() -> None:
    state = independent(1)
    chooser = scheduler(state, capacity={"cpus": 1})
    (batch,) = chooser.next_batches(0.0)
    apply_event(state, batch)
    apply_event(state, Refused(b=batch.b, why="busy"))
    (again,) = chooser.next_batches(0.0)
    assert again.jobs == batch.jobs
    assert again.tag != batch.tag


def test_a_run_finishes_once_and_says_how() -> None:
    state = independent(1)
    chooser = scheduler(state)
    assert chooser.make_finish_event() is None
    apply_event(state, Steer(who="me", act="cancel"))
    finished = chooser.make_finish_event()
    assert finished
    assert finished.state is JobState.DELETED
    apply_event(state, finished)
    assert chooser.make_finish_event() is None


WIDTH = 200


def layered(size: int) -> Iterator[tuple[int, ...]]:
    """Two parents per job, in the layer before."""
    for job in range(size):
        layer, place = divmod(job, WIDTH)
        first = (layer - 1) * WIDTH
        yield tuple({first + place, first + (place + 1) % WIDTH}) if layer else ()


def test_twenty_thousand_jobs_under_a_simulated_clock() -> None:
    size, dice = 20_000, Random(1)
    state = RunState(list(layered(size)), [job % 3 for job in range(size)])
    chooser = scheduler(
        state,
        requests=[Request(cpus=1), Request(cpus=2, memory_b=3)],
        rules=RetryRules(retries=4),
        profile_of=[job % 2 for job in range(size)],
        capacity={"cpus": 64, "memory": 60},
    )
    now, ends, attempts = 0.0, list[tuple[float, int, int]](), 0
    while not chooser.make_finish_event():
        for judgement in chooser.decide_retries():
            apply_event(state, judgement)
        starts = chooser.next_batches(now)
        for job in hand_over(state, starts):
            attempts += 1
            heappush(ends, (now + dice.uniform(1.0, 9.0), job, state.attempts[job]))
        if ends and not chooser.has_more:
            now, job, attempt = heappop(ends)
            bad = dice.random() < 0.05
            apply_event(state, Ended(j=job, a=attempt, exit=int(bad), cause=Cause.EXIT if bad else None))
    assert not ends
    totals = state.count_states()
    assert totals[JobState.SUCCEEDED] + totals[JobState.FAILED] + totals[JobState.PRUNED] == size
    assert totals[JobState.SUCCEEDED] > size * 0.99
    assert attempts == sum(state.attempts)
    assert size * 1.04 < attempts < size * 1.07
    assert chooser.pool
    chooser.next_batches(now)
    assert chooser.pool.free == chooser.pool.capacity


def test_a_job_that_goes_on_failing_fails_the_run() -> None:
    state = RunState([(), (0,)], [0, 0])
    chooser = scheduler(state, rules=RetryRules(retries=1))
    for attempt in (1, 2):
        hand_over(state, chooser.next_batches(0.0))
        apply_event(state, Ended(j=0, a=attempt, exit=1, cause=Cause.EXIT))
        (judgement,) = chooser.decide_retries()
        apply_event(state, judgement)
    assert isinstance(judgement, Failed)
    finished = chooser.make_finish_event()
    assert finished
    assert finished.state is JobState.FAILED
