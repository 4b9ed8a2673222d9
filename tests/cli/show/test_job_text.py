"""How an attempt ended is said once, and whatever the workload manager adds to it."""

from __future__ import annotations

import pytest

from longshore.cli.show.event_text import event_text
from longshore.cli.show.job_text import outcome_text
from longshore.model.run.attempt import Attempt
from longshore.model.run.event import Ended
from longshore.model.run.states import Cause

ENDS = [
    (Cause.EXIT, 3, None, None, "exit code 3", "exit code 3"),
    (Cause.EXIT, 3, None, "exit code 3", "exit code 3", "exit code 3"),
    (Cause.EXIT, 3, None, "disk is full", "exit code 3 (disk is full)", "exit code 3: disk is full"),
    (Cause.SIGNAL, None, 11, "signal 11", "signal SIGSEGV (signal 11)", "signal SIGSEGV: signal 11"),
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
