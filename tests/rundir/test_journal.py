"""The journal: a file per life, seals, torn lines, full disks, and two engines that begin at once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.disk import room_for

from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.model.event import FORMAT, Ended, Event, Finished, Life, LossAccepted, Lost, Seal, Sealed, Started
from longshore.model.json_lines import encode_line
from longshore.model.report import DamagedError
from longshore.model.states import JobState
from longshore.rundir.journal import Journal, count_fruitless_lives, life_path, lives, next_life, read_events


def life_of(number: int, seal: Seal | None = None, *, version: int = FORMAT) -> Life:
    return Life(v=version, life=number, t=1.0, host="h", pid=2, boot="b", by="resume", seals=seal)


def begin(folder: Path) -> Journal:
    return Journal(folder, life_of(*next_life(folder)))


def write_life(folder: Path, jobs: Sequence[int]) -> list[Event]:
    """Write a whole life of some events, and return them with its first."""
    number, seal = next_life(folder)
    life = life_of(number, seal)
    journal = Journal(folder, life)
    events = [journal.append(Lost(j=job, a=1, why="gone ünd"), now=float(job)) for job in jobs]
    journal.commit()
    journal.close()
    return [life, *events]


def size_of(path: Path) -> int:
    return path.stat().st_size


def test_a_run_without_a_journal_has_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "journal")) == []
    assert lives(tmp_path / "journal") == []
    assert next_life(tmp_path) == (1, None)


def test_events_come_back_numbered_and_dated_in_the_order_of_their_lives(tmp_path: Path) -> None:
    written = [*write_life(tmp_path, [1, 2]), *write_life(tmp_path, []), *write_life(tmp_path, [3])]
    assert list(read_events(tmp_path)) == written
    assert [event.n for event in written if not isinstance(event, Life)] == [1, 2, 1]
    assert [number for number, _ in lives(tmp_path)] == [1, 2, 3]
    assert sorted(os.listdir(tmp_path)) == ["0001.jsonl", "0002.jsonl", "0003.jsonl"]


def test_other_files_are_no_lives(tmp_path: Path) -> None:
    written = write_life(tmp_path, [1])
    for name in (".0002.jsonl.77", "notes.jsonl", "0002.txt"):
        (tmp_path / name).write_text("?")
    assert list(read_events(tmp_path)) == written


def test_lives_are_ordered_by_number_not_by_name(tmp_path: Path) -> None:
    for number in (9_999, 10_000):
        Journal(tmp_path, life_of(number)).close()
    assert [number for number, _ in lives(tmp_path)] == [9_999, 10_000]


def test_what_is_appended_is_there_after_a_commit(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    event = journal.append(Started(j=1, a=1), now=5.0)
    assert (event.t, journal.number) == (5.0, 1)
    assert len(list(read_events(tmp_path))) == 1
    journal.flush()
    journal.commit()
    journal.commit()
    assert list(read_events(tmp_path))[1:] == [event]
    journal.close()


def test_a_torn_last_line_is_ignored_and_sealed_away(tmp_path: Path) -> None:
    written = write_life(tmp_path, [1, 2])
    path = tmp_path / "0001.jsonl"
    whole = size_of(path)
    with path.open("ab") as file:
        file.write(encode_line(Lost(j=3, a=1, why="torn"))[:-1])
    assert list(read_events(tmp_path)) == written
    assert next_life(tmp_path) == (2, Seal(life=1, bytes=whole, crc=crc32(path.read_bytes()[:whole])))
    written += write_life(tmp_path, [4])
    assert list(read_events(tmp_path)) == written


def test_what_a_superseded_life_still_writes_is_void(tmp_path: Path) -> None:
    old = begin(tmp_path)
    kept = old.append(Started(j=1, a=1), now=1.0)
    old.commit()
    known = [old.superseded]
    new = begin(tmp_path)
    assert [*known, old.superseded, new.superseded] == [False, True, False]
    old.append(Started(j=2, a=1), now=2.0)
    old.commit()
    assert [event for event in read_events(tmp_path) if not isinstance(event, Life)] == [kept]
    old.close()
    new.close()


def test_a_seal_to_be_holds_before_it_is_written(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    journal.append(Started(j=1, a=1), now=1.0)
    journal.commit()
    _, seal = next_life(tmp_path)
    journal.append(Started(j=2, a=1), now=1.0)
    journal.commit()
    journal.close()
    assert len(list(read_events(tmp_path))) == 3
    assert len(list(read_events(tmp_path, seal=seal))) == 2


def test_of_two_engines_that_begin_at_once_one_gives_way(tmp_path: Path) -> None:
    write_life(tmp_path, [1])
    number, seal = next_life(tmp_path)
    first = Journal(tmp_path, life_of(number, seal))
    with pytest.raises(SubmissionRefusedError, match="another engine has just taken this run up"):
        Journal(tmp_path, life_of(number, seal))
    assert sorted(os.listdir(tmp_path)) == ["0001.jsonl", "0002.jsonl"]
    assert not first.superseded
    first.close()


def test_a_disk_full_in_the_middle_of_a_line_loses_nothing(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    path = tmp_path / "0001.jsonl"
    events = [journal.append(Ended(j=1, a=1, exit=0), now=1.0)]
    with room_for(size_of(path) + 11):
        for _ in range(2):
            with pytest.raises(OSError, match="File too large"):
                journal.commit()
        assert not path.read_bytes().endswith(b"\n")
        events.append(journal.append(Ended(j=2, a=1, exit=0), now=1.0))
    assert len(list(read_events(tmp_path))) == 1
    journal.commit()
    journal.close()
    assert list(read_events(tmp_path))[1:] == events


def test_a_life_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    with room_for(20), pytest.raises(OSError, match="File too large"):
        begin(tmp_path)
    assert os.listdir(tmp_path) == []
    begin(tmp_path).close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path, life_of(1, version=FORMAT + 1)).close()
    with pytest.raises(RunUnreadableError, match=f"has format {FORMAT + 1}; this Longshore reads up to {FORMAT}"):
        list(read_events(tmp_path))


@pytest.mark.parametrize("line", [b'{"e":"explode"}\n', b"\n", b"{\n", b'{"e":"lost","j":1,"a":1,"why":"\xff"}\n'])
def test_a_line_that_is_no_event_is_refused(tmp_path: Path, line: bytes) -> None:
    write_life(tmp_path, [1])
    with (tmp_path / "0001.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(DamagedError, match=r"0001\.jsonl', line 3: it is not as it was written"):
        list(read_events(tmp_path))


def test_a_file_must_begin_with_a_life(tmp_path: Path) -> None:
    (tmp_path / "0001.jsonl").write_bytes(encode_line(Started(j=1, a=1)))
    with pytest.raises(RunUnreadableError, match="does not begin with the event 'life'"):
        list(read_events(tmp_path))


job_lists = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=3)


@settings(max_examples=examples(60))
@given(job_lists, st.data())
def test_what_is_read_of_a_cut_journal_is_a_prefix(jobs: list[list[int]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = [event for these in jobs for event in write_life(folder, these)]
        path = lives(folder)[-1][1]
        first = path.read_bytes().index(b"\n") + 1
        os.truncate(path, data.draw(st.integers(first, size_of(path))))
        read = list(read_events(folder))
        assert read == written[: len(read)]
        assert len(read) >= len(written) - len(jobs[-1])
        # Whoever goes on from there builds upon exactly what was read.
        read += write_life(folder, [5])
        assert list(read_events(folder)) == read


@settings(max_examples=examples(40))
@given(st.data())
def test_a_cut_that_takes_what_was_sealed_is_refused(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_life(folder, [1, 2])
        write_life(folder, [3])
        path = folder / "0001.jsonl"
        os.truncate(path, data.draw(st.integers(0, size_of(path) - 1)))
        with pytest.raises(RunUnreadableError):
            list(read_events(folder))


def begun(folder: Path) -> tuple[Journal, Seal | None]:
    """A life that has begun and not yet sealed the one before."""
    number, seal = next_life(folder)
    return Journal(folder, life_of(number)), seal


def test_a_life_is_sealed_as_it_was_when_the_next_had_begun(tmp_path: Path) -> None:
    older, _ = begun(tmp_path)
    before = older.append(Lost(j=1, a=1, why="before"), now=1.0)
    older.commit()
    newer, seen = begun(tmp_path)
    between = older.append(Lost(j=2, a=1, why="between"), now=2.0)
    older.commit()
    assert newer.seal(seen, now=3.0) == [between]
    older.append(Lost(j=3, a=1, why="after"), now=4.0)
    older.commit()
    newer.commit()
    kept = [event for event in read_events(tmp_path) if isinstance(event, Lost)]
    assert kept == [before, between]


def test_a_line_that_is_being_written_is_not_sealed_in(tmp_path: Path) -> None:
    older, _ = begun(tmp_path)
    with (tmp_path / "0001.jsonl").open("ab") as file:
        file.write(b'{"e":"lost","j":1')
    newer, seen = begun(tmp_path)
    assert newer.seal(seen, now=1.0) == []
    newer.commit()
    older.append(Lost(j=3, a=1, why="after"), now=4.0)
    older.commit()
    assert not [event for event in read_events(tmp_path) if isinstance(event, Lost)]


def test_a_life_that_died_before_it_could_seal_has_its_work_done_by_the_next(tmp_path: Path) -> None:
    first, _ = begun(tmp_path)
    kept = first.append(Lost(j=1, a=1, why="kept"), now=1.0)
    first.commit()
    begun(tmp_path)[0].close()
    third, seen = begun(tmp_path)
    assert third.seal(seen, now=2.0) == []
    third.commit()
    first.append(Lost(j=2, a=1, why="void"), now=3.0)
    first.commit()
    assert [event for event in read_events(tmp_path) if isinstance(event, Lost)] == [kept]


def test_a_seal_that_was_written_too_late_is_void_itself(tmp_path: Path) -> None:
    first, _ = begun(tmp_path)
    second, seen = begun(tmp_path)
    third, seen_by_third = begun(tmp_path)
    kept = first.append(Lost(j=1, a=1, why="kept"), now=1.0)
    first.commit()
    third.seal(seen_by_third, now=2.0)
    third.commit()
    first.append(Lost(j=2, a=1, why="void"), now=3.0)
    first.commit()
    second.seal(seen, now=4.0)
    second.commit()
    assert [event for event in read_events(tmp_path) if isinstance(event, Lost)] == [kept]


def test_lives_without_news_of_any_job_are_counted(tmp_path: Path) -> None:
    assert count_fruitless_lives(tmp_path) == 0
    for _ in range(2):
        write_life(tmp_path, [])
    assert count_fruitless_lives(tmp_path) == 2
    write_life(tmp_path, [1])
    assert count_fruitless_lives(tmp_path) == 0
    for _ in range(3):
        journal, seen = begun(tmp_path)
        journal.seal(seen, now=1.0)
        journal.commit()
    assert count_fruitless_lives(tmp_path) == 3


def test_lines_behind_an_accepted_loss_do_not_keep_lives_from_being_counted(tmp_path: Path) -> None:
    write_life(tmp_path, [1])
    damaged = life_path(tmp_path, 1)
    intact = damaged.read_bytes().splitlines(keepends=True)[0]
    damaged.write_bytes(intact + b"{no event\n")
    accepted, _ = begun(tmp_path)
    accepted.append(Sealed(lives=(Seal(life=1, bytes=len(intact), crc=crc32(intact)),)), now=1.0)
    accepted.commit()
    assert count_fruitless_lives(tmp_path) == 2
    accepted.append(LossAccepted(who="user", losses=("a line",)), now=2.0)
    accepted.commit()
    # The user has changed something: the engines before do not count.
    assert count_fruitless_lives(tmp_path) == 0


def test_journals_that_were_sealed_by_their_first_event_are_read(tmp_path: Path) -> None:
    written = write_life(tmp_path, [1, 2])
    size = size_of(tmp_path / "0001.jsonl")
    Journal(tmp_path, life_of(2, Seal(life=1, bytes=size))).close()
    with (tmp_path / "0001.jsonl").open("ab") as file:
        file.write(encode_line(Lost(j=9, a=1, why="void")))
    assert list(read_events(tmp_path))[:-1] == written


def test_a_journal_takes_no_event_behind_the_seal_of_the_end(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    end = journal.append(Finished(state=JobState.SUCCEEDED), now=5.0)
    assert isinstance(end, Finished)
    journal.commit()
    journal.seal_end(end)
    with pytest.raises(ValueError, match="is sealed, and takes no event: Lost"):
        journal.append(Lost(j=0, a=1, why="gone"), now=6.0)
    journal.close()
    assert list(read_events(tmp_path))[-1] == end
    with begin_next(tmp_path) as later:
        later.append(Lost(j=0, a=1, why="gone"), now=7.0)
        later.commit()
    assert [type(event) for event in read_events(tmp_path)] == [Life, Finished, Life, Sealed, Lost]


@contextmanager
def begin_next(folder: Path) -> Iterator[Journal]:
    """A life after others, which seals them."""
    number, seal = next_life(folder)
    journal = Journal(folder, life_of(number))
    journal.seal(seal, now=6.5)
    yield journal
    journal.close()
