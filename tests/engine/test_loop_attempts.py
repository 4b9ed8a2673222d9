"""What follows an attempt: growth of memory, retries, pauses after fast failures, success rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.simulation import Hooked, Simulation, fails

from longshore.model.event import Ended, Failed, Retry, Steer
from longshore.model.states import Cause, JobState
from longshore.model.workflow import MIB, Backoff, JobRules, KeepPolicy, LimitRules, Request, RetryOn, SuccessIf
from longshore.rundir.interventions import InterventionRecord, write_intervention
from longshore.testing.fakes import (
    AttemptOutcome,
)


def test_a_job_out_of_memory_asks_for_more_until_it_has_enough(tmp_path: Path) -> None:
    rules = {
        "request": Request(memory_b=100 * MIB),
        "number_of_retries": 5,
        "attributes": {"memoryMultiplier": 2.0, "requestMemoryMax": 700 * MIB},
    }
    sim = Simulation(
        tmp_path,
        {"a_0": ()},
        outcome=lambda _job, attempt: AttemptOutcome() if attempt == 4 else AttemptOutcome(signal=9, cause=Cause.OOM),
        written={"profiles": {"a": rules}},
    )
    assert sim.engine().run() is JobState.SUCCEEDED
    sim.check()
    asked = [(batch.request.memory_b or 0) // MIB for batch in sim.asked("submit")]
    assert asked == [100, 200, 400, 700]


def test_the_most_the_manager_has_is_a_cap_which_is_run_once_and_again_after_a_restart(tmp_path: Path) -> None:
    rules = {"request": Request(memory_b=100 * MIB), "number_of_retries": 5, "attributes": {"memoryMultiplier": 3.0}}
    sim = Simulation(
        tmp_path,
        {"a_0": ()},
        outcome=lambda _job, _attempt: AttemptOutcome(signal=9, cause=Cause.OOM),
        written={"profiles": {"a": rules}},
        capacity={"memory": 500 * MIB},
    )
    assert sim.engine().run() is JobState.FAILED
    again = sim.engine("restart")
    again.restart()
    assert again.run() is JobState.FAILED
    asked = [(batch.request.memory_b or 0) // MIB for batch in sim.asked("submit")]
    assert asked == [100, 300, 500, 500], "a restart forgets nothing"
    assert {failed.why for failed in sim.of(Failed)} == {"out of memory with 500 MiB, the most it may have"}


def test_a_retry_waits_for_its_time(tmp_path: Path) -> None:
    rules = {"number_of_retries": 2, "rules": JobRules(backoff=Backoff(first_s=100.0, most_s=1000.0))}
    sim = Simulation(tmp_path, {"a_0": ()}, outcome=fails(0, until=3), written={"profiles": {"a": rules}})
    assert sim.engine().run() is JobState.SUCCEEDED
    started = sim.manager.started
    assert 50.0 <= started[0, 2] - started[0, 1] - 1.0 <= 101.0
    assert 100.0 <= started[0, 3] - started[0, 2] - 1.0 <= 201.0


def test_a_host_that_fails_every_job_pauses_the_run_until_somebody_lets_it_go_on(tmp_path: Path) -> None:
    broken = True
    sim = Simulation(
        tmp_path,
        {f"a_{number:02}": () for number in range(20)},
        outcome=lambda _job, _attempt: AttemptOutcome(exit=3 if broken else 0),
        written={"engine": {"max_fast_failures": 5}},
        capacity={"cpus": 2},
    )
    notes: list[str] = []

    def mend(number: int) -> None:
        nonlocal broken
        notes.append(sim.snapshot().note)
        if number == 200:
            broken = False
            write_intervention(sim.run, InterventionRecord(who="me", act="unpause"))

    assert sim.engine(executor=Hooked(sim, mend)).run() is JobState.FAILED
    totals = sim.check().count_states()
    assert totals[JobState.FAILED] <= 7, "what ran when the fifth failed, and no more"
    assert totals[JobState.SUCCEEDED] == 20 - totals[JobState.FAILED]
    (note,) = {note for note in notes if note}
    assert note.startswith(
        "PAUSED: 5 different jobs failed in a row on 'fakehost', each within 10 s, and none succeeded"
    )
    assert [(steer.who, steer.act) for steer in sim.of(Steer)] == [
        ("longshore", "pause"),
        (tmp_path.owner(), "unpause"),
    ]
    assert len(sim.asked("submit")) == 20


def test_a_paused_run_can_be_cancelled_and_stays_paused_in_the_next_life(tmp_path: Path) -> None:
    sim = Simulation(
        tmp_path,
        {f"a_{number}": () for number in range(9)},
        outcome=lambda _job, _attempt: AttemptOutcome(exit=3),
        written={"engine": {"max_fast_failures": 2}},
        capacity={"cpus": 1},
    )

    def die(number: int) -> None:
        if sim.of(Steer):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sim.engine(executor=Hooked(sim, die)).run()
    ended = len(sim.asked("submit"))

    def cancel(number: int) -> None:
        if number == 20:
            write_intervention(sim.run, InterventionRecord(who="me", act="cancel"))

    assert sim.engine("resume", executor=Hooked(sim, cancel)).run() is JobState.DELETED
    assert len(sim.asked("submit")) == ended


def test_an_end_is_judged_by_what_the_attempt_left_behind(tmp_path: Path) -> None:
    wanted = JobRules(
        success_if=SuccessIf(exit=(0, 3), log="^done$", file="out/{jobName}.txt"),
        retry_on=RetryOn(log="connection lost", only=True),
        bounds=LimitRules(logs=KeepPolicy.FAILED),
        backoff=Backoff(first_s=0.0),
    )
    logs: list[Path] = []

    def works(job: int, attempt: int) -> AttemptOutcome:
        # The manager asks when it starts an attempt, and again when that ends.
        text = "connection lost" if (job, attempt) == (1, 1) else "failed" if job == 2 else "done"
        log = sim.run.root / sim.run.log_of(job, f"a_{job}", "a", attempt)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{text}\n", "utf-8")
        logs.append(log)
        out = sim.run.root / "out" / f"a_{job}.txt"
        out.parent.mkdir(exist_ok=True)
        if (job, attempt) != (1, 1):
            out.touch()
        return AttemptOutcome(exit=3)

    sim = Simulation(
        tmp_path,
        {f"a_{number}": () for number in range(3)},
        outcome=works,
        written={"profiles": {"a": {"number_of_retries": 3, "rules": wanted}}},
    )
    assert sim.engine().run() is JobState.FAILED
    assert sim.codes() == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
    assert [(retry.j, retry.cause) for retry in sim.of(Retry)] == [(1, Cause.PREDICATE)]
    reasons = {(end.j, end.a): end.reason for end in sim.of(Ended)}
    nothing = "its log has nothing that matches successIf.log '^done$'"
    file = sim.run.root / "out" / "a_1.txt"
    assert reasons == {
        (0, 1): None,
        (1, 1): f"{nothing}; there is no file '{file}' (successIf.file)",
        (1, 2): None,
        (2, 1): nothing,
    }
    assert {log.name for log in logs if log.exists()} == {"a_1.1.log", "a_2.1.log"}, "those of successes are not kept"
