"""Every rule about trying again, and its edge."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.policy.retry import (
    BadEnds,
    RetryRules,
    decide_retry,
    delay_s,
    limit_first_request,
    make_retry_rules,
)
from longshore.model.event import Deleted, Ended, Failed, Lost, Retry
from longshore.model.states import Cause
from longshore.model.workflow import MIB, Backoff, JobRules, JobSettings, Request, RequestGrowth, RetryOn

LOST = Lost(j=4, a=2, why="its node vanished")
MACHINE_FAILED = Ended(j=4, a=2, cause=Cause.LOST, reason="its node failed", signal=15)


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
    "not found": (
        ended(exit=127),
        1,
        0,
        RetryRules(retries=9),
        "the command was not found (exit code 127), and a retry would end alike",
    ),
    "not executable": (
        ended(exit=126, reason="cannot start 'x': no permission"),
        1,
        0,
        RetryRules(retries=9),
        "the command cannot be executed (exit code 126), and a retry would end alike: cannot start 'x': no permission",
    ),
    "no program": (
        ended(exit=2, reason="cannot start 'x': Exec format error"),
        1,
        0,
        RetryRules(retries=9),
        "the command is no program of this machine, and a retry would end alike: cannot start 'x': Exec format error",
    ),
    "not found, as BPS has it": (ended(exit=127), 1, 0, RetryRules(retries=9, unstartable=True), Cause.EXIT),
    "not found, but wanted": (
        ended(exit=127),
        1,
        0,
        RetryRules(retries=9, on=RetryOn(exit=(127,))),
        Cause.EXIT,
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
    "a machine that failed": (MACHINE_FAILED, 1, 1, RetryRules(), Cause.LOST),
    "a machine that failed, after failures": (MACHINE_FAILED, 6, 1, RetryRules(retries=5), Cause.LOST),
    "a machine that failed, with retryOn": (MACHINE_FAILED, 1, 1, RetryRules(on=RetryOn(only=True)), Cause.LOST),
    "a machine that failed twice": (
        MACHINE_FAILED,
        2,
        2,
        RetryRules(retries=5),
        "lost 2 times, and retryOnLost is 1: its node failed",
    ),
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
    judgement = decide_retry(end, bad_ends=BadEnds(tries=tries, lost=lost), rules=rules)
    if isinstance(verdict, Cause):
        assert judgement == Retry(j=4, a=3, cause=verdict)
    else:
        assert judgement == Failed(j=4, why=verdict)


def memory_series(first: int, factor: float, most: int | None, *, retries: int = 5) -> tuple[list[int], str]:
    """What a job asks for in MiB, attempt by attempt, when each ends for want of memory; and why it stops."""
    rules = RetryRules(
        retries=retries, memory_factor=factor, memory_most_b=None if most is None else most * MIB, backoff=Backoff()
    )
    start = asked = limit_first_request(Request(memory_b=first * MIB), rules)
    series = []
    for attempt in range(1, 20):
        series.append((asked.memory_b or 0) // MIB)
        end = Ended(j=4, a=attempt, cause=Cause.OOM, signal=9)
        verdict = decide_retry(
            end, bad_ends=BadEnds(tries=attempt, ooms=attempt), rules=rules, request=asked, first_request=start
        )
        if isinstance(verdict, Failed):
            return series, verdict.why
        assert isinstance(verdict, Retry)
        assert verdict.not_before is None, "more memory is all it waits for"
        assert verdict.request
        asked = verdict.request
    raise AssertionError(series)


# What BPS gives, and the examples of its guide.
SERIES = {
    "a cap between two steps": (
        (3072, 2.0, 20480),
        [3072, 6144, 12288, 20480],
        "out of memory with 20480 MiB, the most it may have",
    ),
    "a cap that is a step": ((32768, 2.0, 65536), [32768, 65536], "out of memory with 65536 MiB, the most it may have"),
    "a cap never reached": (
        (2048, 1.5, 491520),
        [2048, 3072, 4608, 6912, 10368, 15552],
        "no attempt left: numberOfRetries is 5",
    ),
    "the guide's default": (
        (4096, 2.0, 16384),
        [4096, 8192, 16384],
        "out of memory with 16384 MiB, the most it may have",
    ),
    "the guide's skyCorr": (
        (8192, 3.0, 131072),
        [8192, 24576, 73728, 131072],
        "out of memory with 131072 MiB, the most it may have",
    ),
    "first above the cap": ((30000, 2.0, 20480), [20480], "out of memory with 20480 MiB, the most it may have"),
    "no cap is known": ((1, 2.0, None), [1, 2, 4, 8, 16, 32], "no attempt left: numberOfRetries is 5"),
}


@pytest.mark.parametrize(("given_", "series", "why"), SERIES.values(), ids=SERIES.keys())
def test_memory_grows_as_in_bps(given_: tuple[int, float, int | None], series: list[int], why: str) -> None:
    assert memory_series(*given_) == (series, why)


def test_a_cap_beyond_the_retries_is_never_reached() -> None:
    assert memory_series(1024, 2.0, 65536, retries=1) == ([1024, 2048], "no attempt left: numberOfRetries is 1")


def oom(**fields: int) -> Ended:
    return Ended(j=4, a=1, cause=Cause.OOM, signal=9, **fields)  # type: ignore[arg-type]


def next_memory(rules: RetryRules, end: Ended, *, ooms: int = 1, asked: int = 1024, first: int = 1024) -> int | None:
    verdict = decide_retry(
        end,
        bad_ends=BadEnds(tries=ooms, ooms=ooms),
        rules=rules,
        request=Request(memory_b=asked * MIB),
        first_request=Request(memory_b=first * MIB),
    )
    assert isinstance(verdict, Retry)
    return None if verdict.request is None else (verdict.request.memory_b or 0) // MIB


def test_memory_is_at_least_the_peak_that_was_seen() -> None:
    rules = RetryRules(retries=5, memory_factor=2.0)
    assert next_memory(rules, oom(rss_b=5000 * MIB)) == 5000
    assert next_memory(rules, oom(rss_b=1500 * MIB)) == 2048


def test_memory_can_grow_by_what_was_used() -> None:
    rules = RetryRules(retries=5, memory_factor=2.0, memory_of_usage=True, memory_most_b=9000 * MIB)
    assert next_memory(rules, oom(rss_b=1300 * MIB)) == 2600
    assert next_memory(rules, oom(rss_b=5000 * MIB)) == 9000
    assert next_memory(rules, oom()) == 2048, "where nobody saw the peak, by what was asked for"


def test_what_somebody_gave_it_is_never_taken_away_again() -> None:
    rules = RetryRules(retries=5, memory_factor=2.0)
    assert next_memory(rules, oom(), asked=50_000) == 100_000


def test_without_a_multiplier_memory_stays_and_retries_count() -> None:
    rules = RetryRules(retries=1)
    assert next_memory(rules, oom()) is None
    assert decide_retry(oom(), bad_ends=BadEnds(tries=2, ooms=2), rules=rules) == Failed(
        j=4, why="no attempt left: numberOfRetries is 1"
    )


def test_only_ends_for_want_of_memory_make_it_grow() -> None:
    rules = RetryRules(retries=9, memory_factor=2.0)
    asked = Request(memory_b=2048 * MIB)
    verdict = decide_retry(
        ended(exit=7), bad_ends=BadEnds(tries=3, ooms=1), rules=rules, request=asked, first_request=asked
    )
    assert verdict == Retry(j=4, a=3, cause=Cause.EXIT), "what it asks for stays as it is"
    # The third bad end, and the second for want of memory: four times, not eight times the first.
    assert next_memory(rules, oom(), ooms=2, asked=2048) == 4096


def overtime(**rules: float) -> Retry | Failed | Deleted:
    asked = Request(walltime_s=60.0)
    end = Ended(j=4, a=1, cause=Cause.WALLTIME, signal=15)
    return decide_retry(
        end,
        bad_ends=BadEnds(tries=1, overtimes=1),
        rules=RetryRules(retries=5, **rules),  # type: ignore[arg-type]
        request=asked,
        first_request=asked,
    )


def test_time_grows_only_where_it_is_told_to() -> None:
    assert overtime() == Failed(j=4, why="out of time, and walltimeMultiplier is not set")
    more = overtime(walltime_factor=1.5)
    assert more == Retry(j=4, a=2, cause=Cause.WALLTIME, request=Request(walltime_s=90.0))
    capped = overtime(walltime_factor=1.5, walltime_most_s=70.0)
    assert isinstance(capped, Retry)
    assert capped.request == Request(walltime_s=70.0)
    assert overtime(walltime_factor=2.0, walltime_most_s=60.0) == Failed(
        j=4, why="out of time with 60 s, the most it may have"
    )


def test_a_job_that_a_person_removed_is_deleted_and_not_tried_again() -> None:
    end = Ended(j=4, a=1, cause=Cause.CANCELLED, signal=15, reason="Slurm says CANCELLED by ann")
    for on in (None, RetryOn(signal=(15,)), RetryOn(operator=False, exit=(1,))):
        verdict = decide_retry(end, bad_ends=BadEnds(tries=1), rules=RetryRules(retries=9, on=on))
        assert verdict == Deleted(jobs=(4,), why="Slurm says CANCELLED by ann")
    silent = msgspec.structs.replace(end, reason=None)
    assert decide_retry(silent, bad_ends=BadEnds(tries=1), rules=RetryRules()) == Deleted(
        jobs=(4,), why="a person removed it"
    )


@pytest.mark.parametrize("only", [False, True])
def test_a_removed_job_is_tried_again_where_that_is_wanted_and_a_retry_is_left(*, only: bool) -> None:
    rules = RetryRules(retries=1, on=RetryOn(operator=True, only=only))
    end = Ended(j=4, a=1, cause=Cause.CANCELLED, reason="Slurm says CANCELLED by ann")
    assert decide_retry(end, bad_ends=BadEnds(tries=1), rules=rules) == Retry(j=4, a=2, cause=Cause.CANCELLED)
    second = msgspec.structs.replace(end, a=2)
    verdict = decide_retry(second, bad_ends=BadEnds(tries=2), rules=rules)
    assert verdict == Deleted(jobs=(4,), why="Slurm says CANCELLED by ann")


def test_preemption_has_a_budget_of_its_own() -> None:
    end = Ended(j=4, a=2, cause=Cause.PREEMPTED)
    rules = RetryRules(retries=0, retries_on_preempted=2)
    assert decide_retry(end, bad_ends=BadEnds(tries=2, preempted=2), rules=rules) == Retry(
        j=4, a=3, cause=Cause.PREEMPTED
    )
    assert decide_retry(end, bad_ends=BadEnds(tries=3, preempted=3), rules=rules) == Failed(
        j=4, why="preempted 3 times, and retryOnPreempted is 2"
    )
    assert isinstance(
        decide_retry(ended(exit=9), bad_ends=BadEnds(tries=3, preempted=2), rules=RetryRules(retries=1)), Retry
    )


@pytest.mark.parametrize("cause", [Cause.TRANSFER, Cause.INPUT_MISSING])
def test_failed_transfers_have_a_budget_of_their_own_and_a_delay(cause: Cause) -> None:
    end = Ended(j=4, a=2, t=100.0, exit=74, cause=cause, reason="the input '/x' is missing")
    rules = RetryRules(retries=0, retries_on_transfer=2, unless_exit=(74,), backoff=Backoff(first_s=8.0, most_s=60.0))
    again = decide_retry(end, bad_ends=BadEnds(tries=2, transfers=2), rules=rules)
    assert isinstance(again, Retry)
    assert (again.a, again.cause) == (3, cause)
    assert again.not_before is not None
    assert 108.0 <= again.not_before <= 116.0
    none = msgspec.structs.replace(rules, backoff=None)
    assert decide_retry(end, bad_ends=BadEnds(tries=2, transfers=2), rules=none) == Retry(j=4, a=3, cause=cause)
    assert decide_retry(end, bad_ends=BadEnds(tries=3, transfers=3), rules=rules) == Failed(
        j=4,
        why="files could not be transferred 3 times, and retryOnTransfer is 2: the input '/x' is missing",
    )
    once = msgspec.structs.replace(rules, retries_on_transfer=0)
    verdict = decide_retry(end, bad_ends=BadEnds(tries=1, transfers=1), rules=once)
    assert isinstance(verdict, Failed)
    assert "transferred once" in verdict.why
    # They leave numberOfRetries as it is.
    counted = BadEnds(tries=3, transfers=2)
    assert isinstance(decide_retry(ended(exit=9), bad_ends=counted, rules=RetryRules(retries=1)), Retry)


ON = RetryOn(exit=(2, 75), signal=(7,), log="lost connection")
WANTED: dict[str, tuple[Ended, RetryOn, Cause | str]] = {
    "an exit code, though it is in retryUnlessExit": (ended(exit=2), ON, Cause.EXIT),
    "a signal": (Ended(j=4, a=2, signal=7, cause=Cause.SIGNAL), ON, Cause.SIGNAL),
    "a signal as a shell tells of it": (ended(exit=128 + 7), ON, Cause.EXIT),
    "another signal as a shell tells of it": (
        ended(exit=128 + 9),
        RetryOn(signal=(7,), only=True),
        "exit code 137 is not listed in retryOn",
    ),
    "words in the log": (Ended(j=4, a=2, exit=1, cause=Cause.EXIT, matched=True), ON, Cause.EXIT),
    "something else, which the other rules judge": (ended(exit=1), ON, "exit code 1 is in retryUnlessExit"),
    "something else, which they let pass": (ended(exit=9), ON, Cause.EXIT),
    "nothing else": (ended(exit=9), RetryOn(exit=(2,), only=True), "exit code 9 is not listed in retryOn"),
    "no other signal": (
        Ended(j=4, a=2, signal=9, cause=Cause.SIGNAL, reason="killed by SIGKILL"),
        RetryOn(exit=(2,), only=True),
        "signal 9 is not listed in retryOn: killed by SIGKILL",
    ),
    "a flooded log": (Ended(j=4, a=2, cause=Cause.OUTPUT, signal=15), RetryOn(), "a retry would write as large a log"),
    "a flooded log that is wanted": (Ended(j=4, a=2, cause=Cause.OUTPUT, signal=7), ON, Cause.OUTPUT),
    "a predicate": (Ended(j=4, a=2, cause=Cause.PREDICATE, exit=0), RetryOn(), Cause.PREDICATE),
}


@pytest.mark.parametrize(("end", "on", "verdict"), WANTED.values(), ids=WANTED.keys())
def test_what_the_user_says_comes_before_retry_unless_exit(end: Ended, on: RetryOn, verdict: Cause | str) -> None:
    judgement = decide_retry(end, bad_ends=BadEnds(tries=1), rules=RetryRules(retries=3, unless_exit=(1, 2), on=on))
    if isinstance(verdict, Cause):
        assert judgement == Retry(j=4, a=3, cause=verdict)
    else:
        assert judgement == Failed(j=4, why=verdict)


def test_retry_on_does_not_go_on_for_ever() -> None:
    judgement = decide_retry(ended(exit=2), bad_ends=BadEnds(tries=4), rules=RetryRules(retries=3, on=ON))
    assert judgement == Failed(j=4, why="no attempt left: numberOfRetries is 3")


def test_memory_time_and_loss_come_before_retry_on() -> None:
    only = RetryOn(exit=(2,), only=True)
    assert isinstance(
        decide_retry(oom(), bad_ends=BadEnds(tries=1, ooms=1), rules=RetryRules(retries=1, on=only)), Retry
    )
    assert isinstance(decide_retry(LOST, bad_ends=BadEnds(tries=1, lost=1), rules=RetryRules(on=only)), Retry)


def test_a_retry_waits_longer_each_time_and_from_the_end_on() -> None:
    rules = RetryRules(retries=9, backoff=Backoff(first_s=4.0, most_s=10.0))
    dues = []
    for tries in range(1, 6):
        end = Ended(t=1000.0, j=4, a=tries, exit=7, cause=Cause.EXIT)
        verdict = decide_retry(end, bad_ends=BadEnds(tries=tries), rules=rules)
        assert isinstance(verdict, Retry)
        assert verdict.not_before
        dues.append(verdict.not_before - 1000.0)
    assert all(low / 2 <= due <= low for due, low in zip(dues, [4.0, 8.0, 10.0, 10.0, 10.0], strict=True))
    assert decide_retry(
        Ended(t=1.0, j=4, a=1, exit=7, cause=Cause.EXIT), bad_ends=BadEnds(tries=1), rules=rules
    ) == decide_retry(Ended(t=1.0, j=4, a=1, exit=7, cause=Cause.EXIT), bad_ends=BadEnds(tries=1), rules=rules), (
        "the same history gives the same answer"
    )


def test_jobs_that_fail_together_do_not_come_back_together() -> None:
    delays = sorted(delay_s(Backoff(first_s=100.0, most_s=1000.0), job, 1, 1) for job in range(200))
    assert delays[0] < 55.0
    assert delays[-1] > 95.0
    assert max(later - earlier for earlier, later in pairwise(delays)) < 5.0


@given(st.integers(0, 10**7), st.integers(1, 10**4), st.integers(1, 10**4))
def test_a_delay_stays_within_its_bounds(job: int, attempt: int, tries: int) -> None:
    assert 0.0 < delay_s(Backoff(first_s=1.0, most_s=300.0), job, attempt, tries) <= 300.0


def test_the_smallest_cap_that_is_known_holds() -> None:
    settings = JobSettings(
        label="a",
        request=Request(memory_b=50 * MIB),
        attributes={"memoryMultiplier": 2.0, "requestMemoryMax": 30 * MIB},
        rules=JobRules(growth=RequestGrowth(memory_limit_b=20 * MIB)),
    )
    for capacity, most in (({"memory": 10 * MIB}, 10), ({"cpus": 3}, 20), (None, 20)):
        rules = make_retry_rules(settings, retries_on_lost=1, capacity=capacity)
        assert rules.memory_most_b == most * MIB
        assert limit_first_request(settings.request, rules).memory_b == most * MIB
    without = make_retry_rules(
        JobSettings(label="a", attributes={"memoryMultiplier": 1}), retries_on_lost=0, capacity=None
    )
    assert (without.memory_factor, without.memory_most_b, without.retries_on_lost) == (None, None, 0)
    assert limit_first_request(Request(memory_b=7), without) == Request(memory_b=7)


OWN = RetryRules(memory_factor=2.0, retries_on_memory=2, walltime_factor=2.0, retries_on_time=1)
"""Rules of a user's own commands: more memory and more time have budgets of their own, and failures have none."""


