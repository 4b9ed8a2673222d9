"""Every rule about trying again, and its edge."""

from __future__ import annotations

import pytest

from longshore.engine.policy import RetryRules, judge
from longshore.model.event import Ended, Failed, Lost, Retry
from longshore.model.state import Cause

LOST = Lost(j=4, a=2, why="its node vanished")


def ended(**fields: int | str) -> Ended:
    return Ended(j=4, a=2, cause=Cause.EXIT, **fields)  # type: ignore[arg-type]


ROWS: dict[str, tuple[Ended | Lost, int, int, RetryRules, Cause | str]] = {
    # end, tries, lost, rules, cause of the retry or why it failed
    "no retries": (ended(exit=1), 1, 0, RetryRules(), "no attempt left: numberOfRetries is 0"),
    "with a reason": (ended(reason="gone"), 1, 0, RetryRules(), "no attempt left: numberOfRetries is 0: gone"),
    "first of one": (ended(exit=1), 1, 0, RetryRules(retries=1), Cause.EXIT),
    "second of one": (ended(exit=1), 2, 0, RetryRules(retries=1), "no attempt left: numberOfRetries is 1"),
    "third of three": (ended(exit=1), 3, 0, RetryRules(retries=3), Cause.EXIT),
    "fourth of three": (ended(exit=1), 4, 0, RetryRules(retries=3), "no attempt left: numberOfRetries is 3"),
    "hopeless exit": (
        ended(exit=3),
        1,
        0,
        RetryRules(retries=9, unless_exit=(2, 3)),
        "exit code 3 is in retryUnlessExit",
    ),
    "other exit": (ended(exit=4), 1, 0, RetryRules(retries=9, unless_exit=(2, 3)), Cause.EXIT),
    "zero is an exit code": (
        ended(exit=0),
        1,
        0,
        RetryRules(retries=9, unless_exit=(0,)),
        "exit code 0 is in retryUnlessExit",
    ),
    "a signal is no exit code": (
        Ended(j=4, a=2, signal=9, cause=Cause.SIGNAL),
        1,
        0,
        RetryRules(retries=1, unless_exit=(9, 137)),
        Cause.SIGNAL,
    ),
    "refused": (Ended(j=4, a=2, cause=Cause.SUBMIT), 1, 0, RetryRules(retries=1), Cause.SUBMIT),
    "lost ones are not counted": (ended(exit=1), 3, 2, RetryRules(retries=1), Cause.EXIT),
    "lost ones change nothing": (ended(exit=1), 4, 2, RetryRules(retries=1), "no attempt left: numberOfRetries is 1"),
    "lost without retries": (LOST, 1, 1, RetryRules(), Cause.LOST),
    "lost after failures": (LOST, 6, 1, RetryRules(retries=5), Cause.LOST),
    "lost twice": (LOST, 2, 2, RetryRules(retries=5), "lost 2 times, and retryOnLost is 1: its node vanished"),
    "lost and never again": (
        LOST,
        1,
        1,
        RetryRules(retries=5, retries_on_lost=0),
        "lost 1 times, and retryOnLost is 0: its node vanished",
    ),
}


@pytest.mark.parametrize(("end", "tries", "lost", "rules", "verdict"), ROWS.values(), ids=ROWS.keys())
def test_a_bad_end_is_judged(end: Ended | Lost, tries: int, lost: int, rules: RetryRules, verdict: Cause | str) -> None:
    judgement = judge(end, tries=tries, lost=lost, rules=rules)
    if isinstance(verdict, Cause):
        assert judgement == Retry(j=4, a=3, cause=verdict)
    else:
        assert judgement == Failed(j=4, why=verdict)
