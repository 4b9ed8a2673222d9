"""A snapshot is due soon when there is news, and now and then when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.engine.run.progress import SnapshotWriter, WaitNotes
from longshore.model.event import FORMAT, Life, Lost
from longshore.model.report import Snapshot
from longshore.model.states import JobState
from longshore.rundir.journal import Journal
from longshore.rundir.run_directory import read_snapshot
from longshore.testing.fakes import FakeClock


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    (tmp_path / "journal").mkdir()
    made = Journal(tmp_path / "journal", Life(v=FORMAT, life=1, t=1.0, host="h", pid=2, boot="b", by="submit"))
    yield made
    made.close()


def snapshot(note: str = "") -> Snapshot:
    return Snapshot(
        life=1, n=0, at=1.0, pid=2, host="h", boot="b", state=JobState.RUNNING, counts={}, labels={}, note=note
    )


def test_news_is_written_soon_and_the_rest_now_and_then(journal: Journal, tmp_path: Path) -> None:
    clock = FakeClock()
    notes = WaitNotes(clock, lambda _: None)
    snapshots = SnapshotWriter(RunPaths(tmp_path), journal, clock)
    assert snapshots.is_due(notes), "the first is due at once"
    snapshots.write(snapshot())
    assert read_snapshot(RunPaths(tmp_path)) == snapshot()
    clock.advance(9.0)
    assert not snapshots.is_due(notes), "nothing is new"
    clock.advance(1.0)
    assert snapshots.is_due(notes), "the engine shows that it lives"
    snapshots.write(snapshot())
    notes.add("the disk is full")
    clock.advance(0.5)
    assert not snapshots.is_due(notes), "news waits for a moment, for more of it"
    clock.advance(0.5)
    assert snapshots.is_due(notes)
    snapshots.write(snapshot("the disk is full"))
    journal.append(Lost(j=0, a=1, why="gone"), now=1.0)
    clock.advance(1.0)
    assert snapshots.is_due(notes), "an event is news"


def test_one_that_cannot_be_written_is_not_tried_again_at_once(journal: Journal, tmp_path: Path) -> None:
    clock = FakeClock()
    snapshots = SnapshotWriter(RunPaths(tmp_path / "gone"), journal, clock)
    with pytest.raises(OSError, match="gone"):
        snapshots.write(snapshot())
    clock.advance(1.0)
    assert not snapshots.is_due(WaitNotes(clock, lambda _: None))
