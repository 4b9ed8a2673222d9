"""Log records become events of the run, and these the job states."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.htcondor.log_records import BY_HAND, BY_RULE, ENDED, HELD, OOM, REQUEUED, WITH_DAG, RecordedRun

from longshore.model.event import Deleted, Ended, Failed, Lost, Retry, Started, Steer
from longshore.model.states import Cause, JobState
from longshore.services.htcondor.events.dag_jobs import DagNodes, NodeRetries
from longshore.services.htcondor.events.job_phases import SavedJobPhases
from longshore.services.htcondor.events.log_records import UserLog
from longshore.services.htcondor.events.to_events import EventBuilder

DATA = Path(__file__).resolve().parents[3] / "data" / "htcondor"


def test_captured_log_of_every_kind_of_end() -> None:
    told = RecordedRun(8, final=True, chain=False)
    told.builder = EventBuilder(told.phases, nodes=DagNodes(8, final=True), retries=NodeRetries({1: 1}))
    for record in UserLog(DATA / "mixed.nodes.log").read_records():
        told.apply(told.builder.convert(record))
    told.finish()
    # Node 4 waits for node 1 in the DAG; here nothing does, and it was never submitted.
    assert told.shown == "SUCCEEDED FAILED FAILED SUCCEEDED DELETED SUCCEEDED DELETED FAILED"
    assert list(told.phases.attempts) == [1, 6, 3, 3, 0, 1, 3, 3]
    ends = [event for event in told.events if isinstance(event, Ended)]
    oom = [event for event in ends if event.j == 3]
    assert [event.cause for event in oom] == [Cause.OOM, Cause.OOM, None]
    assert [event.extra["MemoryProvisioned"] for event in oom] == ["100", "250", "500"]
    assert [event.rss_b and event.rss_b >> 20 for event in oom] == [295, 318, 318]
    assert oom[-1].run_s == 8.0
    assert [event.cause for event in ends if event.j == 6] == [Cause.HELD, Cause.PREEMPTED, Cause.HELD]
    assert "condor_hold" in str([event.reason for event in ends if event.j == 6])


def test_a_removed_dag_is_a_cancelled_run_whose_final_job_ran() -> None:
    told = RecordedRun(3, final=True, chain=False)
    for record in UserLog(DATA / "removed.nodes.log").read_records():
        told.apply(told.builder.convert(record))
    told.finish(is_removed=True)
    assert told.shown == "DELETED DELETED SUCCEEDED"
    assert told.state.compute_state() is JobState.DELETED


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (b"Code 1023 Subcode 0\n\tReason: DAG Removed: User removed scheduler job from queue.", Cause.CANCELLED),
        (b"Code 1023 Subcode 0\n\tReason: The expression 'true' evaluated to TRUE", Cause.WALLTIME),
        (b"Code 1008 Subcode 0\n\tReason: Failed to reconnect", Cause.LOST),
        (b"Code 1018 Subcode 0\n\tReason: a better one came", Cause.PREEMPTED),
        (b"Code 2001 Subcode 0", Cause.PREEMPTED),
        (b"", Cause.PREEMPTED),
    ],
)
def test_why_an_attempt_lost_its_machine(said: bytes, cause: Cause) -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(4, 5, b"Job was evicted. " + said)
    assert [event.cause for event in told.events if isinstance(event, Ended)] == [cause]


@pytest.mark.parametrize(("code", "lost", "preempted"), [(b"1008", 1, 0), (b"1018", 0, 1)])
def test_an_attempt_that_lost_its_machine_spends_none_of_the_retries(code: bytes, lost: int, preempted: int) -> None:
    """HTCondor starts it again without a retry of DAGMan."""
    told = RecordedRun().submit("j0", 5).start(5).take(4, 5, b"Job was evicted. Code " + code + b" Subcode 0")
    state = told.state
    assert (state.tries[0], state.lost[0]) == (1, lost)
    assert state.cause_counts.get((0, Cause.PREEMPTED), 0) == preempted


def test_a_chain_that_succeeds() -> None:
    told = RecordedRun().submit("j0", 5).start(5).end(5)
    assert told.shown == "SUCCEEDED READY"
    told.submit("j1", 6)
    assert told.shown == "SUCCEEDED PENDING"
    told.start(6)
    assert told.shown == "SUCCEEDED RUNNING"
    told.end(6).finish()
    assert told.shown == "SUCCEEDED SUCCEEDED"
    (first, _) = told.of(Ended)
    assert isinstance(first, Ended)
    assert (first.queue_s, first.run_s, first.extra) == (1.0, 1.0, {"MemoryProvisioned": "100"})
    assert told.of(Started)[0] == Started(j=0, a=1, host="node7", at=102.0, t=102.0)


def test_an_exit_code_is_tried_again_by_htcondor_and_then_fails() -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(4, 5, REQUEUED)
    assert told.shown == "PENDING UNREADY"
    told.start(5).end(5, 3)
    assert told.shown == "FAILED PRUNED"
    assert [event.a for event in told.of(Retry) if isinstance(event, Retry)] == [2]
    assert told.of(Failed) == [Failed(j=0, why="exit code 3; 2 attempts were made", t=told.at)]


def test_a_node_that_dagman_submits_again() -> None:
    told = RecordedRun(retries=1).submit("j0", 5).start(5).end(5, 3)
    assert told.shown == "READY UNREADY"
    told.submit("j0", 9).start(9).end(9)
    assert told.shown == "SUCCEEDED READY"
    assert told.phases.cluster_and_start(0, 1) == (5, 1)
    assert told.phases.cluster_and_start(0, 2) == (9, 1)


def test_a_node_that_dagman_gives_up() -> None:
    told = RecordedRun(retries=1).submit("j0", 5).start(5).end(5, 3).finish()
    assert told.shown == "FAILED PRUNED"
    told = RecordedRun(retries=1).submit("j0", 5).start(5).end(5, 3).submit("j0", 6).start(6).end(6, 4)
    assert told.shown == "FAILED PRUNED"


def test_held_while_it_runs_and_released() -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(12, 5, HELD)
    assert told.shown == "HELD UNREADY"
    assert told.phases.holds[0].reason == "the tape is full (by user u)"
    told.take(13, 5)
    assert told.shown == "PENDING UNREADY"
    told.start(5).end(5)
    assert told.shown == "SUCCEEDED READY"
    assert told.phases.attempts[0] == 2
    assert not told.phases.holds


def test_held_in_the_queue_costs_no_attempt() -> None:
    told = RecordedRun().submit("j0", 5).take(12, 5, HELD)
    assert told.shown == "HELD UNREADY"
    told.take(13, 5).start(5).end(5)
    assert told.shown == "SUCCEEDED READY"
    assert told.phases.attempts[0] == 1


def test_held_for_memory_and_removed_by_its_own_rule() -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(4, 5, OOM)
    assert told.shown == "READY UNREADY"
    told.take(12, 5, b"Job was held.\n\tmemory\n\tCode 21 Subcode 102").take(9, 5, BY_RULE)
    assert told.shown == "FAILED PRUNED"
    assert [event.cause for event in told.events if isinstance(event, Ended)] == [Cause.OOM]


@pytest.mark.parametrize(
    ("body", "cause", "signal"),
    [
        (b"Job was held.\n\tJob raised a signal 9.\n\tCode 3 Subcode 34", Cause.OOM, 9),
        (b"Job was held.\n\tThe job exceeded allowed execute duration of 5\n\tCode 47 Subcode 0", Cause.WALLTIME, None),
        (b"Job was held.\n\tcgroup\n\tCode 34 Subcode 0", Cause.OOM, None),
        (b"Job was held.\n\tFailed to execute\n\tCode 6 Subcode 2", Cause.SUBMIT, None),
        (b"Job was held.\n\twhatever\n\tCode 99 Subcode 0", Cause.HELD, None),
    ],
)
def test_why_a_job_that_ran_is_held(body: bytes, cause: Cause, signal: int | None) -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(12, 5, body)
    (end,) = told.of(Ended)
    assert isinstance(end, Ended)
    assert (end.cause, end.signal) == (cause, signal)


def test_held_before_its_start_and_given_up_has_an_attempt_with_the_reason() -> None:
    told = (
        RecordedRun(chain=False).submit("j0", 5).take(12, 5, b"Job was held.\n\tCannot access /x\n\tCode 14 Subcode 2")
    )
    told.take(9, 5, BY_RULE)
    assert told.shown == "FAILED READY"
    (end,) = told.of(Ended)
    assert isinstance(end, Ended)
    assert (end.a, end.cause, end.reason, end.start) == (1, Cause.SUBMIT, "Cannot access /x", None)
    (failed,) = told.of(Failed)
    assert isinstance(failed, Failed)
    assert failed.why.startswith("Cannot access /x; then removed because: ")


def test_the_rule_that_removes_held_jobs_is_not_repeated() -> None:
    told = (
        RecordedRun(chain=False).submit("j0", 5).start(5).take(12, 5, b"Job was held.\n\ttoo much\n\tCode 34 Subcode 0")
    )
    told.take(9, 5, BY_RULE.replace(b"'x'", b"'JobStatus == 5 &&  !member(HoldReasonCode,{ 1,15,16 })'"))
    (failed,) = told.of(Failed)
    assert isinstance(failed, Failed)
    assert failed.why == "too much; then removed by its rule for held jobs"


def test_removed_by_hand_in_each_state() -> None:
    assert RecordedRun().submit("j0", 5).take(9, 5, BY_HAND).shown == "DELETED PRUNED"
    assert RecordedRun().submit("j0", 5).start(5).take(9, 5, BY_HAND).shown == "DELETED PRUNED"
    assert RecordedRun().submit("j0", 5).start(5).take(12, 5, HELD).take(9, 5, BY_HAND).shown == "DELETED PRUNED"
    assert RecordedRun().submit("j0", 5).start(5).take(4, 5, OOM).take(9, 5, BY_HAND).shown == "DELETED PRUNED"
    told = RecordedRun().submit("j0", 5).take(9, 5, BY_HAND)
    assert told.phases.attempts[0] == told.state.attempts[0] == 0


def test_who_removed_a_job_by_hand_is_told() -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(9, 5, BY_HAND)
    assert [event.why for event in told.events if isinstance(event, Deleted)] == [BY_HAND.decode().split("\n\t")[1]]
    ordered = b"Job was aborted.\n\tlongshore cancel (by user ann)"
    told = RecordedRun().submit("j0", 5).start(5).take(9, 5, ordered)
    assert [event.why for event in told.events if isinstance(event, Deleted)] == [""]


def test_a_job_removed_by_hand_runs_again_where_dagman_retries_that() -> None:
    removed = RecordedRun(removals=1).submit("j0", 5).start(5).take(9, 5, BY_HAND)
    assert removed.submit("j0", 6).start(6).end(6).shown == "SUCCEEDED READY"
    assert [(event.a, event.cause) for event in removed.events if isinstance(event, Retry)] == [(2, Cause.CANCELLED)]
    # As of a job that ran: its end is an eviction, and then it is removed.
    evicted = RecordedRun(removals=1).submit("j0", 5).start(5).take(4, 5, b"Code 1023 Subcode 0\n\tReason: x")
    assert evicted.take(9, 5, BY_HAND).submit("j0", 6).start(6).end(6).shown == "SUCCEEDED READY"
    assert not evicted.of(Deleted)
    waiting = RecordedRun(removals=1).submit("j0", 5).take(9, 5, BY_HAND).submit("j0", 6).start(6).end(6)
    assert waiting.shown == "SUCCEEDED READY"
    held = RecordedRun(removals=1).submit("j0", 5).start(5).take(12, 5, HELD).take(9, 5, BY_HAND)
    assert held.submit("j0", 6).start(6).end(6).shown == "SUCCEEDED READY"


def test_the_last_removal_and_ends_of_another_kind_are_final_where_only_removals_are_retried() -> None:
    twice = RecordedRun(removals=1).submit("j0", 5).start(5).take(9, 5, BY_HAND).submit("j0", 6).take(9, 6, BY_HAND)
    assert twice.shown == "DELETED PRUNED"
    assert RecordedRun(removals=1).submit("j0", 5).start(5).take(9, 5, BY_RULE).shown == "FAILED PRUNED"
    assert RecordedRun(removals=1).submit("j0", 5).start(5).end(5, 3).shown == "FAILED PRUNED"


def test_removed_with_its_dag_is_a_cancelled_run() -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(9, 5, WITH_DAG).finish(is_removed=True)
    assert told.shown == "DELETED DELETED"
    assert [event.act for event in told.events if isinstance(event, Steer)] == ["cancel"]


def test_removed_by_a_rule_in_the_queue_or_while_it_runs() -> None:
    told = RecordedRun().submit("j0", 5).take(9, 5, BY_RULE)
    assert told.shown == "FAILED PRUNED"
    assert [event.cause for event in told.events if isinstance(event, Ended)] == [Cause.PEND_TIMEOUT]
    told = RecordedRun().submit("j0", 5).start(5).take(9, 5, BY_RULE)
    assert [event.cause for event in told.events if isinstance(event, Ended)] == [Cause.WALLTIME]


def test_an_attempt_that_was_lost() -> None:
    told = RecordedRun().submit("j0", 5).start(5).take(7, 5, b"Shadow exception!\n\tno way back").start(5).end(5)
    assert told.shown == "SUCCEEDED READY"
    assert told.of(Lost) == [Lost(j=0, a=1, why="no way back", t=103.0)]
    told = RecordedRun().submit("j0", 5).start(5).start(5).take(24, 5, b"Job reconnection failed\n\tgone").finish()
    assert told.shown == "FAILED PRUNED"
    assert len(told.of(Lost)) == 2


def test_reconnecting_changes_nothing() -> None:
    told = (
        RecordedRun().submit("j0", 5).start(5).take(22, 5, b"Job disconnected").take(23, 5, b"Job reconnected").end(5)
    )
    assert told.shown == "SUCCEEDED READY"
    assert told.phases.attempts[0] == 1


def test_a_node_that_could_not_be_submitted() -> None:
    told = RecordedRun().finish(failures={0: "DAGMan could not submit it: no executable"})
    assert told.shown == "FAILED PRUNED"
    (end,) = told.of(Ended)
    assert isinstance(end, Ended)
    assert (end.cause, end.reason) == (Cause.SUBMIT, "DAGMan could not submit it: no executable")


def test_dagman_is_gone_without_a_word() -> None:
    told = RecordedRun(3, chain=False).submit("j0", 5).start(5).submit("j1", 6).finish(is_removed=True)
    assert told.shown == "DELETED DELETED DELETED"
    assert told.state.is_over


def test_unknown_nodes_are_skipped() -> None:
    told = RecordedRun()
    for node in ("g0", "provision", "j7", "jx", "final", ""):
        told.submit(node, 5).start(5).end(5)
    assert not told.events
    told.end(77)
    assert not told.events


def test_a_restart_goes_on_counting() -> None:
    told = RecordedRun().submit("j0", 5).start(5).end(5, 1).finish()
    told.builder.reset_for_restart([0, 1])
    told.submit("j0", 8)
    assert told.phases.attempts[0] == 2
    assert told.phases.cluster_and_start(0, 2) == (8, 1)


_NODES = st.sampled_from(["j0", "j1", "j2", "final", "g0"])
_STEPS = st.one_of(
    st.tuples(st.just(0), st.integers(1, 4), _NODES.map(lambda node: f'x\n [ DAGNodeName = "{node}" ]'.encode())),
    st.tuples(
        st.sampled_from([1, 4, 5, 7, 9, 12, 13, 16, 22, 24]),
        st.integers(1, 4),
        st.sampled_from([REQUEUED, OOM, HELD, BY_RULE, BY_HAND, WITH_DAG, b"", ENDED]),
    ),
)


@given(st.lists(_STEPS, max_size=40), st.booleans(), st.integers(0, 40))
def test_any_log_ends_the_run(steps: list[tuple[int, int, bytes]], is_removed: bool, pause: int) -> None:
    told = RecordedRun(4, final=True)
    for number, (kind, cluster, body) in enumerate(steps):
        if number == pause:
            # What is written down and taken up again goes on as before.
            kept = msgspec.msgpack.decode(msgspec.msgpack.encode(told.phases.save()), type=SavedJobPhases)
            told.phases.restore(kept)
        told.take(kind, cluster, body)
        assert all(now >= 0 for now in told.phases.attempts)
    told.finish(is_removed=is_removed)
    assert told.state.is_over, told.shown
