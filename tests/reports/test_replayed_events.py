"""A replay that is stored after some events and continued gives what a replay of all events gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.journal_lines import lines_of
from tests.reports.histories import Step, history, steps_of_runs
from tests.written_run import NOW, WrittenRun, course

from longshore.contract.service import RunPaths
from longshore.model.event import (
    AttemptFacts,
    BriefEvent,
    Event,
    Steer,
)
from longshore.model.report import JobReport, RunReport
from longshore.model.states import JobState
from longshore.model.workflow import Barrier
from longshore.reports import replay as replayed_events
from longshore.reports.job_reports import JobReports
from longshore.reports.replay import (
    ReplayedEvents,
    StoredReplay,
    cache_replay,
    decode_array,
    encode_array,
    encode_replay,
    read_cached_replay,
)
from longshore.reports.report import report_run
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import read_since
from longshore.rundir.run_directory import read_cached
from longshore.runstate.open_run import OpenRun
from longshore.runstate.run_state import RunState

MANY = 20_000


def stored(replayed: ReplayedEvents) -> StoredReplay:
    """What a reader finds of a replay."""
    with replayed.stored() as replay:
        text = msgspec.msgpack.encode(replay, enc_hook=encode_array)
    return msgspec.msgpack.decode(text, type=StoredReplay, dec_hook=decode_array)


def contents(replayed: ReplayedEvents) -> list[dict[str, Any]]:
    """All that a replay holds, but what only an engine uses."""
    state, attempts, newest = replayed.state, replayed.attempts, replayed.attempts.newest
    assert newest is not None
    found = [vars(state).copy(), vars(attempts).copy(), vars(newest).copy(), {"last": replayed.last_position}]
    for name in ("newly_ready", "barriers", "newly_inactive"):
        del found[0][name]
    del found[1]["newest"]
    # Texts that reports share: those of hosts that no newest attempt has any more need not be kept.
    del found[2]["shared_hosts"]
    # Not a number is not equal to itself.
    return [
        {name: list(map(repr, value)) if name.endswith(("_s", "_times")) else value for name, value in each.items()}
        if each.get("start_times")
        else each
        for each in found
    ]


def replay(replayed: ReplayedEvents, events: Sequence[BriefEvent], *, pieces: int = 7) -> ReplayedEvents:
    for begin in range(0, len(events), pieces):
        replayed.add(events[begin : begin + pieces])
    return replayed


@given(steps_of_runs, st.integers(0, 60))
@example([("submitting", 0, 1), ("started", 0, 1), ("submitting", 0, 2)], 3)
def test_a_stored_replay_goes_on_as_one_that_was_not(table: JobTable, steps: list[Step], cut: int) -> None:
    events = history(*steps)
    whole = replay(ReplayedEvents.before_the_first(table, newest=True), events)
    first = replay(ReplayedEvents.before_the_first(table, newest=True), events[:cut])
    kept = stored(first)
    later = replay(ReplayedEvents.continue_from(kept, table), events[cut:])
    # The one that was stored goes on too.
    replay(first, events[cut:])
    for each in (whole, first, later):
        each.finish()
    assert contents(first) == contents(whole)
    assert contents(later) == contents(whole)


def test_every_attribute_is_stored_or_known_from_elsewhere(table: JobTable) -> None:
    replayed = ReplayedEvents.before_the_first(table, newest=True)
    forms: dict[Any, object] = {
        replayed_events._StoredState: replayed.state,
        replayed_events._StoredAttempts: replayed.attempts,
        replayed_events._StoredNewest: replayed.attempts.newest,
    }
    for form, source in forms.items():
        assert {*form.__struct_fields__} | form.derived == {*vars(source)}
        assert form.derived.isdisjoint(form.__struct_fields__)


def test_a_run_with_barriers_or_without_newest_attempts_is_not_stored(table: JobTable) -> None:
    barriers = [Barrier(name="one", title="one", after=(0,), before=(5,), blocking=True)]
    plain = ReplayedEvents.before_the_first(table, newest=True)
    grouped = ReplayedEvents(RunState(table.parents, table.label_of, barriers=barriers), plain.attempts)
    for replayed in (grouped, ReplayedEvents.before_the_first(table, newest=False)):
        with replayed.stored() as replay:
            assert replay is None


# --------------------------------------------------------------------------------------------------------- in the cache


def look(run: WrittenRun) -> RunReport:
    report = report_run(OpenRun(run=run.run, card=run.opened.card), details=True, now=NOW + 100)
    return msgspec.structs.replace(report, jobs=list(report.jobs or ()))


def tell(run: WrittenRun, events: Sequence[Event]) -> None:
    for event in events:
        run.write(event)


def cache(run: WrittenRun, *, host: str = "cached") -> None:
    """Cache the replay of all events so far, as that of a longer run, with a host that shows where it is from."""
    events, mark = read_since(run.run.journal)
    replayed = ReplayedEvents.before_the_first(JobTable(run.run, "parents"), newest=True)
    replayed.add(list(events))
    text = encode_replay(run.opened, replayed, mark=mark, number=MANY)
    assert text
    cache_replay(run.opened, text.replace(b"\xa4here", b"\xa4" + host.encode()[:4]))


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    """A run in the middle of its course, whose replay is cached."""
    made = WrittenRun(tmp_path / "run")
    made.begin()
    tell(made, course()[:13])
    cache(made)
    return made


def hosts(report: RunReport) -> set[str | None]:
    return {job.host for job in report.jobs or ()} - {None}


def test_a_report_goes_on_from_the_cached_replay(run: WrittenRun) -> None:
    assert hosts(look(run)) == {"cach"}
    tell(run, course()[13:])
    found = look(run)
    assert hosts(found) == {"cach", "here"}
    (run.run.cache / "replay.msgpack").unlink()
    anew = look(run)
    assert hosts(anew) == {"here"}
    assert found.counts == anew.counts
    assert found.summary == anew.summary
    assert [job.state for job in found.jobs or ()] == [job.state for job in anew.jobs or ()]


def was_handed_over_again(run: WrittenRun) -> None:
    run.opened = OpenRun(run=run.run, card=msgspec.structs.replace(run.opened.card, name="another"))


def has_another_workflow(run: WrittenRun) -> None:
    run.run.workflow.write_bytes(run.run.workflow.read_bytes() + b"\n")


def lost_its_end(run: WrittenRun) -> None:
    run.journal.write_bytes(run.journal.read_bytes()[:-9])


def was_sealed_before(run: WrittenRun) -> None:
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.begin(seals=len(b"".join(lines[:-2])))


def tore_it(run: WrittenRun) -> None:
    path = run.run.cache / "replay.msgpack"
    path.write_bytes(path.read_bytes()[:-9])


def is_of_another_version(run: WrittenRun) -> None:
    replay = read_cached(run.run, "replay.msgpack")
    assert b"\xa6format\x04" in replay
    cache_replay(run.opened, replay.replace(b"\xa6format\x04", b"\xa6format\x7f"))


def has_a_changed_number(run: WrittenRun) -> None:
    path = run.run.cache / "replay.msgpack"
    replay = bytearray(path.read_bytes())
    replay[replay.index(b"counts") + 12] ^= 1
    path.write_bytes(replay)


def was_brought_back_without_its_cache(run: WrittenRun) -> None:
    """Begin the life anew a moment later, as an engine does after a journal from a copy."""
    run.journal.unlink()
    run.life = 0
    run.begin(t=NOW + 0.25)
    tell(run, course())


def lost_a_line_that_was_read(run: WrittenRun) -> None:
    text = run.journal.read_bytes()
    run.journal.write_bytes(text.replace(b'"here"', b'"gone"', 1))
    tell(run, course()[13:])


def got_late_facts(run: WrittenRun) -> None:
    """Cache a second life, and then write a late fact of the first one, in front of it."""
    first = run.journal
    size = first.stat().st_size
    run.begin(seals=size)
    cache(run)
    late = first.with_name("0001.late.jsonl")
    late.write_bytes(lines_of([AttemptFacts(n=14, t=NOW + 14, j=0, a=1, cpu_s=2.0)], first.read_bytes()))


@pytest.mark.parametrize(
    "happens",
    [
        got_late_facts,
        was_handed_over_again,
        has_another_workflow,
        lost_its_end,
        was_sealed_before,
        tore_it,
        is_of_another_version,
        has_a_changed_number,
        was_brought_back_without_its_cache,
        lost_a_line_that_was_read,
    ],
)
def test_a_cached_replay_of_anything_else_is_not_used(run: WrittenRun, happens: Callable[[WrittenRun], None]) -> None:
    happens(run)
    found = look(run)
    assert hosts(found) <= {"here"}
    (run.run.cache / "replay.msgpack").unlink()
    assert look(run) == found


def test_only_long_journals_that_are_whole_are_cached(run: WrittenRun) -> None:
    path = run.run.cache / "replay.msgpack"
    path.unlink()
    look(run)
    assert not path.exists(), "there are few events"
    events = [Steer(n=13 + n, t=NOW + 13 + n, who="ada", act="pause", set={"why": "lunch"}) for n in range(1, MANY)]
    with run.journal.open("ab") as file:
        file.write(lines_of(events, run.journal.read_bytes()))
    first = look(run)
    assert path.exists()
    found = read_cached_replay(OpenRun(run=run.run, card=run.opened.card))
    assert found is not None
    assert found.mark == f"1:{run.journal.stat().st_size}"
    assert look(run) == first
    path.unlink()
    with run.journal.open("ab") as file:
        file.write(b"no event\n")
    look(run)
    assert not path.exists(), "the journal is damaged"


def test_a_number_without_room_is_reported_and_not_cached(run: WrittenRun) -> None:
    events = [*course()[:3], msgspec.structs.replace(course()[3], exit=2**70)]
    replayed = ReplayedEvents.before_the_first(JobTable(run.run, "parents"), newest=True)
    replayed.add(events)
    _, mark = read_since(run.run.journal)
    assert encode_replay(run.opened, replayed, mark=mark, number=MANY) == b""
    replayed.finish()
    assert replayed.state.count_states()[JobState.SUCCEEDED] == 1


def test_a_start_without_a_time_after_the_end_has_no_time_in_the_report(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    steps = [(job, kind) for job in (0, 2, 4) for kind in ("submitting", "started", "ended")]
    # A batch has two jobs; the last steps are those of the second ones.
    steps += [(job, kind) for job in (1, 3, 5) for kind in ("started", "ended")] + [(0, "started somewhere")]
    tell(run, history(*((kind, job, 1) for job, kind in steps)))  # type: ignore[arg-type]
    report = report_run(OpenRun(run=run.run, card=run.opened.card), details=True, now=NOW + 100)
    assert isinstance(report.jobs, JobReports)
    rows = list(report.jobs.values(lambda at: at))
    assert {row[2] for row in rows} == {JobState.SUCCEEDED}
    assert rows[0][JobReport.__struct_fields__.index("started_at")] is None


def test_a_run_that_cannot_be_written_has_no_cached_replay(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    run.run.cache.write_text("in the way", "utf-8")
    cache_replay(run.opened, b"replay")
    assert read_cached_replay(run.opened) is None
    assert RunPaths(tmp_path / "run").cache.read_text("utf-8") == "in the way"
