"""Retry and memory expressions, evaluated by HTCondor's own ClassAds, attempt by attempt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from longshore.engine.policy.retry import RetryRules
from longshore.model.workflow import MIB, Backoff, RetryOn
from longshore.services.htcondor.render.retries import (
    MACROS,
    RetryInputs,
    memory_request,
    retry_commands,
    walltime_limit,
)

classad2 = pytest.importorskip("classad2", reason="HTCondor's bindings are not installed")

REASONS = {
    1: "UserRequest",
    3: "JobPolicy",
    6: "FailedToCreateProcess",
    13: "TransferInputError",
    21: "StartdHeldJob",
    34: "JobOutOfResources",
}
OOM_HOLDS = [(34, 0), (3, 34), (21, 102)]


def retry_inputs(memory: int | None = 3072, **rules: Any) -> RetryInputs:
    max_mib = rules.pop("max_mib", None)
    release = rules.pop("release", "")
    base = {"retries": 5, "memory_factor": 2.0, "memory_most_b": max_mib and max_mib * MIB}
    return RetryInputs(
        rules=RetryRules(**(base | rules)),
        memory=None if memory is None else str(memory),
        max_mib=max_mib,
        release=release,
    )


class Job:
    """A job in a queue of one, to which ends and holds are done."""

    def __init__(self, job: RetryInputs) -> None:
        self.expressions = dict(retry_commands(job)) | {"request_memory": memory_request(job) if job.memory else "0"}
        self.ad: dict[str, Any] = {"NumJobCompletions": 0, "JobStatus": 1}
        self.holds: dict[str, int] = {}

    def says(self, command: str, **more: Any) -> Any:
        text = self.expressions[command]
        for name, value in MACROS:
            text = text.replace(f"$({name})", value)
        assert not re.search(r"\$\(", text)
        ad = classad2.ClassAd(self.ad | more)
        if self.holds:
            ad["NumHolds"] = sum(self.holds.values())
            ad["NumHoldsByReason"] = classad2.ClassAd(self.holds)
        ad["Asked"] = classad2.ExprTree(text)
        return ad.eval("Asked")

    def starts(self) -> int:
        """Start it; returns what it is given."""
        given = int(self.says("request_memory"))
        self.ad |= {"JobStatus": 2, "MemoryProvisioned": given, "LastJobStatus": 1}
        assert int(self.says("request_memory")) == given, "what is asked for moved between match and start"
        return given

    def is_held(self, code: int, subcode: int) -> str:
        """Hold it; returns what becomes of it."""
        self.holds[REASONS[code]] = self.holds.get(REASONS[code], 0) + 1
        if code == 3:
            self.ad["NumJobCompletions"] += 1
        self.ad |= {"JobStatus": 5, "HoldReasonCode": code, "HoldReasonSubCode": subcode, "EnteredCurrentStatus": 0}
        released, removed = self.says("periodic_release"), self.says("periodic_remove")
        assert not (released is True and removed is True)
        return "released" if released is True else "removed" if removed is True else "held"

    def exits(self, code: int | None = None, signal: int | None = None) -> str:
        """End it; returns what becomes of it, as schedd and shadow decide."""
        self.ad["NumJobCompletions"] += 1
        ended = {"ExitBySignal": signal is not None} | (
            {"ExitSignal": signal} if signal is not None else {"ExitCode": code}
        )
        if "on_exit_hold" in self.expressions and self.says("on_exit_hold", **ended) is True:
            self.ad["NumJobCompletions"] -= 1
            return "held"
        most = int(self.expressions["max_retries"])
        if self.ad["NumJobCompletions"] > most or ended.get("ExitCode") == 0:
            return "over"
        return "over" if self.says("retry_until", **ended) is True else "again"


def series(job: Job, holds: Iterator[tuple[int, int]]) -> tuple[list[int], str]:
    """What it is given each time while it runs out of memory, and how that ends."""
    given = []
    for code, subcode in holds:
        given.append(job.starts())
        if code == 3:
            became = job.exits(signal=9)
            if became != "held":
                return given, became
        became = job.is_held(code, subcode)
        if became != "released":
            return given, became
    raise AssertionError(given)


@pytest.mark.parametrize("hold", OOM_HOLDS)
@pytest.mark.parametrize(
    ("row", "first", "factor", "most", "expected"),
    [
        (54, 3072, 2, 20480, [3072, 6144, 12288, 20480]),
        (55, 32768, 2, 65536, [32768, 65536]),
        (56, 2048, 1.5, 491520, [2048, 3072, 4608, 6912, 10368, 15552]),
    ],
)
def test_memory_grows_to_what_a_job_may_have_and_that_is_tried_once(
    hold: tuple[int, int], row: int, first: int, factor: float, most: int, expected: list[int]
) -> None:
    job = Job(retry_inputs(first, max_mib=most, memory_factor=float(factor)))
    given, became = series(job, iter([hold] * 9))
    assert given == expected, row
    # A signal that is no longer held for leaves the queue with its signal.
    assert became == ("over" if hold[0] == 3 else "removed")


def test_all_kinds_of_memory_holds_are_counted() -> None:
    given, _ = series(Job(retry_inputs(100, max_mib=1000)), iter([*OOM_HOLDS, *OOM_HOLDS]))
    assert given == [100, 200, 400, 800, 1000]


def test_what_was_used_is_the_least_and_what_is_allowed_the_most() -> None:
    job = Job(retry_inputs(3072, max_mib=20480))
    job.ad["MemoryUsage"] = 5000
    assert job.says("request_memory") == 5000
    job = Job(retry_inputs(30000, max_mib=20480))
    assert job.says("request_memory") == 20480
    job.ad["MemoryUsage"] = 50000
    assert job.says("request_memory") == 20480


def test_memory_can_grow_from_what_was_used() -> None:
    job = Job(retry_inputs(100, max_mib=1000, memory_of_usage=True))
    assert job.starts() == 100
    job.ad["MemoryUsage"] = 150
    assert job.is_held(34, 0) == "released"
    assert job.starts() == 300
    assert job.is_held(34, 0) == "released"
    # Not seen to use more, it is asked for the same; the number of attempts ends that.
    assert job.starts() == 300


def test_without_growth_memory_is_what_was_asked_for() -> None:
    plain = retry_inputs(memory_factor=None)
    assert memory_request(plain) == "3072"
    job = Job(plain)
    assert job.starts() == 3072
    assert job.exits(signal=9) == "again"
    assert job.is_held(34, 0) == "released"
    assert job.starts() == 3072


def test_exit_codes_without_retry() -> None:
    # Several codes, one, or none; beside them those of a command that cannot be started, unless these are retried.
    until = dict(retry_commands(retry_inputs(unless_exit=(1, 2))))["retry_until"]
    assert "member(ExitCode, {1,2,126,127})" in until
    until = dict(retry_commands(retry_inputs(unless_exit=(1,), unstartable=True)))["retry_until"]
    assert "member(ExitCode, {1})" in until
    assert "member" not in dict(retry_commands(retry_inputs(unstartable=True)))["retry_until"]
    job = Job(retry_inputs(unless_exit=(1, 2)))
    job.starts()
    assert job.exits(3) == "again"
    assert job.exits(1) == "over"
    again = Job(retry_inputs(unless_exit=(1, 2), on=RetryOn(exit=(2,))))
    assert again.exits(2) == "again"
    assert again.exits(1) == "over"
    only = Job(retry_inputs(unless_exit=(1,), memory_factor=None, on=RetryOn(exit=(75,), signal=(7,), only=True)))
    assert only.exits(75) == "again"
    assert only.exits(128 + 7) == "again"
    assert only.exits(signal=7) == "again"
    assert only.exits(3) == "over"
    assert Job(retry_inputs(memory_factor=None, on=RetryOn(exit=(75,), only=True))).exits(signal=7) == "over"


def test_a_command_that_cannot_be_started_is_not_tried_again() -> None:
    unstartable = Job(retry_inputs())
    unstartable.starts()
    assert unstartable.exits(1) == "again"
    assert unstartable.exits(127) == "over"
    assert Job(retry_inputs()).is_held(6, 8) == "removed", "its file is no program of the machine"
    assert Job(retry_inputs()).is_held(6, 2) != "removed"
    assert Job(retry_inputs(on=RetryOn(exit=(127,)))).exits(127) == "again"
    assert Job(retry_inputs(unstartable=True)).exits(126) == "again"
    assert Job(retry_inputs(unstartable=True)).is_held(6, 8) != "removed"


def test_an_exit_code_that_looks_like_a_signal_and_is_final_is_final() -> None:
    job = Job(retry_inputs(unless_exit=(255,)))
    assert job.exits(255) == "over"
    assert job.exits(254) == "held"


def test_all_ends_count_together() -> None:
    job = Job(retry_inputs(100, retries=2))
    job.starts()
    assert job.exits(3) == "again"
    job.starts()
    assert job.is_held(34, 0) == "released"
    job.starts()
    assert job.exits(3) == "over"
    fewer = Job(retry_inputs(100, retries=1))
    assert fewer.is_held(34, 0) == "released"
    assert fewer.is_held(21, 102) == "removed"
    none = Job(retry_inputs(100, retries=0))
    assert none.exits(signal=9) == "over"
    assert none.is_held(34, 0) == "removed"


def test_other_holds_wait_longer_each_time_and_are_not_for_ever() -> None:
    job = Job(retry_inputs(100, retries=2, backoff=Backoff(first_s=60.0, most_s=100.0)))
    assert job.is_held(13, 2) == "released"
    job.ad["EnteredCurrentStatus"] = 2**40
    assert job.says("periodic_release") is False
    assert job.says("periodic_remove") is False
    assert job.says("request_memory") == 100
    assert job.is_held(13, 2) == "released"
    assert job.is_held(13, 2) == "removed"


def test_the_wait_doubles_up_to_its_longest() -> None:
    text = dict(retry_commands(retry_inputs(backoff=Backoff(first_s=60.0, most_s=100.0))))["periodic_release"]
    assert "min({60.0 * pow(2.0, (NumHolds ?: 1) - 1), 100.0})" in text


def test_holds_by_hand_are_not_released() -> None:
    job = Job(retry_inputs(100, retries=0))
    assert job.is_held(1, 0) == "held"
    assert job.is_held(1, 0) == "held"
    job.ad["JobStatus"] = 1
    job.starts()
    assert job.exits(3) == "over"


def test_a_hold_may_be_released_at_once() -> None:
    job = Job(retry_inputs(100, release="HoldReasonCode =?= 13 && HoldReasonSubCode =?= 2"))
    job.is_held(13, 2)
    job.ad["EnteredCurrentStatus"] = 2**40
    assert job.says("periodic_release") is True
    job.is_held(13, 3)
    job.ad["EnteredCurrentStatus"] = 2**40
    assert job.says("periodic_release") is False


def test_an_attempt_with_the_maximum_of_memory_is_the_last() -> None:
    job = Job(retry_inputs(100, max_mib=1000))
    job.starts()
    # A whole machine was given to it.
    job.ad["MemoryProvisioned"] = 64000
    assert job.is_held(34, 0) == "removed"


def test_time_grows_like_memory() -> None:
    assert walltime_limit("60", RetryRules()) == "60"
    for rules, expected in (
        (RetryRules(walltime_factor=2.0), [60, 120, 240]),
        (RetryRules(walltime_factor=2.0, walltime_most_s=100.0), [60, 100, 100]),
    ):
        found = []
        for ends in range(3):
            ad = classad2.ClassAd({"NumHoldsByReason": classad2.ClassAd({"JobExecuteExceeded": ends})})
            ad["Asked"] = classad2.ExprTree(walltime_limit("60", rules))
            found.append(ad.eval("Asked"))
        assert found == expected


def test_a_job_that_ran_too_long_goes_again_only_with_more_time() -> None:
    REASONS[47] = "JobExecuteExceeded"
    assert Job(retry_inputs(walltime_factor=2.0)).is_held(47, 0) == "released"
    assert Job(retry_inputs()).is_held(47, 0) == "removed"


OWN: dict[str, Any] = {"retries": 0, "retries_on_memory": 2, "retries_on_time": 1, "retries_on_transfer": 3}
"""Budgets of a user's own commands: a failure has none."""


