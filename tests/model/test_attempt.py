"""What a success is: of an end, and of an attempt in both of its forms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import Attempt, Ended
from longshore.model.states import Cause, JobState


@given(st.none() | st.just(2.0), st.none() | st.sampled_from(Cause), st.booleans())
def test_an_attempt_has_one_success(ended_at: float | None, cause: Cause | None, is_abandoned: bool) -> None:
    attempt = Attempt(job=0, number=1, started_at=1.0, ended_at=ended_at, cause=cause, is_abandoned=is_abandoned)
    assert attempt.is_success == attempt.measures.is_success == (attempt.state is JobState.SUCCEEDED)


@pytest.mark.parametrize("told", [{"cause": Cause.EXIT}, {"signal": 15}, {"reason": "kept"}], ids=str)
def test_a_plain_success_has_no_cause_no_signal_and_no_reason(told: dict[str, Any]) -> None:
    assert Ended(j=0, a=1, run_s=1.0, extra={"QOS": "short"}).is_plain_success
    assert not Ended(j=0, a=1, **told).is_plain_success
