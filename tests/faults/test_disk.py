"""The model of a disk knows which states a power failure can leave."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.faults.disk import Chosen, Disk, State
from tests.faults.shim import CallClass
from tests.faults.trace import CREATED, Kind, Step


class Calls:
    """Applies calls on names below a folder to its model."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = Disk(root)
        self._inodes: dict[str, int] = {}

    def __call__(self, kind: Kind, path: str, target: str = "", *, data: bytes = b"", offset: int = 0) -> None:
        if kind in {Kind.OPEN, Kind.MKDIR}:
            self._inodes[path] = -len(self._inodes) - 1
        if kind is Kind.RENAME:
            self._inodes[target] = self._inodes[path]
        inode = self._inodes.get(path, self.root.stat().st_ino)
        flags = CREATED if kind is Kind.OPEN else CallClass.SYNC if kind is Kind.FAULT else 0
        self.disk.apply(Step(kind, 1, flags, inode, offset, str(self.root / path), str(self.root / target), data))

    def states(self) -> list[State]:
        """Many legal states."""
        return [self.disk.state(Chosen.RANDOM, Random(number)) for number in range(300)]

    def only(self, chosen: Chosen) -> State:
        return self.disk.state(chosen, Random(0))


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    (tmp_path / "old").write_bytes(b"kept")
    return Calls(tmp_path)


def test_what_was_there_stays(calls: Calls) -> None:
    assert calls.disk.is_durable
    assert calls.only(Chosen.LEAST) == calls.only(Chosen.MOST) == {"old": b"kept"}


def test_a_synced_file_may_have_no_name(calls: Calls) -> None:
    calls(Kind.OPEN, "x")
    calls(Kind.WRITE, "x", data=b"text")
    calls(Kind.SYNC, "x")
    assert calls.only(Chosen.LEAST) == {"old": b"kept"}
    assert {state.get("x") for state in calls.states()} == {None, b"text"}
    calls(Kind.SYNC, "")
    assert calls.disk.is_durable
    assert calls.only(Chosen.LEAST) == {"old": b"kept", "x": b"text"}


def test_a_name_may_be_there_without_content(calls: Calls) -> None:
    calls(Kind.OPEN, "x")
    calls(Kind.WRITE, "x", data=b"text")
    calls(Kind.SYNC, "")
    contents = {state["x"] for state in calls.states()}
    assert {b"", b"te", b"\0\0\0\0", b"text"} <= contents
    assert calls.only(Chosen.NAMES)["x"] == b"\0\0\0\0"


def test_a_rename_is_whole_or_not_at_all(calls: Calls) -> None:
    calls(Kind.OPEN, "draft")
    calls(Kind.WRITE, "draft", data=b"new")
    calls(Kind.SYNC, "draft")
    calls(Kind.RENAME, "draft", "old")
    found = {tuple(sorted(state.items())) for state in calls.states()}
    assert found == {(("old", b"kept"),), (("draft", b"new"), ("old", b"kept")), (("old", b"new"),)}


def test_what_is_in_a_folder_without_a_name_is_gone(calls: Calls) -> None:
    calls(Kind.MKDIR, "folder")
    calls(Kind.OPEN, "folder/x")
    calls(Kind.WRITE, "folder/x", data=b"text")
    calls(Kind.SYNC, "folder/x")
    calls(Kind.SYNC, "folder")
    assert calls.only(Chosen.LEAST) == {"old": b"kept"}
    assert calls.only(Chosen.MOST) == {"old": b"kept", "folder": None, "folder/x": b"text"}


def test_later_writes_may_be_there_without_earlier_ones(calls: Calls) -> None:
    calls(Kind.OPEN, "x")
    calls(Kind.SYNC, "")
    calls(Kind.WRITE, "x", data=b"one")
    calls(Kind.WRITE, "x", data=b"two", offset=3)
    assert b"\0\0\0two" in {state["x"] for state in calls.states()}


def test_content_before_a_failed_fsync_is_not_saved_by_the_next(calls: Calls) -> None:
    calls(Kind.OPEN, "x")
    calls(Kind.SYNC, "")
    calls(Kind.WRITE, "x", data=b"one")
    calls(Kind.FAULT, "x")
    calls(Kind.SYNC, "x")
    assert calls.only(Chosen.LEAST)["x"] == b""
    calls(Kind.WRITE, "x", data=b"two", offset=3)
    calls(Kind.SYNC, "x")
    assert calls.only(Chosen.LEAST)["x"] == b"\0\0\0two"
    calls(Kind.WRITE, "x", data=b"onetwo")
    calls(Kind.SYNC, "x")
    assert calls.disk.is_durable
    assert calls.only(Chosen.LEAST)["x"] == b"onetwo"


def test_a_truncation_may_be_lost(calls: Calls) -> None:
    calls(Kind.OPEN, "x")
    calls(Kind.WRITE, "x", data=b"text")
    calls(Kind.SYNC, "x")
    calls(Kind.SYNC, "")
    calls(Kind.TRUNCATE, "x", offset=2)
    assert {state["x"] for state in calls.states()} == {b"text", b"te"}
