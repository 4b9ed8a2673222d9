"""How an attempt ended, from its own record, the queue's word and accounting: every outcome seen on a real cluster."""

from __future__ import annotations

import pytest

from longshore.engine.policy.retry import BadEnds, RetryRules, decide_retry
from longshore.model.event import Failed, Retry
from longshore.model.states import Cause
from longshore.rundir.batch_records import EndRecord
from longshore.services.batch.executor.ends import classify_end
from longshore.services.batch.jobs import AccountRow, TaskId
from longshore.services.slurm.dialect import SlurmDialect

MIB = 2**20
DIALECT = SlurmDialect({})


def record(status: int, *, refused: bool = False) -> EndRecord:
    return EndRecord(j=4, a=1, status=status, run=7.0, end=107.0, host="n1", refused=refused)


def fenced() -> EndRecord:
    return EndRecord(j=4, a=1, status=137, run=7.0, end=107.0, host="n1", fenced="lease")


def account(said: str, code: int = 0, number: int = 0, peak_b: int | None = None) -> AccountRow:
    return AccountRow(
        id=TaskId(2),
        state=said.split(" ", maxsplit=1)[0],
        state_text=said,
        exit=code,
        signal=number,
        run_s=3.0,
        peak_memory_b=peak_b,
        node="n2",
    )


def test_a_success_needs_no_more_than_its_record() -> None:
    event = classify_end((4, 1), DIALECT, record=record(0))
    assert (event.j, event.a, event.exit, event.cause, event.host, event.run_s) == (4, 1, 0, None, "n1", 7.0)


@pytest.mark.parametrize(
    ("left", "state", "row", "cause", "code", "number"),
    [
        # A job that says how it failed, and a scheduler that has nothing to add.
        (record(3), "FAILED", None, Cause.EXIT, 3, None),
        (record(137), "FAILED", None, Cause.SIGNAL, None, 9),
        (record(200), "FAILED", None, Cause.EXIT, 200, None),
        # 1647 of the captured outcomes: it caught TERM and ended well, but its time was over.
        (record(0), "TIMEOUT", None, Cause.WALLTIME, 0, None),
        (record(143), "TIMEOUT", None, Cause.WALLTIME, None, 15),
        (record(0), "CANCELLED", None, None, 0, None),
        (record(143), "CANCELLED", None, Cause.CANCELLED, None, 15),
        # Killed by a person while it had nearly all its memory.
        (None, "", account("CANCELLED by 1000", 0, 9, 300 * MIB), Cause.CANCELLED, None, 9),
        # Killed at once, so that it left nothing: only accounting or the queue knows.
        (None, "FAILED", account("FAILED", 3), Cause.EXIT, 3, None),
        (None, "", account("OUT_OF_MEMORY", 0, 125), Cause.OOM, None, 125),
        (None, "", account("FAILED", 0, 9, 300 * MIB), Cause.OOM, None, 9),
        (None, "", account("FAILED", 9, 0, 300 * MIB), Cause.EXIT, 9, None),
        (None, "", account("FAILED", 0, 9, 10 * MIB), Cause.SIGNAL, None, 9),
        # What Slurm tells as the exit of a job whose node died, 0:1, is none of the job's.
        (None, "", account("NODE_FAIL", 0, 1), Cause.LOST, None, None),
        (None, "", account("PREEMPTED", 0, 15), Cause.PREEMPTED, None, 15),
        (None, "", account("CANCELLED by 1000"), Cause.CANCELLED, 0, None),
        (None, "COMPLETED", account("COMPLETED"), None, 0, None),
        # Its wrapper killed it, because its node was cut off.
        (fenced(), "FAILED", account("FAILED", 0, 9, 99 * MIB), Cause.LOST, None, 9),
        # Somebody had it started a second time.
        (record(99, refused=True), "FAILED", None, Cause.PREEMPTED, None, None),
    ],
)
def test_outcomes(
    left: EndRecord | None,
    state: str,
    row: AccountRow | None,
    cause: Cause | None,
    code: int | None,
    number: int | None,
) -> None:
    event = classify_end((4, 1), DIALECT, record=left, state=state, account=row, memory_b=100 * MIB)
    assert (event.cause, event.exit, event.signal) == (cause, code, number)
    assert (event.reason is None) == (cause in (None, Cause.EXIT) or (cause is Cause.OOM and "FAILED" in str(row)))


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"])
@pytest.mark.parametrize("left", [None, record(143), record(9)])
def test_the_failure_of_a_node_spends_the_budget_of_lost_attempts(state: str, left: EndRecord | None) -> None:
    event = classify_end((4, 1), DIALECT, record=left, account=account(state, 0, 15))
    rules = RetryRules(retries=0, retries_on_lost=1, retries_on_preempted=0)
    assert decide_retry(event, bad_ends=BadEnds(tries=1, lost=1), rules=rules) == Retry(j=4, a=2, cause=Cause.LOST)
    failed = decide_retry(event, bad_ends=BadEnds(tries=2, lost=2), rules=rules)
    assert isinstance(failed, Failed)
    assert failed.why == f"lost 2 times, and retryOnLost is 1: Slurm says {state}"


@pytest.mark.parametrize(
    ("state", "left"), [("PREEMPTED", None), ("PREEMPTED", record(143)), ("FAILED", record(99, refused=True))]
)
def test_preemption_and_a_second_start_spend_the_budget_of_preempted_attempts(
    state: str, left: EndRecord | None
) -> None:
    event = classify_end((4, 1), DIALECT, record=left, account=account(state, 0, 15))
    rules = RetryRules(retries=0, retries_on_lost=0, retries_on_preempted=1)
    retry = decide_retry(event, bad_ends=BadEnds(tries=1, preempted=1), rules=rules)
    assert retry == Retry(j=4, a=2, cause=Cause.PREEMPTED)
    assert isinstance(decide_retry(event, bad_ends=BadEnds(tries=2, preempted=2), rules=rules), Failed)


def test_slurms_own_words_about_memory() -> None:
    output = (
        "slurmstepd-n1: error: StepId=28.batch exceeded memory limit (116286464 > 52428800), being killed\n"
        "slurmstepd-n1: error: Exceeded job memory limit\n"
        "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=30.batch. Some of your processes may have been\n"
    )
    assert [DIALECT.reports_out_of_memory(output, raw) for raw in ("28", "30", "2", "29", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    event = classify_end((4, 1), DIALECT, record=record(137), state="FAILED", out_of_memory=True)
    assert event.cause is Cause.OOM


def test_the_peak_of_memory_is_kept() -> None:
    event = classify_end((4, 1), DIALECT, record=record(3), account=account("FAILED", 3, 0, 7 * MIB))
    assert (event.rss_b, event.run_s, event.host) == (7 * MIB, 7.0, "n1")
