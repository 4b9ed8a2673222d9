"""Damage of a journal is found by every reader, which yields what precedes it, and names file and line."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal_lines import lines_of

from longshore.model.event import FORMAT, Ended, Event, Finished, Life, Started
from longshore.model.report import DamagedError
from longshore.model.states import JobState
from longshore.rundir.journal import (
    EndSeal,
    Journal,
    lives,
    next_life,
    read_end_seal,
    read_events,
    read_since,
    write_end_seal,
)
from longshore.rundir.journal_damage import survey_journal


def write_life(folder: Path, jobs: int, *, over: bool = False) -> None:
    """Write a life of an engine that starts and ends some jobs; the last life of a run seals its end."""
    number, seen = next_life(folder)
    journal = Journal(folder, Life(v=FORMAT, life=number, t=1.0, host="h", pid=2, boot="b", by="resume"))
    journal.seal(seen, now=1.0)
    for job in range(jobs):
        journal.append(Started(j=job, a=number), now=2.0)
        journal.append(Ended(j=job, a=number, exit=0), now=3.0)
    if over:
        journal.append(Finished(state=JobState.SUCCEEDED), now=4.0)
    journal.commit()
    if over:
        journal.seal_end(Finished(t=4.0, state=JobState.SUCCEEDED))
    journal.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run that is over, in three lives."""
    folder = tmp_path_factory.mktemp("whole")
    write_life(folder, 3)
    write_life(folder, 2)
    write_life(folder, 4, over=True)
    return folder


