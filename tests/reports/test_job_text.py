"""How an attempt ended is said once, and whatever the workload manager adds to it."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.model.event import Attempt, Ended, Failed
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request
from longshore.reports.explanation import (
    JobExplanation,
    RelatedJob,
    event_text,
    explanation_text,
    outcome_text,
    state_reasons,
)

ENDS = [
    (Cause.EXIT, 3, None, None, "exit code 3", "exit code 3"),
    (Cause.EXIT, 3, None, "exit code 3", "exit code 3", "exit code 3"),
    (Cause.EXIT, 3, None, "disk is full", "exit code 3 (disk is full)", "exit code 3: disk is full"),
    (Cause.SIGNAL, None, 11, "signal 11", "signal SIGSEGV (signal 11)", "signal SIGSEGV: signal 11"),
    (Cause.CANCELLED, None, 15, "killed by SIGTERM", "CANCELLED, signal SIGTERM", "signal SIGTERM"),
    (Cause.OOM, None, 9, None, "OOM, signal SIGKILL", "signal SIGKILL"),
    (None, None, None, None, "no outcome yet", None),
]


@pytest.mark.parametrize(("cause", "code", "signal", "reason", "shown", "told"), ENDS)
def test_a_reason_that_says_the_same_is_left_out(
    cause: Cause | None, code: int | None, signal: int | None, reason: str | None, shown: str, told: str | None
) -> None:
    attempt = Attempt(job=0, number=1, cause=cause, exit_code=code, signal=signal, reason=reason)
    assert outcome_text(attempt) == shown
    if cause is not None:
        event = Ended(n=1, t=0.0, j=0, a=1, exit=code, signal=signal, cause=cause, reason=reason)
        assert event_text(event, 0) == f"1970-01-01T00:00:00Z  attempt 1 ended badly, {cause.value}, {told}"


def explanation(job_state: JobState, attempt: Attempt, **more: Any) -> JobExplanation:
    """An explanation of a job with one attempt."""
    facts: dict[str, Any] = {
        "as_of": 0.0,
        "run": "k7f3aa",
        "name": "count_A",
        "index": 0,
        "label": "count",
        "state": job_state,
        "attempts": (attempt,),
        "is_undecided": False,
        "is_final": False,
        "parents": 0,
        "waits_for": (),
        "causes": (),
        "logs": {},
        "request": Request(),
        "events": (),
        "retries": 0,
        "retry_unless_exit": (),
        "used_retries": 1,
        "not_before": None,
        "note": "",
    }
    return JobExplanation(**(facts | more))


def test_a_job_that_ran_out_of_memory_is_told_with_the_command_that_gives_it_more() -> None:
    end = "it used 150 MiB"
    attempt = Attempt(job=0, number=1, cause=Cause.OOM, signal=9, reason=end, requested=Request(memory_b=100 << 20))
    failed = Failed(n=3, t=0.0, j=0, why=f"no attempt left: numberOfRetries is 0: {end}")
    reasons = state_reasons(explanation(JobState.FAILED, attempt, events=(("1.3", failed),)))
    assert reasons == [
        f"Its attempt 1 ended badly: OOM, signal SIGKILL ({end}).",
        "It was not tried again: no attempt left: numberOfRetries is 0.",
        "To run it again with more memory: longshore restart k7f3aa --set requestMemory=200 --label count",
    ]


def test_a_parent_that_was_cancelled_is_only_called_deleted() -> None:
    attempt = Attempt(job=0, number=1, cause=Cause.CANCELLED, signal=15, reason="killed by SIGTERM")
    parent = RelatedJob(name="count_A", state=JobState.DELETED, attempt=attempt, log="/run/count_A.1.log")
    reasons = state_reasons(explanation(JobState.PRUNED, attempt, causes=(parent,)))
    assert reasons == ["It descends from:", "  count_A (DELETED, log /run/count_A.1.log)"]


@pytest.mark.parametrize(
    ("retries", "used", "told"),
    [
        (0, 0, "none"),
        (2, 0, "2 after the first attempt, 0 used so far"),
        (2, 2, "2 after the first attempt, 2 used so far"),
    ],
)
def test_retries_are_counted_as_the_user_counts_them(retries: int, used: int, told: str) -> None:
    attempt = Attempt(job=0, number=1, cause=Cause.EXIT, exit_code=1)
    text = explanation_text(explanation(JobState.FAILED, attempt, retries=retries, used_retries=used))
    assert f"Retries:  {told}" in text.splitlines()
