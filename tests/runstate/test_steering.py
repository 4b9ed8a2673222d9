"""What people say of a live run, in the fold, in decisions and in engines: pauses, throttles, holds, new requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.engine.schedulers import make_scheduler
from tests.engine.simulation import CHAIN, Hooked, Simulation, answers, fails
from tests.engine.states import codes, run_job

from longshore.engine.run.intervention_events import make_intervention_events
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler, SchedulerProfile
from longshore.errors import ConfigError, UsageError
from longshore.model.event import Ended, Failed, Restarted, Retry, Started, Steer, Submitted, Submitting, decode_event
from longshore.model.json_lines import encode_line
from longshore.model.states import Cause, JobState
from longshore.model.workflow import MIB, Request
from longshore.rundir.interventions import InterventionRecord, write_intervention
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card
from longshore.runstate.apply_events import apply_event
from longshore.runstate.change_request import SETTABLE_KEYS, change_request
from longshore.runstate.run_state import RunState
from longshore.runstate.steering import WHOLE_RUN, describe_throttles
from longshore.testing.fakes import AttemptOutcome, SubmitReply
from longshore.testing.runs import write_run

FORK: Sequence[Sequence[int]] = ((), (0,), (0,), (1, 2))
"""A diamond."""


def steer(act: str, jobs: tuple[int, ...] | None = None, **more: Any) -> Steer:
    return Steer(who="me", act=act, jobs=jobs, **more)


def begin(parents: Sequence[Sequence[int]] = FORK, *, final: bool = False) -> RunState:
    return RunState(parents, [0, *[1] * (len(parents) - 1)], final=final)


def started(made: Scheduler, now: float = 0.0) -> list[int]:
    """Jobs handed over in a round."""
    batches = made.next_batches(now)
    for batch in batches:
        apply_event(made.state, batch)
        apply_event(made.state, Submitted(b=batch.b, id=batch.b))
    return sorted(job for batch in batches for job, _ in batch.jobs)


# ------------------------------------------------------------------------------------------------------------- the fold


def test_a_held_job_is_held_whether_or_not_its_parents_are_done() -> None:
    state = begin()
    apply_event(state, steer("hold", (0, 3)))
    assert codes(state) == ["HELD", "UNREADY", "UNREADY", "HELD"]
    assert state.compute_state() is JobState.HELD, "the rest waits for what is held"
    apply_event(state, steer("release", (0,)))
    assert state.compute_state() is JobState.RUNNING
    for job in (0, 1, 2):
        run_job(state, job)
    assert codes(state) == ["SUCCEEDED"] * 3 + ["HELD"]
    assert state.compute_state() is JobState.HELD
    assert not state.is_over
    apply_event(state, steer("release"))
    assert codes(state)[3] == "READY"


def test_a_released_job_whose_parents_are_not_done_waits_for_them() -> None:
    state = begin()
    apply_event(state, steer("hold", (3,)))
    apply_event(state, steer("release", (3,)))
    assert codes(state) == ["READY", "UNREADY", "UNREADY", "UNREADY"]


def test_a_running_job_that_is_held_goes_on_and_is_not_tried_again() -> None:
    state = begin()
    apply_event(state, Submitting(b="b", tag="b", jobs=((0, 1),)))
    apply_event(state, steer("hold", (0,)))
    apply_event(state, Started(j=0, a=1))
    assert codes(state)[0] == "RUNNING"
    apply_event(state, Ended(j=0, a=1, exit=1, cause=Cause.EXIT))
    apply_event(state, Retry(j=0, a=2, cause=Cause.EXIT))
    assert codes(state)[0] == "HELD"
    apply_event(state, steer("release", (0,)))
    assert codes(state)[0] == "READY"


def test_what_is_held_is_pruned_when_what_it_waits_for_fails() -> None:
    """It can never run; kept HELD it would keep the run from its end."""
    state = begin()
    run_job(state, 0)
    apply_event(state, steer("hold", (3,)))
    run_job(state, 1, exit_code=1)
    apply_event(state, Failed(j=1, why="no attempt left"))
    assert codes(state)[3] == "PRUNED"
    run_job(state, 2)
    assert state.is_over


def test_cancelling_a_run_ends_what_is_held_and_lifts_the_pause() -> None:
    state = begin((*FORK, ()), final=True)
    apply_event(state, steer("hold"))
    apply_event(state, steer("pause", set={"why": "the archive is down"}))
    assert state.paused == "the archive is down"
    apply_event(state, Steer(who="me", act="cancel"))
    assert codes(state) == ["DELETED"] * 4 + ["READY"], "the final job runs in any case"
    assert state.paused == ""
    assert state.compute_state() is JobState.RUNNING


def test_a_restart_runs_what_was_held_and_pruned() -> None:
    state = begin()
    apply_event(state, steer("hold", (3,)))
    apply_event(state, steer("pause"))
    run_job(state, 0, exit_code=1)
    apply_event(state, Failed(j=0, why="no"))
    apply_event(state, Restarted(jobs=(0, 1, 2, 3)))
    assert codes(state) == ["READY", "UNREADY", "UNREADY", "UNREADY"]
    assert state.paused == ""


def test_a_restart_that_leaves_out_what_a_job_waits_for_prunes_it_again() -> None:
    state = begin()
    run_job(state, 0)
    run_job(state, 1, exit_code=1)
    apply_event(state, Failed(j=1, why="no"))
    run_job(state, 2)
    apply_event(state, Restarted(jobs=(3,)))
    assert codes(state) == ["SUCCEEDED", "FAILED", "SUCCEEDED", "PRUNED"]
    assert state.is_over, "and so comes to its end"


ACTS = st.sampled_from(["pause", "unpause", "hold", "release", "throttle", "set", "what nobody knows"])


@settings(max_examples=examples(300))
@given(data=st.data())
def test_whatever_is_said_the_numbers_add_up_and_every_run_can_be_brought_to_its_end(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 7))
    parents = [
        tuple(sorted(data.draw(st.sets(st.integers(0, job - 1), max_size=2)))) if job else () for job in range(size)
    ]
    final = data.draw(st.booleans())
    state = RunState([*parents, ()] if final else parents, [job % 2 for job in range(size + final)], final=final)
    made = make_scheduler(state, pool=Pool({"cpus": 2}))
    for _ in range(data.draw(st.integers(0, 25))):
        act = data.draw(ACTS)
        jobs = data.draw(st.none() | st.lists(st.integers(0, state.size - 1), max_size=3).map(tuple))
        values = {"max": str(data.draw(st.integers(1, 3)))} if act == "throttle" and data.draw(st.booleans()) else {}
        request = Request(cpus=data.draw(st.integers(1, 3))) if act == "set" else None
        said = steer(act, jobs, set=values, labels=(0,) if jobs else (), request=request)
        apply_event(state, decode_event(encode_line(said)))
        begun = started(made)
        if state.paused:
            assert not begun
        assert not {job for job in begun if job in state.held}
        for job in list(state.active)[: data.draw(st.integers(0, 2))]:
            bad = data.draw(st.booleans())
            apply_event(state, Ended(j=job, a=state.attempts[job], exit=int(bad), cause=Cause.EXIT if bad else None))
        for judgement in made.decide_retries():
            apply_event(state, judgement)
        assert sum(state.count_states().values()) == state.size
        moving = any(state.count_states()[name] for name in (JobState.READY, JobState.PENDING, JobState.RUNNING))
        assert (state.compute_state() is JobState.HELD) == (not moving and not state.is_over)
    for said in (steer("unpause"), steer("release"), steer("throttle"), steer("throttle", labels=(0, 1))):
        apply_event(state, said)
    for _ in range(3 * state.size):
        started(made)
        for job in list(state.active):
            apply_event(state, Ended(j=job, a=state.attempts[job], exit=0))
        for judgement in made.decide_retries():
            apply_event(state, judgement)
    assert state.is_over


# ------------------------------------------------------------------------------------------------------- what may start


def test_nothing_starts_while_a_run_is_paused() -> None:
    state = RunState([()] * 5, [0] * 5)
    made = make_scheduler(state)
    apply_event(state, steer("pause"))
    assert started(made) == []
    assert not made.has_more, "the engine naps"
    apply_event(state, steer("unpause"))
    assert started(made) == [0, 1, 2, 3, 4]


def test_a_throttled_label_lets_others_pass() -> None:
    state = RunState([()] * 8, [job % 2 for job in range(8)])
    made = make_scheduler(state)
    apply_event(state, steer("throttle", set={"max": "1"}, labels=(1,)))
    assert started(made) == [0, 1, 2, 4, 6]
    assert started(made) == []
    apply_event(state, Ended(j=1, a=1, exit=0))
    assert started(made) == [3]
    apply_event(state, steer("throttle", labels=(1,)))
    assert started(made) == [5, 7]


def test_without_a_label_all_throttles_are_lifted() -> None:
    state = RunState([()] * 4, [job % 2 for job in range(4)])
    apply_event(state, steer("throttle", set={"max": "1"}, labels=(1,)))
    apply_event(state, steer("throttle", set={"max": "2"}))
    apply_event(state, steer("throttle"))
    assert state.throttles == {}


def test_a_throttled_run_is_as_narrow_as_was_said() -> None:
    state = RunState([()] * 5, [0] * 5)
    made = make_scheduler(state)
    apply_event(state, steer("throttle", set={"max": "2"}))
    assert state.throttles == {WHOLE_RUN: 2}
    assert started(made) == [0, 1]
    apply_event(state, steer("throttle", set={"max": "3"}))
    assert started(made) == [2]
    for job in (0, 1, 2):
        apply_event(state, Ended(j=job, a=1, exit=0))
    assert started(made) == [3, 4]


def test_a_changed_request_is_what_is_started() -> None:
    state = RunState([()] * 3, [0] * 3)
    made = make_scheduler(
        state, [SchedulerProfile(request=Request(memory_b=MIB))], pool=Pool({"cpus": 8, "memory": 4 * MIB})
    )
    apply_event(state, steer("set", (1,), set={"requestMemory": "4"}, request=Request(memory_b=4 * MIB)))
    batches = made.next_batches(0.0)
    assert {job: batch.request.memory_b for batch in batches if batch.request for job, _ in batch.jobs} == {
        0: MIB,
        2: MIB,
    }
    for batch in batches:
        apply_event(state, batch)
        for job, attempt in batch.jobs:
            apply_event(state, Ended(j=job, a=attempt, exit=0))
    (last,) = made.next_batches(0.0)
    assert last.request == Request(memory_b=4 * MIB)


def test_what_a_retry_raised_stays_raised_unless_that_is_set() -> None:
    state = RunState([()], [0])
    run_job(state, 0, exit_code=1)
    apply_event(state, Retry(j=0, a=2, cause=Cause.OOM, request=Request(memory_b=8 * MIB)))
    made = make_scheduler(state, [SchedulerProfile(request=Request(memory_b=4 * MIB))])
    apply_event(state, steer("set", (0,), set={"requestCpus": "2"}, request=Request(cpus=2, memory_b=4 * MIB)))
    assert made.first_request_of(0) == Request(cpus=2, memory_b=4 * MIB)
    assert made.request_of(0) == Request(cpus=2, memory_b=8 * MIB)
    apply_event(state, steer("set", (0,), set={"requestMemory": "6"}, request=Request(cpus=2, memory_b=6 * MIB)))
    assert made.request_of(0) == Request(cpus=2, memory_b=6 * MIB)


def test_what_is_set_of_a_job_that_runs_counts_from_its_next_attempt() -> None:
    """A next life must go on counting what the job has of the machine, not what it will ask for."""
    state = RunState([(), ()], [0, 0])
    pool = {"cpus": 4}
    assert started(make_scheduler(state, [SchedulerProfile(request=Request(cpus=4))], pool=Pool(pool))) == [0]
    apply_event(state, steer("set", (0,), set={"requestCpus": "1"}, request=Request(cpus=1)))
    made = make_scheduler(state, [SchedulerProfile(request=Request(cpus=4))], pool=Pool(pool))
    assert started(made) == [], "the job that runs has all there is"
    apply_event(state, Ended(j=0, a=1, exit=1, cause=Cause.EXIT))
    apply_event(state, Retry(j=0, a=2, cause=Cause.EXIT))
    assert made.request_of(0) == Request(cpus=1)


def test_what_is_set_one_after_another_of_a_job_that_runs_counts_all_together(tmp_path: Path) -> None:
    jobs = JobTable(write_run(tmp_path / "run", {"a_1": ()}))
    state = RunState([()], [0])
    made = make_scheduler(
        state, [SchedulerProfile(request=Request(cpus=1, memory_b=MIB))], pool=Pool({"cpus": 4, "memory": 9 * MIB})
    )
    assert started(made) == [0]
    for key, value in (("requestCpus", "2"), ("requestMemory", "3"), ("requestWalltime", "60")):
        order = InterventionRecord(who="me", act="set", set={key: value})
        for event in make_intervention_events(order, jobs, state, request_of=made.planned_request_of):
            apply_event(state, event)
    assert made.request_of(0) == Request(cpus=1, memory_b=MIB), "as it runs"
    apply_event(state, Ended(j=0, a=1, exit=1, cause=Cause.EXIT))
    apply_event(state, Retry(j=0, a=2, cause=Cause.EXIT))
    assert made.request_of(0) == Request(cpus=2, memory_b=3 * MIB, walltime_s=60.0)


def test_a_retry_waits_no_longer_than_was_meant_when_the_clock_is_set_back() -> None:
    state = RunState([()], [0])
    run_job(state, 0, exit_code=1)
    apply_event(state, Retry(t=1e9, j=0, a=2, cause=Cause.EXIT, not_before=1e9 + 30.0))
    made = make_scheduler(state)
    assert started(made, now=5e8) == []
    assert made.next_wake() == 5e8 + 30.0
    assert started(made, now=5e8 + 30.0) == [0]


# ------------------------------------------------------------------------------------------------------ what can be set


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("requestMemory", "4096", "memory_b", 4096 * MIB),
        ("requestMemory", "8G", "memory_b", 8 * 1024 * MIB),
        ("requestMemory", "0", "memory_b", None),
        ("requestDisk", "10", "disk_b", 10 * MIB),
        ("requestWalltime", "1:30", "walltime_s", 5400.0),
        ("requestCpus", "4", "cpus", 4),
        ("requestResources.gpus", "1", "resources", {"gpus": 1}),
        ("numberOfRetries", "3", "cpus", 1),
    ],
)
def test_what_can_be_set(key: str, text: str, field: str, value: object) -> None:
    assert getattr(change_request(Request(), {key: text}), field) == value


def test_what_cannot_be_set_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError) as told:
        change_request(Request(), {"requestMemroy": "1"})
    assert "'requestMemroy'" in told.value.message
    assert "Did you mean 'requestMemory'?" in told.value.hint
    assert all(key in told.value.hint for key in SETTABLE_KEYS)
    with pytest.raises(ConfigError, match="'requestCpus' must be a whole number of at least 1"):
        change_request(Request(), {"requestCpus": "0"})


# ---------------------------------------------------------------------------------------------------------- whole lives


def ordering(sim: Simulation, *given: tuple[int, str, dict[str, Any]]) -> Callable[[int], None]:
    """Leaves an order at each of these waits."""

    def hook(number: int) -> None:
        for at, act, more in given:
            if number == at:
                write_intervention(sim.run, InterventionRecord(who="me", act=act, **more))  # type: ignore[arg-type]

    return hook


def slow(_job: int, _attempt: int) -> AttemptOutcome:
    return AttemptOutcome(run_s=3.0)


def test_an_engine_obeys_within_a_nap(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=slow)
    notes: list[str] = []

    def hook(number: int) -> None:
        if number == 2:
            write_intervention(sim.run, InterventionRecord(who="ann", act="pause", set={"why": "lunch"}))
        if number == 40:
            notes.append(sim.snapshot().note)
            write_intervention(sim.run, InterventionRecord(who="ann", act="unpause"))

    assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.SUCCEEDED
    sim.check()
    (note,) = notes
    run = read_card(sim.run).id
    assert note == f"PAUSED: lunch; no job starts; to continue it: longshore unpause {run}"
    assert sim.manager.started[1, 1] > 38 * 0.25
    # What the files say of their writer does not count.
    me = Path(sim.run.root).owner()
    assert [(event.who, event.act, event.set) for event in sim.of(Steer)] == [
        (me, "pause", {"why": "lunch"}),
        (me, "unpause", {}),
    ]
    assert f"{me} orders: pause why=lunch the whole run" in sim.said


def test_a_run_of_which_all_that_is_left_is_held_says_so_and_goes_on_when_released(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=slow)
    states: list[JobState] = []

    def hook(number: int) -> None:
        if number == 2:
            write_intervention(sim.run, InterventionRecord(who="me", act="hold", jobs=("a_1",)))
        if number == 60:
            states.append(sim.snapshot().state)
            write_intervention(sim.run, InterventionRecord(who="me", act="release"))

    assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.SUCCEEDED
    sim.check()
    assert states == [JobState.HELD]


def test_what_was_said_holds_in_the_next_life(tmp_path: Path) -> None:
    class Stop(Exception):  # noqa: N818 - a death
        pass

    sim = Simulation(tmp_path, outcome=slow)

    def die(number: int) -> None:
        if number == 2:
            write_intervention(sim.run, InterventionRecord(who="me", act="hold", labels=("a",)))
        if number == 30:
            raise Stop

    with pytest.raises(Stop):
        sim.engine(executor=Hooked(sim, die)).run()
    assert sim.codes() == ["SUCCEEDED", "HELD", "HELD"]
    hook = ordering(sim, (3, "release", {"labels": ("a",)}))
    assert sim.engine("resume", executor=Hooked(sim, hook)).run() is JobState.SUCCEEDED
    sim.check()


def test_an_order_that_no_engine_took_is_taken_by_the_next(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=slow)
    write_intervention(sim.run, InterventionRecord(who="me", act="pause"))
    hook = ordering(sim, (20, "unpause", {}))
    assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.SUCCEEDED
    sim.check()
    assert min(sim.manager.started.values()) >= 19 * 0.25


def test_what_is_set_reaches_the_manager(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=slow)
    hook = ordering(sim, (2, "set", {"jobs": ("a_2",), "set": {"requestMemory": "77", "requestCpus": "3"}}))
    assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.SUCCEEDED
    sim.check()
    asked = {batch.members[0].name: batch.request for batch in sim.asked("submit")}
    assert asked == {"a_0": Request(), "a_1": Request(), "a_2": Request(cpus=3, memory_b=77 * MIB)}


def test_more_retries_can_be_given(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=fails(1, until=3))
    write_intervention(sim.run, InterventionRecord(who="me", act="set", set={"numberOfRetries": "5"}))
    assert sim.engine().run() is JobState.SUCCEEDED
    assert list(sim.check().attempts) == [1, 3, 1]


WIDE: Mapping[str, Sequence[str]] = {f"{label}_{number}": () for number in range(6) for label in "ab"}


def test_how_narrow_a_run_was_made_is_said() -> None:
    assert not describe_throttles({}, ["a", "b"], "k7f3aa")
    assert describe_throttles({1: 3, WHOLE_RUN: 7, 0: 2}, ["a", "b"], "k7f3aa") == (
        "throttled: at most 7 in all, 2 of 'a', 3 of 'b' at once; to lift it: longshore throttle k7f3aa --off"
    )


def test_a_throttle_by_label(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, WIDE, slow, capacity={"cpus": 8})
    running: list[int] = []
    write_intervention(sim.run, InterventionRecord(who="me", act="throttle", labels=("b",), set={"max": "1"}))
    write_intervention(sim.run, InterventionRecord(who="me", act="throttle", labels=("nobody",), set={"max": "1"}))

    def look(_: int) -> None:
        state = sim.state()
        running.append(sum(state.labels[job] == 1 for job in state.active))

    assert sim.engine(executor=Hooked(sim, look)).run() is JobState.SUCCEEDED
    sim.check()
    assert max(running) == 1


def test_the_newest_order_wins_even_when_the_clock_was_set_back(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=slow)
    first = write_intervention(sim.run, InterventionRecord(who="me", act="pause"))
    # As if it had been given by a clock an hour ahead.
    ahead = first.rename(first.with_name(f"{int(first.name[:20]) + 3600 * 10**9:020}-1.json"))
    last = write_intervention(sim.run, InterventionRecord(who="me", act="unpause"))
    assert last.name > ahead.name
    assert sim.engine().run() is JobState.SUCCEEDED


def test_a_pause_does_not_keep_a_cancelled_run_from_its_end(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, CHAIN, slow, written={"final": "last"}, submit_reply=answers(SubmitReply.ACCEPTED))
    hook = ordering(sim, (2, "pause", {}), (8, "cancel", {}))
    assert sim.engine(executor=Hooked(sim, hook)).run() is JobState.DELETED
    assert sim.codes() == ["DELETED", "DELETED", "DELETED", "SUCCEEDED"]
