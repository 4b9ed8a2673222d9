"""A journal that is read bit by bit tells the same as one that is read at once, and says when it told what was void."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import StaleMarkError
from longshore.errors import RunUnreadableError
from longshore.model.event import PLAIN_FORMAT, Event, Failed, Life, Restarted, Seal
from longshore.model.json_lines import encode_line
from longshore.model.report import DamagedError
from longshore.rundir.journal import read_events, read_since
from longshore.runstate.events import chunk_events


def life(number: int, *, seals: int | None = None) -> bytes:
    seal = None if seals is None else Seal(life=number - 1, bytes=seals)
    return encode_line(Life(v=PLAIN_FORMAT, life=number, t=0.0, host="h", pid=1, boot="b", by="submit", seals=seal))


def everything(folder: Path) -> list[Event]:
    return list(read_since(folder)[0])


def test_nothing_at_all(tmp_path: Path) -> None:
    assert everything(tmp_path / "none") == []
    assert read_since(tmp_path / "none")[1] == ""


@given(st.lists(st.integers(0, 400), max_size=12), st.lists(st.integers(1, 3), max_size=12))
def test_bit_by_bit_is_as_at_once(tmp_path_factory: pytest.TempPathFactory, pieces: list[int], cuts: list[int]) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = folder / "0001.jsonl"
    path.write_bytes(life(1))
    mark = ""
    seen: list[Event] = []
    for number, piece in enumerate(pieces):
        line = encode_line(Failed(n=number + 1, t=1.0, j=number, why="x" * piece))
        cut = cuts[number % len(cuts)] if cuts else 0
        # A line may be looked at while it is written.
        for part in (line[:cut], line[cut:]):
            with path.open("ab") as file:
                file.write(part)
            events, mark = read_since(folder, mark)
            seen += events
    events, mark = read_since(folder, mark)
    seen += events
    assert seen == list(read_events(folder)) == everything(folder)
    assert seen == list(chain.from_iterable(chunk_events(read_events(folder))))


def test_lines_longer_than_a_piece(tmp_path: Path) -> None:
    long = Restarted(n=1, t=1.0, jobs=tuple(range(200_000)))
    short = Failed(n=2, t=1.0, j=1, why="x")
    path = tmp_path / "0001.jsonl"
    path.write_bytes(life(1) + encode_line(long) + encode_line(short))
    assert everything(tmp_path)[1:] == [long, short]
    path.write_bytes(life(1) + encode_line(short) + encode_line(long)[:-1])
    assert everything(tmp_path)[1:] == [short], "the last line is not whole yet"


def test_what_a_seal_made_void_is_told_of(tmp_path: Path) -> None:
    kept, void = (encode_line(Failed(n=number, t=1.0, j=number, why="x")) for number in (1, 2))
    first = life(1) + kept
    (tmp_path / "0001.jsonl").write_bytes(first + void)
    events, mark = read_since(tmp_path)
    assert len(list(events)) == 3
    (tmp_path / "0002.jsonl").write_bytes(life(2, seals=len(first)))
    with pytest.raises(StaleMarkError):
        read_since(tmp_path, mark)
    assert everything(tmp_path) == list(read_events(tmp_path))
    assert len(everything(tmp_path)) == 3


def test_a_newer_life_is_read_on_from_an_older_mark(tmp_path: Path) -> None:
    first = life(1) + encode_line(Failed(n=1, t=1.0, j=1, why="x"))
    (tmp_path / "0001.jsonl").write_bytes(first)
    _, mark = read_since(tmp_path)
    (tmp_path / "0002.jsonl").write_bytes(life(2, seals=len(first)))
    events, mark = read_since(tmp_path, mark)
    assert [event.life for event in events if isinstance(event, Life)] == [2]
    assert list(read_since(tmp_path, mark)[0]) == []


def test_a_mark_of_another_journal_is_stale(tmp_path: Path) -> None:
    (tmp_path / "0001.jsonl").write_bytes(life(1))
    for mark in ("7:10", "1:100000"):
        with pytest.raises(StaleMarkError):
            read_since(tmp_path, mark)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"e":"failed"}\n', "line 1: it is no event"),
        (b"", "no event"),
        (life(1).replace(b'"v":1', b'"v":99'), "format 99"),
        (life(1) + b"{\n", "line 2: it is no event"),
        (life(1) + b"\xff\n", "no event"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: bytes, words: str) -> None:
    (tmp_path / "0001.jsonl").write_bytes(text)
    with pytest.raises(RunUnreadableError, match=words):
        everything(tmp_path)


def test_a_sealed_life_that_is_shorter_is_torn(tmp_path: Path) -> None:
    (tmp_path / "0001.jsonl").write_bytes(life(1))
    (tmp_path / "0002.jsonl").write_bytes(life(2, seals=10_000))
    with pytest.raises(DamagedError, match="is torn"):
        everything(tmp_path)
