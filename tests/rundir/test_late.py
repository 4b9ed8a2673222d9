"""Late events: facts of attempts that arrive after the end of a run continue the sealed life, and nothing else does."""

from __future__ import annotations

import logging
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import (
    ACCEPT_LOSS,
    FORMAT,
    AttemptFacts,
    Ended,
    Event,
    Finished,
    Life,
    Seal,
    Sealed,
    add_facts,
)
from longshore.model.states import JobState
from longshore.rundir.journal import (
    Journal,
    late_path,
    life_path,
    lives,
    measure_lives,
    next_life,
    read_events,
    read_late_lines,
    read_since,
)
from longshore.rundir.journal_damage import survey_journal


def write_run(folder: Path, *, jobs: int = 3) -> Journal:
    """Write the only life of a run that is over, without late events."""
    folder.mkdir(exist_ok=True)
    number, seal = next_life(folder)
    journal = Journal(folder, Life(v=FORMAT, life=number, t=1.0, host="h", pid=2, boot="b", by="resume"))
    journal.seal(seal, now=1.0)
    for job in range(jobs):
        journal.append(Ended(j=job, a=number, exit=0), now=3.0)
    end = journal.append(Finished(state=JobState.SUCCEEDED), now=4.0)
    assert isinstance(end, Finished)
    journal.commit()
    journal.seal_end(end)
    return journal


def write_late(journal: Journal, jobs: int) -> list[Event]:
    late = journal.begin_late()
    assert late is not None
    written = []
    for job in range(jobs):
        late.write([AttemptFacts(j=job, a=1, rss_b=job + 1)], now=5.0 + job)
        written.append(AttemptFacts(n=journal.number + 1 + job, t=5.0 + job, j=job, a=1, rss_b=job + 1))
    late.close()
    journal.close()
    return [*written]


def test_late_events_follow_the_end_and_continue_its_numbers(tmp_path: Path) -> None:
    journal = write_run(tmp_path / "journal")
    written = write_late(journal, 3)
    events = list(read_events(tmp_path / "journal"))
    assert events[-4:] == [events[-4], *written]
    assert isinstance(events[-4], Finished)
    assert len(lives(tmp_path / "journal")) == 1, "the file of late events is no life"


def test_a_run_that_is_not_over_has_no_late_events(tmp_path: Path) -> None:
    journal = Journal(tmp_path, Life(v=FORMAT, life=1, t=1.0, host="h", pid=2, boot="b", by="submit"))
    assert journal.begin_late() is None
    journal.close()


def test_a_reader_goes_on_behind_its_mark_among_late_events(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal = write_run(folder)
    before, mark = read_since(folder)
    assert isinstance(list(before)[-1], Finished)
    late = journal.begin_late()
    assert late is not None
    seen: list[Event] = []
    for job in range(3):
        late.write([AttemptFacts(j=job, a=1, cpu_s=0.5)], now=5.0)
        news, mark = read_since(folder, mark)
        seen += news
    late.close()
    journal.close()
    assert [event.j for event in seen if isinstance(event, AttemptFacts)] == [0, 1, 2]
    assert list(read_since(folder, mark)[0]) == []


def test_late_events_stay_with_their_life_when_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    write_late(write_run(folder), 2)
    write_run(folder).close()
    kinds = [type(event) for event in read_events(folder)]
    first = [Life, Ended, Ended, Ended, Finished, AttemptFacts, AttemptFacts]
    assert kinds == [*first, Life, Sealed, Ended, Ended, Ended, Finished]


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_damage_of_late_events_hides_only_them(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("late")
    written = write_late(write_run(folder), 3)
    path = late_path(folder, 1)
    text = bytearray(path.read_bytes())
    text[int(place * len(text))] ^= 1 << bit
    path.write_bytes(text)
    events = list(read_events(folder))
    late = [event for event in events if isinstance(event, AttemptFacts)]
    assert late == written[: len(late)]
    assert len(late) < len(written)
    assert len(events) == 5 + len(late)
    assert not survey_journal(folder).damages, "what happened in the run is known"


def test_damaged_late_events_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "journal"
    write_late(write_run(folder), 2)
    path = late_path(folder, 1)
    path.write_bytes(path.read_bytes().replace(b'"rss_b":2', b'"rss_b":3'))
    with caplog.at_level(logging.WARNING):
        assert len(list(read_events(folder))) == 6
    assert f"'{path}', line 2: it is not as it was written" in caplog.text
    assert "what some attempts used is not known" in caplog.text


def test_facts_fill_what_an_end_does_not_have() -> None:
    end = Ended(j=1, a=1, exit=0, run_s=2.0, extra={"tasks": "3"})
    facts = AttemptFacts(j=1, a=1, cpu_s=1.5, rss_b=7, extra={"QOS": "short"})
    found = Ended(j=1, a=1, exit=0, run_s=2.0, cpu_s=1.5, rss_b=7, extra={"tasks": "3", "QOS": "short"})
    assert add_facts(end, facts) == found
    assert add_facts(found, AttemptFacts(j=1, a=1)) == found


@pytest.mark.parametrize("kept", [0, 2])
def test_late_lines_are_lost_with_a_loss_that_is_accepted(tmp_path: Path, kept: int) -> None:
    folder = tmp_path / "journal"
    write_late(write_run(folder), 2)
    intact = b"".join(life_path(folder, 1).read_bytes().splitlines(keepends=True)[:kept])
    life_path(folder, 1).write_bytes(intact + b"x\n")
    (folder / "end.json").unlink()
    accepted = Journal(folder, Life(v=FORMAT, life=2, t=1.0, host="h", pid=2, boot="b", by=ACCEPT_LOSS))
    accepted.append(Sealed(lives=(Seal(life=1, bytes=len(intact), crc=crc32(intact)),)), now=1.0)
    accepted.commit()
    accepted.close()
    assert [read_late_lines(extent) for extent in measure_lives(folder)] == [None, None]
    assert not any(isinstance(event, AttemptFacts) for event in read_events(folder))


def test_late_lines_of_a_whole_life_are_damage_if_they_do_not_continue_it(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    write_late(write_run(folder), 2)
    late = late_path(folder, 1)
    late.write_bytes(b"".join(late.read_bytes().splitlines(keepends=True)[1:]))
    write_run(folder).close()
    first, _ = measure_lives(folder)
    found = read_late_lines(first)
    assert found is not None
    assert (found.lines, found.damage is not None) == (b"", True)