def judged(cause: Cause, rules: RetryRules = OWN, **ends: int) -> Retry | Failed | Deleted:
    end = Ended(j=4, a=2, cause=cause, signal=9, reason="why")
    request = Request(memory_b=MIB, walltime_s=1.0)
    return decide_retry(end, bad_ends=BadEnds(**ends), rules=rules, request=request, first_request=request)


def test_memory_and_time_have_budgets_of_their_own() -> None:
    assert isinstance(judged(Cause.OOM, tries=9, ooms=2, spent_ooms=2, lost=7), Retry)
    assert judged(Cause.OOM, tries=3, ooms=3, spent_ooms=3) == Failed(
        j=4, why="out of memory 3 times, and retryOnMemory is 2: why"
    )
    assert isinstance(judged(Cause.WALLTIME, tries=3, ooms=2, spent_ooms=2, overtimes=1, spent_overtimes=1), Retry)
    assert judged(Cause.WALLTIME, tries=2, overtimes=2, spent_overtimes=2) == Failed(
        j=4, why="out of time 2 times, and retryOnTime is 1: why"
    )
    # A restart gives a fresh budget, and the request stays grown.
    assert isinstance(judged(Cause.OOM, tries=1, ooms=9, spent_ooms=1), Retry)


def test_failures_spend_nothing_of_them_and_the_other_way_round() -> None:
    spent = {"ooms": 2, "spent_ooms": 2, "overtimes": 1, "spent_overtimes": 1}
    one = msgspec.structs.replace(OWN, retries=1)
    assert isinstance(judged(Cause.EXIT, one, tries=4, **spent), Retry)
    assert judged(Cause.EXIT, one, tries=5, **spent) == Failed(j=4, why="no attempt left: numberOfRetries is 1: why")
    assert judged(Cause.EXIT, tries=1) == Failed(j=4, why="no attempt left: numberOfRetries is 0: why")
    # Memory that cannot grow is a failure like others.
    fixed = msgspec.structs.replace(OWN, memory_factor=None)
    assert judged(Cause.OOM, fixed, tries=1, ooms=1, spent_ooms=1) == Failed(
        j=4, why="no attempt left: numberOfRetries is 0: why"
    )


