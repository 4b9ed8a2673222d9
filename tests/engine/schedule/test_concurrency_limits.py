"""Limits and categories: what a job takes of them, what they let start, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.engine.schedulers import make_scheduler

from longshore.contract.executor import Limits
from longshore.engine.schedule.resource_pool import ConcurrencyLimits, Pool, find_missing_limits
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.engine.settings import EngineSettings
from longshore.model.event import Ended
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Workflow, parse_concurrency_limits
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import RunState

PROFILES = [
    JobSettings(label="free"),
    JobSettings(label="one", attributes={"concurrencyLimit": "db_limit"}),
    JobSettings(label="two", attributes={"concurrencyLimit": "db_limit:2, tape", "category": "heavy"}),
    JobSettings(label="finalJob", attributes={"concurrencyLimit": "db_limit"}),
]
SETTINGS = EngineSettings(concurrency_limits={"db_limit": 3, "unused": 1}, max_jobs={"heavy": 1})


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", {}),
        ("db_limit", {"db_limit": 1}),
        (" a , b:3,", {"a": 1, "b": 3}),
        ("a, a:2", {"a": 3}),
    ],
)
def test_what_a_job_takes(text: str, taken: dict[str, int]) -> None:
    assert parse_concurrency_limits(text) == taken


@pytest.mark.parametrize("text", ["a b", "a:0", "a:x", ":1", "a:1:2", "a;b"])
def test_what_names_no_limit(text: str) -> None:
    with pytest.raises(ValueError, match=r"[ab:]"):
        parse_concurrency_limits(f"fine, {text}")


def scheduler(
    profile_of: Sequence[int], *, pool: Pool | None, waiting: int | None = None
) -> tuple[Scheduler, ConcurrencyLimits]:
    bounds = ConcurrencyLimits(SETTINGS, PROFILES)
    profiles = [
        SchedulerProfile(limit_amounts=takes, kind=profile.label if pool is None else None)
        for profile, takes in zip(PROFILES, bounds.limit_amounts, strict=True)
    ]
    made = make_scheduler(
        RunState([()] * len(profile_of), list(profile_of)),
        profiles,
        profile_of,
        pool=pool,
        bounds=bounds.pools,
        limits=Limits(max_batch=10 if pool is None else 1, max_waiting=waiting),
    )
    return made, bounds


def started(made: Scheduler) -> list[int]:
    """The jobs that start now, once it is written down that they do."""
    jobs = []
    for batch in made.next_batches(0.0):
        apply_event(made.state, batch)
        jobs += [job for job, _ in batch.jobs]
    return jobs


def end(made: Scheduler, job: int) -> None:
    apply_event(made.state, Ended(j=job, a=made.state.attempts[job], exit=0))


@pytest.mark.parametrize("pool", [Pool({"cpus": 99}), None])
def test_a_limit_keeps_those_back_that_name_it_and_no_others(pool: Pool | None) -> None:
    made, bounds = scheduler([1] * 5 + [0] * 4, pool=pool)
    assert sorted(started(made)) == [0, 1, 2, 5, 6, 7, 8]
    assert started(made) == []
    assert bounds.limits.amounts_in_use == {"db_limit": 3}
    assert bounds.describe_full(made.blocked_amounts()) == ["this run takes all of the limit 'db_limit', which is 3"]
    end(made, 1)
    assert started(made) == [3]
    for job in (0, 2, 3):
        end(made, job)
    assert started(made) == [4]
    assert bounds.limits.amounts_in_use == {"db_limit": 1}


def test_what_other_runs_leave_is_all_there_is() -> None:
    made, bounds = scheduler([1] * 3, pool=Pool({"cpus": 99}))
    bounds.limits.resize({"db_limit": 1})
    assert started(made) == [0]
    assert bounds.describe_full(made.blocked_amounts()) == [
        "this run takes 1 of the limit 'db_limit', which is 3, and your other runs take the rest"
    ]
    assert made.compute_limit_demand(bounds.limits, 0.0) == {"db_limit": 1}
    made, bounds = scheduler([1], pool=None)
    bounds.limits.resize({"db_limit": 0})
    assert started(made) == []
    assert bounds.describe_full(made.blocked_amounts()) == [
        "your other runs take all of the limit 'db_limit', which is 3"
    ]


def test_a_job_may_take_more_than_one_and_a_category_counts_jobs_of_the_run() -> None:
    made, bounds = scheduler([2, 2, 1, 1], pool=Pool({"cpus": 99}))
    assert sorted(started(made)) == [0, 2]
    assert set(bounds.describe_full(made.blocked_amounts())) == {
        "this run takes all of the limit 'db_limit', which is 3",
        "1 job of the category 'heavy' runs, and 'maxJobs' allows no more",
    }
    end(made, 2)
    assert started(made) == [3]
    end(made, 0)
    assert started(made) == [1]


def test_a_job_that_asks_for_more_than_there_is_takes_all_there_is() -> None:
    greedy = [JobSettings(label="g", attributes={"concurrencyLimit": "db_limit:9"})]
    bounds = ConcurrencyLimits(SETTINGS, greedy)
    assert bounds.limits.clamp(bounds.limit_amounts[0]) == {"db_limit": 3}


def test_a_later_life_counts_what_runs_already() -> None:
    made, _ = scheduler([1] * 5, pool=Pool({"cpus": 99}))
    state = RunState([()] * 5, [1] * 5)
    for batch in made.next_batches(0.0):
        apply_event(state, batch)
    bounds = ConcurrencyLimits(SETTINGS, PROFILES)
    again = make_scheduler(
        state,
        [SchedulerProfile(limit_amounts=takes) for takes in bounds.limit_amounts],
        [1] * 5,
        pool=Pool({"cpus": 99}),
        bounds=bounds.pools,
        limits=Limits(max_batch=1),
        tag="u",
    )
    assert bounds.limits.amounts_in_use == {"db_limit": 3}
    assert started(again) == []
    end(again, 0)
    assert started(again) == [3]


def test_names_without_numbers_are_told_of_once_and_bps_own_default_is_not() -> None:
    jobs = [Job(name=f"{number}", label=each.label, command="x", settings=each) for number, each in enumerate(PROFILES)]
    more = Job(name="more", label="two", command="x", settings=PROFILES[2])
    workflow = Workflow("w", Dag.by_name([*jobs, more]))
    assert [problem.message.partition("see ")[2] for problem in find_missing_limits(workflow, {})] == [
        "'concurrencyLimits: {db_limit: N}'",
        "'concurrencyLimits: {tape: N}'",
        "'maxJobs: {heavy: N}'",
    ]
    settings = {"concurrency_limits": {"db_limit": 1, "tape": 1}, "max_jobs": {"heavy": 1}}
    assert not list(find_missing_limits(workflow, settings))
    assert not list(find_missing_limits(Workflow("w", Dag.by_name(jobs[3:])), {}))
