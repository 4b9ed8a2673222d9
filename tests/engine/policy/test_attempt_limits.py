"""What an attempt may use before it is ended."""

from __future__ import annotations

import pytest

from longshore.contract.executor import AttemptLimits
from longshore.engine.run.members import make_attempt_limits
from longshore.model.workflow import MIB, KeepPolicy, LimitRules, Request

ASKED = Request(memory_b=1000 * MIB)


def test_a_request_that_nobody_made_is_no_limit() -> None:
    assert make_attempt_limits(LimitRules(), ASKED) is None


@pytest.mark.parametrize(
    ("bounds", "most"),
    [
        (LimitRules(memory=True), 1000 * MIB),
        (LimitRules(memory=True, grace_share=0.25), 1250 * MIB),
        (LimitRules(memory=True, grace_b=50 * MIB), 1050 * MIB),
        (LimitRules(memory=True, grace_share=0.25, grace_b=50 * MIB), 1300 * MIB),
    ],
)
def test_memory_may_go_a_little_beyond_the_request(bounds: LimitRules, most: int) -> None:
    assert make_attempt_limits(bounds, ASKED) == AttemptLimits(memory_b=most, asked_b=1000 * MIB)


def test_where_nothing_is_asked_nothing_is_held() -> None:
    assert make_attempt_limits(LimitRules(memory=True), Request()) is None


def test_time_log_and_what_is_kept() -> None:
    assert make_attempt_limits(LimitRules(), Request(walltime_s=5.0)) == AttemptLimits(walltime_s=5.0)
    assert make_attempt_limits(LimitRules(log_b=7), Request()) == AttemptLimits(log_b=7)
    assert make_attempt_limits(LimitRules(tmp=KeepPolicy.FAILED), Request()) == AttemptLimits(
        keep_tmp=KeepPolicy.FAILED
    )
