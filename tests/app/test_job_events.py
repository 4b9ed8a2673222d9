"""The history of single jobs, picked out of a run's, says what the whole says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshore.app.job_events import JobEvents, event_lines, failed_once
from longshore.app.runs import OpenRun
from longshore.contract.context import RunPaths
from longshore.engine.follow import JournalFollower
from longshore.engine.job_codes import Code
from longshore.engine.job_table import JobTable
from longshore.engine.journal import read_events
from longshore.engine.loop import Engine
from longshore.engine.replay import replay
from longshore.engine.settings import EngineSettings
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.codec import encode_line
from longshore.model.event import Life, Seal, Started, Submitting
from longshore.testing.fakes import FakeClock, FakeExecutor, FakeManager, Outcome, write_run
from longshore.world.rundir import read_card


def a_run(root: Path, random: Random, *, final: bool) -> OpenRun:
    """A run of random shape and luck that came to its end, and was then restarted."""
    names = [f"{label}_{number}" for number in range(12) for label in "ab"]
    jobs = {
        name: tuple(random.sample(names[:place], min(place, random.randrange(3)))) for place, name in enumerate(names)
    }
    profiles = {label: {"number_of_retries": random.randrange(2)} for label in "ab"}
    run = write_run(root, jobs, profiles=profiles, final="last" if final else None)
    manager = FakeManager(
        FakeClock(), lambda _job, _attempt: Outcome(run_s=random.uniform(1, 9), exit=random.choice([0, 0, 0, 3]))
    )
    for by in ("submit", "restart"):
        executor = FakeExecutor(manager)
        engine = Engine(run, executor, EngineSettings(), clock=manager.clock, by=by, say=lambda _: None)
        if by == "restart":
            engine.restart()
        engine.run()
    return OpenRun(run=run, card=read_card(run))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), final=st.booleans())
def test_the_fold_of_a_part_is_that_of_the_whole(
    seed: int, final: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened = a_run(tmp_path_factory.mktemp("part") / "run", Random(seed), final=final)
    table = JobTable(opened.run)
    lines = event_lines(opened)
    whole = replay(table, read_events(opened.run.journal))
    for job in range(len(table)):
        line = table.ancestors(job)
        read = JobEvents(lines, set(line))
        part = replay(table, read.events, line)
        attempts = read.attempts({job})
        for each in line:
            assert part.code[each] == whole.code[each]
            assert part.attempts[each] == whole.attempts[each]
            assert part.tries[each] == whole.tries[each]
        known = attempts.of(job)
        assert [attempt.number for attempt in known] == list(range(1, whole.attempts[job] + 1))
        assert all(attempt.ended_at is not None for attempt in known)
        if known:
            assert (known[-1].cause is None) == (whole.code[job] == Code.SUCCEEDED)
    assert set(failed_once(lines)) >= {job for job in range(len(table)) if whole.code[job] == Code.FAILED}


def test_what_is_active_is_known(tmp_path: Path) -> None:
    opened = a_run(tmp_path / "run", Random(7), final=False)
    lines = event_lines(opened)
    assert JobEvents(lines, set()).active() == {}
    handed = encode_line(Submitting(b="x", tag="x", jobs=((3, 9),)))
    assert JobEvents([*lines, handed], set()).active().keys() == {3}


def life(number: int, seals: Seal | None = None) -> Life:
    return Life(v=1, life=number, t=1.0, host="h", pid=1, boot="b", by="submit", seals=seals)


def started(number: int) -> Started:
    return Started(n=number, t=2.0, j=0, a=number)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[int, bytes], None]:
    """Appends to the file of a life."""
    RunPaths(tmp_path).journal.mkdir()

    def append(number: int, text: bytes) -> None:
        with (RunPaths(tmp_path).journal / f"{number:04}.jsonl").open("ab") as file:
            file.write(text)

    return append


def test_following_reads_each_event_once_and_none_that_is_void(
    tmp_path: Path, write: Callable[[int, bytes], None]
) -> None:
    follower = JournalFollower(RunPaths(tmp_path).journal)
    assert follower.read() == []
    first = encode_line(life(1)) + encode_line(started(1))
    write(1, first + b'{"e":"started","n":2,')
    assert follower.read() == [life(1), started(1)]
    assert follower.read() == [], "the last line is not whole yet"
    second = life(2, Seal(life=1, bytes=len(first)))
    write(2, encode_line(second))
    write(1, b'"t":2.0,"j":0,"a":2}\n')
    assert follower.read() == [second], "what was written behind the seal is void"
    write(2, encode_line(started(3)))
    assert follower.read() == [started(3)]
    write(2, b"nonsense\n")
    with pytest.raises(RunUnreadableError, match="is no event"):
        follower.read()


def test_a_run_that_is_removed_while_it_is_followed(tmp_path: Path, write: Callable[[int, bytes], None]) -> None:
    follower = JournalFollower(RunPaths(tmp_path).journal)
    write(1, encode_line(life(1)))
    follower.read()
    (RunPaths(tmp_path).journal / "0001.jsonl").unlink()
    with pytest.raises(RunNotFoundError, match="is gone"):
        follower.read()
