"""A row of jobs that fail at once pauses the run, and nothing else does."""

from __future__ import annotations

from longshore.engine.policy.fast_failures import FastFailures
from longshore.model.event import Ended, Event, Restarted, Started, Steer
from longshore.model.states import Cause


def bad(job: int, *, host: str | None = "n1", run_s: float = 0.1, cause: Cause = Cause.EXIT, a: int = 1) -> Ended:
    return Ended(j=job, a=a, exit=3, cause=cause, host=host, run_s=run_s)


def why(*events: Event, most: int = 3, within_s: float = 10.0) -> str:
    guard = FastFailures(most, within_s)
    guard.update(events)
    return guard.pause_reason


def test_a_row_of_different_jobs_on_one_host() -> None:
    assert why(bad(1), bad(2)) == ""
    assert why(bad(1), bad(2), bad(3)) == (
        "3 different jobs failed in a row on 'n1', each within 10 s, and none succeeded; the last with exit code 3"
    )


def test_one_job_that_is_tried_again_is_one() -> None:
    assert why(*(bad(1, a=attempt) for attempt in range(1, 9))) == ""


def test_a_success_ends_the_row() -> None:
    assert why(bad(1), bad(2), Ended(j=4, a=1, exit=0, host="n1", run_s=0.1), bad(3)) == ""


def test_a_success_elsewhere_does_not() -> None:
    assert "on 'n1'" in why(bad(1), bad(2), Ended(j=4, a=1, exit=0, host="n2", run_s=0.1), bad(3))


def test_hosts_are_counted_apart() -> None:
    assert why(bad(1), bad(2), bad(3, host="n2"), bad(4, host="n2")) == ""


def test_the_host_of_the_start_counts_where_the_end_names_none() -> None:
    events: list[Event] = []
    for job in range(3):
        events += [Started(j=job, a=1, host="n7"), bad(job, host=None)]
    assert "on 'n7'" in why(*events)


def test_where_no_host_is_known_it_is_the_run() -> None:
    assert why(*(bad(job, host=None) for job in range(3))).startswith("3 different jobs failed in a row, each")


def test_slow_failures_and_those_with_a_reason_of_their_own_do_not_count() -> None:
    assert why(*(bad(job, run_s=10.1) for job in range(9))) == ""
    for cause in (Cause.OOM, Cause.WALLTIME, Cause.CANCELLED, Cause.PREEMPTED):
        assert why(*(bad(job, cause=cause) for job in range(9))) == ""


def test_whoever_lets_it_go_on_gets_a_new_row() -> None:
    row = [bad(1), bad(2), bad(3)]
    for again in (Steer(who="me", act="unpause"), Restarted(jobs=())):
        assert why(*row, again, bad(4), bad(5)) == ""
        assert why(*row, again, bad(4), bad(5), bad(6)) != ""


def test_it_can_be_turned_off() -> None:
    assert why(*map(bad, range(999)), most=0) == ""