def test_ends_of_retry_on_are_retried_without_a_number() -> None:
    rules = RetryRules(on=RetryOn(signal=(9,)), retries_on_match=2)
    assert isinstance(judged(Cause.SIGNAL, rules, tries=2), Retry)
    assert judged(Cause.SIGNAL, rules, tries=3) == Failed(j=4, why="no attempt left: retryOn allows 2 retries: why")
    other = msgspec.structs.replace(rules, on=RetryOn(signal=(7,)))
    assert judged(Cause.SIGNAL, other, tries=1) == Failed(j=4, why="no attempt left: numberOfRetries is 0: why")


def test_no_retries_are_none_for_any_cause() -> None:
    none = msgspec.structs.replace(OWN, on=RetryOn(signal=(9,), operator=True), retries_on_match=2).with_retries(0)
    for cause, count in (
        (Cause.EXIT, {}),
        (Cause.SIGNAL, {}),
        (Cause.OOM, {"spent_ooms": 1}),
        (Cause.WALLTIME, {"spent_overtimes": 1}),
        (Cause.LOST, {"lost": 1}),
        (Cause.PREEMPTED, {"preempted": 1}),
        (Cause.TRANSFER, {"transfers": 1}),
    ):
        assert isinstance(judged(cause, none, tries=1, **count), Failed), cause
    assert isinstance(judged(Cause.CANCELLED, none, tries=1), Deleted)
    assert none.with_retries(3).retries == 3
