"""Reports of runs from ads: unknown states are UNKNOWN."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.states import JobState
from longshore.services.htcondor.schedd.client import Ad
from longshore.services.htcondor.schedd.query import build_report, state_of

AD: Ad = {
    "ClusterId": 12,
    "GlobalJobId": "ap#12.0#100",
    "JobStatus": 2,
    "QDate": 100,
    "JobStartDate": 105,
    "Owner": "ann",
    "Iwd": "/far/run/wms",
    "LongshoreRun": "k1-x",
    "LongshoreName": "u_ann_demo",
    "bps_operator": "Ann",
    "bps_payload": "demo",
    "bps_job_summary": "isr:3;coadd:1",
    "DAG_NodesTotal": 4,
    "DAG_NodesDone": 1,
    "DAG_NodesUnready": 1,
    "DAG_JobsRunning": 1,
    "DAG_JobsIdle": 1,
    "DAG_AdUpdateTime": 130,
}
COUNTS = ("DAG_NodesDone", "DAG_NodesFailed", "DAG_NodesFutile", "DAG_NodesUnready", "DAG_JobsIdle", "DAG_JobsHeld")


def job(cluster: int, name: str, label: str, status: int, **more: Any) -> dict[str, Any]:
    """A job of a DAGMan."""
    return {"ClusterId": cluster, "JobStatus": status, "bps_job_name": name, "bps_job_label": label, **more}


def there(counts: Any) -> dict[JobState, int]:
    """The states in which there are jobs."""
    return {state: count for state, count in counts.items() if count}


def test_what_dagman_counts() -> None:
    report = build_report(AD, "ap", None)
    assert (report.id, report.global_id, report.name, report.path) == ("12.0", "ap#12.0#100", "u_ann_demo", "/far/run")
    assert (report.state, report.expected, report.operator, report.user) == (JobState.RUNNING, 4, "Ann", "ann")
    assert there(report.counts) == {
        JobState.SUCCEEDED: 1,
        JobState.UNREADY: 1,
        JobState.RUNNING: 1,
        JobState.PENDING: 1,
    }
    assert (report.submitted_at, report.started_at, report.finished_at) == (100.0, 105.0, None)
    assert report.specifics == (
        "DAGMan: job 12.0 of the schedd 'ap'",
        "DAGMan last updated its counts 1970-01-01T00:02:10Z",
    )
    assert "its directory is not here" in report.notes[0]


def test_a_run_of_bps_that_has_not_begun() -> None:
    ad: Ad = {"ClusterId": 3, "JobStatus": 1, "Iwd": "/bps/run", "bps_run": "u_x", "bps_isjob": "True"}
    report = build_report(ad, "ap", None)
    assert (report.path, report.name, report.state, report.expected) == ("/bps/run", "u_x", JobState.PENDING, 0)
    assert report.expected_labels is None


@pytest.mark.parametrize(
    ("ad", "state"),
    [
        ({"JobStatus": 4, "ExitCode": 0, "DAG_Status": 0}, JobState.SUCCEEDED),
        ({"JobStatus": 4, "ExitCode": 1, "DAG_Status": 2}, JobState.FAILED),
        # A final job that ended well.
        ({"JobStatus": 4, "ExitCode": 0, "DAG_Status": 0, "DAG_NodesFailed": 1}, JobState.FAILED),
        ({"JobStatus": 4, "ExitCode": 2, "DAG_Status": 4}, JobState.DELETED),
        ({"JobStatus": 4}, JobState.UNKNOWN),
        ({"JobStatus": 3}, JobState.DELETED),
        ({"JobStatus": 5}, JobState.HELD),
        ({"JobStatus": 42}, JobState.UNKNOWN),
        ({}, JobState.UNKNOWN),
    ],
)
def test_state_of_a_run(ad: dict[str, Any], state: JobState) -> None:
    assert state_of(ad) is state


def test_reasons_of_a_stopped_dagman() -> None:
    held = build_report({**AD, "JobStatus": 5, "HoldReason": "no space"}, "ap", None)
    assert "DAGMan itself is held: no space" in held.specifics
    gone = build_report({**AD, "JobStatus": 3, "RemoveReason": "via condor_rm"}, "ap", None)
    assert "DAGMan was removed: via condor_rm" in gone.specifics
    # What was under way when it was removed went with it.
    assert there(gone.counts) == {JobState.SUCCEEDED: 1, JobState.DELETED: 3}


def test_jobs_by_label() -> None:
    jobs = [
        job(20, "a", "isr", 4, ExitCode=1),
        job(23, "a", "isr", 4, ExitCode=0, LastRemoteHost="slot1@w1", NumJobStarts=1),
        job(21, "b", "isr", 5, HoldReason="too much memory"),
        job(24, "odd", "other", 4, ExitBySignal=True, ExitSignal=9),
        {"ClusterId": 30, "JobStatus": 2},
    ]
    report = build_report(AD, "ap", jobs)
    assert {label: there(row) for label, row in report.labels.items()} == {
        "isr": {JobState.SUCCEEDED: 1, JobState.HELD: 1, JobState.UNREADY: 1},
        "coadd": {JobState.UNREADY: 1},
        "other": {JobState.FAILED: 1},
    }
    assert report.expected == 5
    told = {each.name: each for each in report.jobs or ()}
    assert (told["a"].state, told["a"].exit_code, told["a"].host) == (JobState.SUCCEEDED, 0, "slot1@w1")
    assert told["b"].reason == "too much memory"
    assert (told["odd"].signal, told["odd"].exit_code) == (9, None)


def test_unknown_ends_are_not_guessed() -> None:
    report = build_report({**AD, "JobStatus": 4, "ExitCode": 1}, "ap", [job(20, "a", "isr", 4)])
    assert {label: there(row) for label, row in report.labels.items()} == {
        "isr": {JobState.UNKNOWN: 3},
        "coadd": {JobState.UNKNOWN: 1},
    }


@given(
    st.fixed_dictionaries(
        {"ClusterId": st.integers(1, 9)},
        optional={
            "JobStatus": st.integers(0, 9),
            "ExitCode": st.integers(0, 3),
            "DAG_Status": st.integers(0, 6),
            "DAG_NodesTotal": st.integers(0, 9),
            "bps_job_summary": st.sampled_from(["", "a:2;b:3", "a:x", ":3", "a"]),
            **{name: st.integers(0, 5) for name in COUNTS},
        },
    ),
    st.lists(
        st.builds(job, st.integers(1, 9), st.sampled_from("xyz"), st.sampled_from("ab"), st.integers(1, 7)), max_size=5
    )
    | st.none(),
)
def test_counts_add_up(ad: dict[str, Any], jobs: list[dict[str, Any]] | None) -> None:
    report = build_report(ad, "ap", jobs)
    assert sum(report.counts.values()) == report.expected
    if jobs is not None:
        assert sum(sum(row.values()) for row in report.labels.values()) == report.expected
