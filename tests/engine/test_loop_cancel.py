"""A run, a label or a job is cancelled while the engine runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.simulation import Crash, Hooked, Simulation, answers, leave_at

from longshore.model.event import Deleted, Ended, Retry, Steer
from longshore.model.states import Cause, JobState
from longshore.model.workflow import JobRules, RetryOn
from longshore.rundir.interventions import InterventionRecord, write_intervention
from longshore.rundir.job_table import JobTable
from longshore.runstate.run_state import JobCode
from longshore.testing.fakes import (
    AttemptOutcome,
    SubmitReply,
)


def test_a_whole_run_is_cancelled_and_its_final_job_runs(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=50.0), written={"final": "last"})
    assert sim.engine(executor=Hooked(sim, leave_at(sim, 210))).run() is JobState.DELETED
    sim.check()
    assert sim.codes() == ["SUCCEEDED", "DELETED", "DELETED", "SUCCEEDED"]
    (end,) = [end for end in sim.of(Ended) if end.j == 1]
    assert (end.cause, end.signal) == (Cause.CANCELLED, 15)
    assert sim.asked("cancel") == [{(1, 1)}], "asked once"
    assert sim.asked("end_leftovers") == [None]
    assert f"{tmp_path.owner()} orders: cancel the whole run" in sim.said


def test_a_stubborn_job_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    sim = Simulation(
        tmp_path,
        {"a_0": ()},
        lambda _job, _attempt: AttemptOutcome(run_s=1e5, term_delay_s=1e4),
        written={"engine": {"grace_s": 7.0}},
    )
    assert sim.engine(executor=Hooked(sim, leave_at(sim, 4))).run() is JobState.DELETED
    (end,) = sim.of(Ended)
    assert (end.cause, end.signal) == (Cause.CANCELLED, 9)
    assert 7.0 <= end.run_s <= 9.0


def test_a_job_that_is_lost_while_it_is_cancelled_is_gone(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, {"a_0": ()}, lambda _job, _attempt: AttemptOutcome(run_s=1e5, lost=True))
    assert sim.engine(executor=Hooked(sim, leave_at(sim, 4))).run() is JobState.DELETED
    assert sim.codes() == ["DELETED"]
    assert not sim.of(Retry)


def test_a_label_is_cancelled_and_others_go_on(tmp_path: Path) -> None:
    graph = {"a_0": (), "b_0": (), "c_0": ("a_0",), "c_1": ("b_0",)}
    sim = Simulation(tmp_path, graph, lambda _job, _attempt: AttemptOutcome(run_s=20.0))
    hook = leave_at(sim, 4, labels=("a",))
    assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.FAILED
    state = sim.check()
    table = JobTable(sim.run)
    codes = {table[job].name: JobCode(state.code[job]).name for job in range(4)}
    assert codes == {"a_0": "DELETED", "b_0": "SUCCEEDED", "c_0": "PRUNED", "c_1": "SUCCEEDED"}
    assert sim.of(Steer)[0].select == {"labels": ("a",)}


def test_a_waiting_job_is_cancelled_by_name(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=20.0))
    assert sim.engine(executor=Hooked(sim, leave_at(sim, 4, jobs=("a_1", "nobody")))).run() is JobState.FAILED
    sim.check()
    assert sim.codes() == ["SUCCEEDED", "DELETED", "PRUNED"]
    assert sim.asked("cancel") == []


def test_an_unanswered_batch_is_ended_once_it_is_known_to_be_there(tmp_path: Path) -> None:
    sim = Simulation(
        tmp_path,
        {"a_0": ()},
        lambda _job, _attempt: AttemptOutcome(run_s=1e5),
        submit_reply=answers(SubmitReply.UNSURE_TAKEN),
    )

    def hook(number: int) -> None:
        if number == 1:
            sim.manager.stop_answering(60.0)
            write_intervention(sim.run, InterventionRecord(who="me", act="cancel"))

    assert sim.engine(executor=Hooked(sim, hook, what="submit")).run() is JobState.DELETED
    sim.check()
    asked = [call.method for call in sim.manager.calls]
    assert asked.index("cancel") > asked.index("find")


def test_an_unanswered_batch_that_never_came_is_just_deleted(tmp_path: Path) -> None:
    submit_reply = answers(SubmitReply.UNSURE_NOT_TAKEN)
    sim = Simulation(tmp_path, submit_reply=submit_reply)

    def hook(number: int) -> None:
        if number == 1:
            sim.manager.stop_answering(1.0)
            write_intervention(sim.run, InterventionRecord(who="me", act="cancel", jobs=("a_0",)))

    assert sim.engine(executor=Hooked(sim, hook, what="submit")).run() is JobState.FAILED
    assert sim.codes() == ["DELETED", "PRUNED", "PRUNED"]


def test_a_cancelled_run_stays_cancelled_when_its_engine_dies(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=1e5, term_delay_s=5.0))
    write_intervention(sim.run, InterventionRecord(who="me", act="cancel", jobs=("nobody",)))

    def die(number: int) -> None:
        if number == 6:
            write_intervention(sim.run, InterventionRecord(who="me", act="cancel"))
        if sim.manager.calls[-1].method == "cancel":
            raise Crash

    with pytest.raises(Crash):
        sim.engine(executor=Hooked(sim, die, what="anything")).run()
    assert sim.engine("resume").run() is JobState.DELETED
    sim.check()
    assert sim.asked("cancel") == [{(0, 1)}] * 2, "the new life asks again"


def test_a_job_that_a_person_removed_is_deleted_and_its_children_are_pruned(tmp_path: Path) -> None:
    removed = AttemptOutcome(run_s=5.0, signal=15, cause=Cause.CANCELLED)
    profiles = {"a": {"number_of_retries": 3}}
    sim = Simulation(
        tmp_path,
        {"a_0": (), "a_1": ("a_0",), "a_2": ()},
        lambda job, _: AttemptOutcome() if job else removed,
        written={"profiles": profiles},
    )
    assert sim.engine().run() is JobState.FAILED
    assert sim.codes() == ["DELETED", "SUCCEEDED", "PRUNED"]
    assert not sim.of(Retry)
    (deleted,) = sim.of(Deleted)
    assert (deleted.jobs, deleted.why) == ((0,), "a person removed it")


def test_a_removed_job_runs_again_where_that_is_wanted(tmp_path: Path) -> None:
    rules = JobRules(retry_on=RetryOn(operator=True))
    removed = AttemptOutcome(run_s=5.0, signal=15, cause=Cause.CANCELLED)
    sim = Simulation(
        tmp_path,
        {"a_0": ()},
        lambda _, attempt: removed if attempt == 1 else AttemptOutcome(),
        written={"profiles": {"a": {"number_of_retries": 1, "rules": rules}}},
    )
    assert sim.engine().run() is JobState.SUCCEEDED
    assert [(retry.a, retry.cause) for retry in sim.of(Retry)] == [(2, Cause.CANCELLED)]