@pytest.fixture
def journal(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(whole, tmp_path / "journal")


def read_to_damage(folder: Path) -> tuple[list[Event], DamagedError | None]:
    read: list[Event] = []
    try:
        for event in read_events(folder):
            read.append(event)  # noqa: PERF402 - what precedes an error is kept
    except DamagedError as error:
        return read, error
    return read, None


def test_an_intact_journal_is_read_whole(whole: Path) -> None:
    read, error = read_to_damage(whole)
    assert error is None
    assert len(read) == 7 + 6 + 11
    end = read_end_seal(whole)
    assert end is not None
    assert (end.life, end.n, end.bytes) == (3, 10, (whole / "0003.jsonl").stat().st_size)


@given(st.integers(1, 3), st.data())
def test_a_changed_line_is_named_and_what_precedes_it_is_read(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, life: int, data: st.DataObject
) -> None:
    folder = shutil.copytree(whole, tmp_path_factory.mktemp("run") / "journal")
    intact = list(read_events(whole))
    path = folder / f"{life:04}.jsonl"
    text = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(text)
    read, error = read_to_damage(folder)
    assert error is not None
    assert error.damage.path == str(path)
    assert read == intact[: len(read)]


@pytest.mark.parametrize("name", ["².jsonl", "٣.jsonl", "x.jsonl"])
def test_a_file_without_the_number_of_a_life_is_none(journal: Path, name: str) -> None:
    (journal / name).write_bytes(b"{}\n")
    assert [life for life, _ in lives(journal)] == [1, 2, 3]
    assert read_to_damage(journal)[1] is None


@pytest.mark.parametrize("life", [1, 2, 3])
@pytest.mark.parametrize("change", ["drop", "swap", "repeat", "cut", "insert"])
def test_lines_that_are_not_where_they_were_are_damage(journal: Path, life: int, change: str) -> None:
    path = journal / f"{life:04}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(len(lines) - 1):
        changed = {
            "drop": [*lines[:at], *lines[at + 1 :]],
            "swap": [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
            "repeat": [*lines[: at + 1], *lines[at:]],
            "cut": lines[: at + 1],
            "insert": [*lines[: at + 1], b'{"e":"lost","n":7,"t":1.0,"j":1,"a":1,"why":"?"}\n', *lines[at + 1 :]],
        }
        path.write_bytes(b"".join(changed[change]))
        _, error = read_to_damage(journal)
        assert error is not None, at
        assert str(path) in error.message


@pytest.mark.parametrize("life", [1, 2, 3])
def test_a_missing_life_is_damage(journal: Path, life: int) -> None:
    (journal / f"{life:04}.jsonl").unlink()
    read, error = read_to_damage(journal)
    assert error is not None
    assert f"{life:04}.jsonl': it is missing; what happened in life {life} is not known" in error.message
    assert len([event for event in read if isinstance(event, Life)]) == life - 1


def test_lives_that_changed_places_are_damage(journal: Path) -> None:
    (journal / "0001.jsonl").rename(journal / "x")
    (journal / "0002.jsonl").rename(journal / "0001.jsonl")
    (journal / "x").rename(journal / "0002.jsonl")
    assert "it is of life 2, not 1" in str(read_to_damage(journal)[1])


def test_another_intact_file_in_the_place_of_a_life_is_damage(journal: Path) -> None:
    path = journal / "0001.jsonl"
    size = path.stat().st_size
    life = next(iter(read_events(journal)))
    other = lines_of([life, *(Started(n=number, t=2.0, j=7, a=1) for number in range(1, 20))])
    lines = other.splitlines(keepends=True)
    while len(b"".join(lines)) > size:
        lines.pop()
    path.write_bytes(other)
    assert read_to_damage(journal)[1] is not None
    path.write_bytes(b"".join(lines))
    assert "is torn" in str(read_to_damage(journal)[1])


def test_a_seal_of_the_end_that_was_changed_is_damage(journal: Path) -> None:
    path = journal / "end.json"
    text = path.read_bytes()
    for at in range(len(text)):
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        read, error = read_to_damage(journal)
        assert error is not None
        assert str(path) in error.message
        assert len(read) == 24, "what happened is known all the same"


def test_a_run_that_goes_on_after_its_end_is_read_in_one_chain(journal: Path) -> None:
    write_life(journal, 1, over=True)
    assert read_to_damage(journal)[1] is None
    os.truncate(journal / "0003.jsonl", (journal / "0003.jsonl").stat().st_size - 1)
    assert "is torn" in str(read_to_damage(journal)[1])


def test_a_cut_at_the_end_of_a_line_before_the_end_of_the_run_is_as_a_crash(journal: Path) -> None:
    (journal / "end.json").unlink()
    path = journal / "0003.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines)):
        for torn in (b"", lines[kept][:-1], b"\0" * 700):
            path.write_bytes(b"".join(lines[:kept]) + torn)
            read, error = read_to_damage(journal)
            assert error is None
            assert len(read) == 13 + kept


def test_what_follows_a_mark_is_checked_by_the_line_before_it(journal: Path) -> None:
    shutil.rmtree(journal)
    journal.mkdir()
    write_life(journal, 2)
    _, mark = read_since(journal)
    path = journal / "0001.jsonl"
    text = path.read_bytes()
    more = lines_of([Started(n=number, t=2.0, j=9, a=number) for number in (5, 6, 7)], text)
    path.write_bytes(text + more)
    assert [event.a for event in read_since(journal, mark)[0] if isinstance(event, Started)] == [5, 6, 7]
    path.write_bytes(text + more.replace(b'"a":6', b'"a":8'))
    with pytest.raises(DamagedError, match=r"0001\.jsonl', line 7: it is not as it was written"):
        list(read_since(journal, mark)[0])
    first, *rest = more.splitlines(keepends=True)
    path.write_bytes(text + b"".join(rest))
    with pytest.raises(DamagedError, match=r"0001\.jsonl', line 6: it is not as it was written"):
        list(read_since(journal, mark)[0])
    assert first


def test_no_engine_begins_upon_damage(journal: Path) -> None:
    (journal / "0002.jsonl").unlink()
    with pytest.raises(DamagedError, match=r"0002\.jsonl': it is missing"):
        next_life(journal)
    assert len(lives(journal)) == 2


@pytest.mark.parametrize("life", [0, 100_001, 10**6, 10**18])
def test_a_seal_of_a_life_that_no_run_has_is_damaged(journal: Path, life: int) -> None:
    end = EndSeal(life=life, bytes=1, crc=2, n=3, t=4.0, state=JobState.SUCCEEDED)
    write_end_seal(journal, end)
    with pytest.raises(DamagedError, match=r"end\.json': it cannot be read"):
        read_end_seal(journal)
    survey = survey_journal(journal)
    assert [damage.path for damage in survey.damages] == [str(journal / "end.json")]


def test_a_file_of_a_life_that_no_run_has_is_damage(journal: Path) -> None:
    (journal / f"{10**18}.jsonl").write_bytes(b"")
    with pytest.raises(DamagedError, match="no run has as many as 100,000 lives"):
        list(read_events(journal))