@pytest.mark.parametrize("hold", OOM_HOLDS)
def test_memory_has_a_budget_of_its_own(hold: tuple[int, int]) -> None:
    given, became = series(Job(retry_inputs(100, **OWN)), iter([hold] * 9))
    assert given == [100, 200, 400]
    assert became == ("over" if hold[0] == 3 else "removed")


def test_a_failure_is_not_repeated_where_only_memory_is() -> None:
    for end in ({"code": 1}, {"code": 139}, {"signal": 11}):
        assert Job(retry_inputs(100, **OWN)).exits(**end) == "over"
    assert Job(retry_inputs(100, **OWN)).exits(code=137) == "held"
    # The ends that spent the budget of memory leave that of failures, and the other way round.
    job = Job(retry_inputs(100, **(OWN | {"retries": 1})))
    for hold in OOM_HOLDS[:2]:
        job.starts()
        if hold[0] == 3:
            assert job.exits(signal=9) == "held"
        assert job.is_held(*hold) == "released"
    assert job.exits(code=1) == "again"
    assert job.exits(code=1) == "over"


def test_holds_by_the_system_spend_the_budget_of_transfers() -> None:
    job = Job(retry_inputs(100, **OWN))
    assert [job.is_held(13, 0) for _ in range(4)] == ["released"] * 3 + ["removed"]
    job = Job(retry_inputs(100, **(OWN | {"memory_factor": None})))
    assert job.is_held(34, 0) == "removed", "memory that cannot grow is a failure"
    for hold in ((13, 0), (34, 0)):
        none = retry_inputs(100, **(OWN | {"retries_on_transfer": 0, "retries_on_memory": 0}))
        assert Job(none).is_held(*hold) == "removed"


def test_ends_of_retry_on_have_a_budget_where_no_number_is_given() -> None:
    job = Job(retry_inputs(100, **OWN, on=RetryOn(exit=(75,), signal=(7,)), retries_on_match=2))
    assert [job.exits(code=75), job.exits(signal=7), job.exits(code=75)] == ["again", "again", "over"]
    assert Job(retry_inputs(100, **OWN, on=RetryOn(exit=(75,)), retries_on_match=2)).exits(code=1) == "over"
