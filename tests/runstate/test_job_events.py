"""A replay of the events of some jobs equals the replay of all events for these jobs."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.contract.executor import Limits
from longshore.engine.run.loop import Engine
from longshore.engine.settings import EngineSettings
from longshore.errors import RunUnreadableError
from longshore.model.event import Ended, Event, Failed, Life, Refused, Restarted, Submitted, Submitting
from longshore.model.json_lines import encode_line
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.reports.attempts import attempts_of
from longshore.reports.explain import JobReplay
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import read_events
from longshore.rundir.run_directory import read_card
from longshore.runstate.events import active_requests, event_blocks, events_of_jobs, jobs_failed_once
from longshore.runstate.open_run import OpenRun
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run


def a_run(root: Path, random: Random, *, final: bool) -> OpenRun:
    """A run of random shape and luck that came to its end, and was then restarted."""
    names = [f"{label}_{number}" for number in range(12) for label in "ab"]
    jobs = {
        name: tuple(random.sample(names[:place], min(place, random.randrange(3)))) for place, name in enumerate(names)
    }
    profiles = {label: {"number_of_retries": random.randrange(2)} for label in "ab"}
    run = write_run(root, jobs, profiles=profiles, final="last" if final else None)
    manager = FakeManager(
        FakeClock(), lambda _job, _attempt: AttemptOutcome(run_s=random.uniform(1, 9), exit=random.choice([0, 0, 0, 3]))
    )
    for by in ("submit", "restart"):
        executor = FakeExecutor(manager, limits=Limits(max_batch=random.choice([1, 4])))
        engine = Engine(run, executor, EngineSettings(), clock=manager.clock, by=by, log_line=lambda _: None)
        if by == "restart":
            engine.restart()
        engine.run()
    return OpenRun(run=run, card=read_card(run))


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 10**6), final=st.booleans())
def test_a_replay_of_some_jobs_equals_that_of_all(
    seed: int, final: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened = a_run(tmp_path_factory.mktemp("part") / "run", Random(seed), final=final)
    table = JobTable(opened.run)
    blocks = event_blocks(opened)
    whole = replay(table, read_events(opened.run.journal))
    for job in range(len(table)):
        line = table.ancestors(job)
        events = events_of_jobs(blocks, set(line))
        part = replay(table, events, line)
        attempts = attempts_of(table, {job}, events)
        for each in line:
            assert part.code[each] == whole.code[each]
            assert part.attempts[each] == whole.attempts[each]
            assert part.tries[each] == whole.tries[each]
        known = attempts.of(job)
        assert [attempt.number for attempt in known] == list(range(1, whole.attempts[job] + 1))
        assert all(attempt.ended_at is not None for attempt in known)
        if known:
            assert (known[-1].cause is None) == (whole.code[job] == JobCode.SUCCEEDED)
    assert set(jobs_failed_once(blocks)) >= {job for job in range(len(table)) if whole.code[job] == JobCode.FAILED}


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), final=st.booleans())
def test_joined_events_of_all_jobs_tell_the_same_of_a_job(
    seed: int, final: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dice = Random(seed)
    opened = a_run(tmp_path_factory.mktemp("joined") / "run", dice, final=final)
    table = JobTable(opened.run)
    lines = b"".join(event_blocks(opened)).splitlines(keepends=True)
    end = dice.randrange(len(lines) + 1)
    blocks = [b"".join(lines[: end // 2]), b"".join(lines[end // 2 : end])]
    for job in range(len(table)):
        few, all_joined = (JobReplay(table, blocks, job, small=small) for small in (len(table), -1))
        ancestry = table.ancestors(job)
        for values in ("code", "attempts", "tries", "waiting"):
            one, other = getattr(few.state, values), getattr(all_joined.state, values)
            assert [one[each] for each in ancestry] == [other[each] for each in ancestry], values
        # An explanation has all attempts and events of the job, and the attempts of ancestors that did not succeed.
        chosen = {job, *(each for each in ancestry if few.state.code[each] != JobCode.SUCCEEDED)}
        attempts = [attempts_of(table, chosen, each.events_of(chosen)) for each in (few, all_joined)]
        for each in chosen:
            assert attempts[0].of(each) == attempts[1].of(each)
        assert [event for event in few.events_of(chosen) if concerns(event, job)] == [
            event for event in all_joined.events_of(chosen) if concerns(event, job)
        ]


def test_an_ancestor_that_succeeded_before_it_failed_keeps_both_attempts(tmp_path: Path) -> None:
    table = JobTable(write_run(tmp_path / "run", {"a_1": (), "b_1": ("a_1",)}))
    events: list[Event] = [Life(v=3, life=1, t=1.0, host="here", pid=1, boot="b", by="submit")]
    for attempt, end in ((1, Ended(j=0, a=1, run_s=2.0)), (2, Ended(j=0, a=2, run_s=3.0, cause=Cause.EXIT, exit=1))):
        batch = f"x{attempt}"
        events += [Submitting(b=batch, tag="x", jobs=((0, attempt),)), Submitted(b=batch, id="7"), end]
        events.append(
            Restarted(order="o", who="ada", jobs=(0,)) if attempt == 1 else Failed(j=0, why="no attempt left")
        )
    replayed = JobReplay(table, [b"".join(map(encode_line, events))], 1, small=0)
    assert (replayed.state.code[0], replayed.state.code[1]) == (JobCode.FAILED, JobCode.PRUNED)
    assert [attempt.run_s for attempt in attempts_of(table, {0, 1}, replayed.events_of({0, 1})).of(0)] == [2.0, 3.0]


def concerns(event: Event, job: int) -> bool:
    members = [each if isinstance(each, int) else each[0] for each in getattr(event, "jobs", None) or ()]
    return getattr(event, "j", None) == job or job in members


def test_requests_of_active_jobs(tmp_path: Path) -> None:
    opened = a_run(tmp_path / "run", Random(7), final=False)
    blocks = event_blocks(opened)
    assert active_requests(blocks) == {}
    handed = encode_line(Submitting(b="x", tag="x", jobs=((3, 9), (4, 2), (5, 1)), request=Request(cpus=2)))
    blocks.append(handed + encode_line(Ended(j=4, a=2)))
    assert active_requests(blocks) == {3: Request(cpus=2), 5: Request(cpus=2)}
    blocks.append(encode_line(Refused(b="x", why="no room", jobs=((5, 1),))))
    assert active_requests(blocks).keys() == {3}
    blocks.append(encode_line(Refused(b="x", why="no room")))
    assert active_requests(blocks) == {}


def test_a_line_that_is_no_event_is_an_error() -> None:
    for line in (b"{\n", b"\n", b'{"e":"started","j":"x"}\n'):
        with pytest.raises(RunUnreadableError, match="a line that is no event"):
            events_of_jobs([encode_line(Submitting(b="x", tag="x", jobs=())) + line], {0})


@pytest.mark.parametrize("job", [-(10**18), -24, 10**18])
def test_an_end_of_a_job_that_no_engine_writes_makes_the_run_unreadable(job: int, tmp_path: Path) -> None:
    table = JobTable(write_run(tmp_path / "run", {"a_1": ()}))
    events = [Ended(n=1, t=8.0, j=job, a=1, run_s=6.0)]
    with pytest.raises(RunUnreadableError, match="names jobs that"):
        attempts_of(table, {0}, events)
