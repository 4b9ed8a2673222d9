"""Statistics of attempts: distributions, badput, hosts, and the same totals from every grouping."""

from __future__ import annotations

import math
from itertools import chain

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import Attempt
from longshore.model.measurements import distribution_of, distribution_of_lists
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.reports.statistics import GroupedStatistics, summarize_attempts

LABEL_OF = (0, 0, 1, 2)
"""Label of each job; the last label has a job without attempts."""


def summarize(*attempts: Attempt) -> GroupedStatistics:
    return summarize_attempts(
        (attempt.measures for attempt in attempts),
        lambda _: Request(memory_b=1000),
        labels=("a", "b", "c"),
        label_of=LABEL_OF,
        jobs_of_labels=(2, 1, 1),
    )


def success(job: int, run_s: float, *, number: int = 1, host: str | None = "h", cpus: int = 1) -> Attempt:
    return Attempt(
        job=job,
        number=number,
        host=host,
        requested=Request(cpus=cpus, memory_b=1000),
        started_at=10.0,
        ended_at=10.0 + run_s,
        queue_s=4.0,
        run_s=run_s,
        cpu_s=run_s,
        peak_memory_b=400,
    )


@given(st.lists(st.floats(0.0, 1e9), min_size=1))
def test_percentiles_are_measured_values_in_order(values: list[float]) -> None:
    found = distribution_of(values, unknown=2)
    assert found.least is not None
    assert found.p50 is not None
    assert found.p95 is not None
    assert found.most is not None
    assert found.least == min(values) <= found.p50 <= found.p95 <= found.most == max(values)
    assert {found.p50, found.p95} <= set(values)
    assert (found.known, found.unknown) == (len(values), 2)
    assert sum(value <= found.p95 for value in values) >= math.ceil(0.95 * len(values))


@given(st.lists(st.lists(st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0])), max_size=20))
def test_lists_have_the_distribution_of_their_values(lists: list[list[float]]) -> None:
    found = distribution_of_lists(list(map(sorted, lists)), unknown=1)
    whole = distribution_of(list(chain.from_iterable(lists)), unknown=1)
    assert found.total == pytest.approx(whole.total)
    assert msgspec.structs.replace(found, total=None) == msgspec.structs.replace(whole, total=None)


def test_no_values_are_unknown_and_not_zero() -> None:
    found = distribution_of((), unknown=3)
    assert (found.known, found.unknown, found.p50, found.total) == (0, 3, None, None)


def test_failures_count_as_badput_and_not_in_distributions() -> None:
    lost = Attempt(job=0, number=1, host="h", started_at=1.0, ended_at=9.0, cause=Cause.LOST)
    failed = Attempt(
        job=0, number=2, host="h", requested=Request(cpus=3), started_at=1.0, ended_at=9.0, run_s=7.0, cause=Cause.OOM
    )
    found = summarize(lost, failed, success(0, 5.0, number=3, cpus=2))
    label = found.labels["a"]
    assert (label.jobs, label.attempts, label.succeeded, label.retries, label.unfinished) == (2, 3, 1, 2, 0)
    assert (label.badput.attempts, label.badput.run_s, label.badput.core_s, label.badput.unknown) == (2, 7.0, 21.0, 1)
    assert {cause: each.attempts for cause, each in label.badput_causes.items()} == {Cause.LOST: 1, Cause.OOM: 1}
    assert (label.run_s.known, label.run_s.most, label.core_s) == (1, 5.0, 31.0)
    assert label.cpu_efficiency.p50 == pytest.approx(0.5)
    assert label.memory_share.p50 == pytest.approx(0.4)
    assert found.labels["c"].attempts == 0
    assert found.labels["c"].run_s.p50 is None


def test_a_value_that_no_service_told_is_unknown() -> None:
    found = summarize(Attempt(job=0, number=1, started_at=1.0, ended_at=2.0)).total
    assert (found.succeeded, found.run_s.known, found.run_s.unknown, found.wait_s.unknown) == (1, 0, 1, 1)
    assert found.cpu_efficiency.p50 is None


def test_hosts_have_what_started_there() -> None:
    waiting = Attempt(job=1, number=1, submitted_at=3.0)
    running = Attempt(job=2, number=1, started_at=3.0, host="x")
    found = summarize(success(0, 5.0), waiting, running, success(1, 6.0, number=2, host=None))
    assert list(found.hosts) == ["h", "x", None]
    assert [each.attempts for each in found.hosts.values()] == [1, 1, 1]
    assert found.hosts["h"].jobs == 1
    assert (found.total.attempts, found.total.unfinished, found.total.jobs) == (4, 2, 4)


def test_labels_on_many_hosts_are_grouped_once() -> None:
    """Every label on every host: each group of attempts is merged into its label and its host alone."""
    attempts = [success(job, 5.0, host=f"n{host:03}") for job in range(4) for host in range(200)]
    found = summarize(*attempts)
    assert list(found.hosts) == [f"n{host:03}" for host in range(200)]
    assert {(each.attempts, each.jobs, each.core_s) for each in found.hosts.values()} == {(4, 4, 20.0)}
    assert {label: each.attempts for label, each in found.labels.items()} == {"a": 400, "b": 200, "c": 200}


@given(
    st.lists(
        st.builds(
            Attempt,
            job=st.integers(0, 3),
            number=st.integers(1, 3),
            host=st.sampled_from([None, "h", "x"]),
            started_at=st.just(1.0),
            ended_at=st.none() | st.just(9.0),
            run_s=st.none() | st.integers(0, 100).map(float),
            cpu_s=st.none() | st.integers(0, 100).map(float),
            cause=st.none() | st.sampled_from([Cause.OOM, Cause.LOST]),
        )
    )
)
def test_labels_and_hosts_add_up_to_the_run(attempts: list[Attempt]) -> None:
    found = summarize(*attempts)
    for groups in (found.labels.values(), found.hosts.values()):
        for field in ("attempts", "succeeded", "unfinished", "retries"):
            assert sum(getattr(each, field) for each in groups) == getattr(found.total, field)
        assert sum(each.core_s for each in groups) == pytest.approx(found.total.core_s)
        assert sum(each.badput.attempts for each in groups) == found.total.badput.attempts
        assert sum(each.run_s.known for each in groups) == found.total.run_s.known
    total = found.total
    assert total.attempts == total.succeeded + total.unfinished + total.badput.attempts
