"""Orders lie in wait for the engine, whole and in their order."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from longshore.contract.service import RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.rundir import interventions
from longshore.rundir.interventions import (
    InterventionRecord,
    discard_interventions,
    read_interventions,
    write_intervention,
)


def test_nobody_ordered_anything(tmp_path: Path) -> None:
    assert read_interventions(RunPaths(tmp_path)) == []


def test_orders_come_in_the_order_in_which_they_were_left(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    orders = [InterventionRecord(who=f"user{number}", act="cancel", jobs=(f"job{number}",)) for number in range(12)]
    paths = [write_intervention(run, order) for order in orders]
    me = tmp_path.owner()
    assert read_interventions(run) == [
        (path, msgspec.structs.replace(order, who=me)) for path, order in zip(paths, orders, strict=True)
    ]
    assert sorted(os.listdir(run.steer)) == [path.name for path in paths]


@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"who": "me", "act": "explode"}', b'{"who": "\xff", "act": "cancel"}', b'{"act": "cancel"}']
)
def test_an_order_nobody_understands_is_set_aside(tmp_path: Path, text: bytes) -> None:
    run = RunPaths(tmp_path)
    good = write_intervention(run, InterventionRecord(who="me", act="cancel"))
    (run.steer / "0.json").write_bytes(text)
    for _ in range(2):
        assert [path for path, _ in read_interventions(run)] == [good]
    assert (run.steer / "0.unreadable").read_bytes() == text


def test_half_an_order_is_not_seen(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    write_intervention(run, InterventionRecord(who="me", act="cancel")).rename(run.steer / "1.part")
    assert read_interventions(run) == []


def test_an_order_that_another_engine_takes_away_is_none(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.steer.mkdir()
    # A name that leads nowhere: what a listing still shows and a moment later is gone.
    (run.steer / "1.json").symlink_to(run.steer / "gone")
    assert read_interventions(run) == []


def test_an_order_of_another_user_may_be_taken_as_soon_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_take(path: Path, content: bytes, **_: object) -> None:
        path.write_bytes(content)
        path.unlink()

    monkeypatch.setattr(interventions, "is_own_run", lambda _: False)
    monkeypatch.setattr(interventions, "write_atomically", write_and_take)
    path = write_intervention(RunPaths(tmp_path), InterventionRecord(who="eve", act="pause"))
    assert not path.exists()


def test_orders_can_be_taken_back(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    discard_interventions(run)
    write_intervention(run, InterventionRecord(who="me", act="cancel"))
    discard_interventions(run)
    assert read_interventions(run) == []


def test_an_order_is_a_regular_file_with_one_name(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    good = write_intervention(run, InterventionRecord(who="me", act="cancel"))
    elsewhere = tmp_path / "order.json"
    elsewhere.write_bytes(good.read_bytes())
    (run.steer / "1.json").symlink_to(elsewhere)
    (run.steer / "2.json").hardlink_to(elsewhere)
    os.mkfifo(run.steer / "3.json")
    told: list[str] = []
    for _ in range(2):
        assert [path for path, _ in read_interventions(run, told.append)] == [good]
    assert all(["'1.json' is refused" in told[0], "'2.json' of the user" in told[1], "'3.json' is refused" in told[2]])
    assert len(told) == 3
    assert sorted(path.name for path in run.steer.glob("*.refused")) == ["1.refused", "2.refused", "3.refused"]


@pytest.mark.parametrize(
    ("number", "said", "way_out"),
    [
        (errno.ENOSPC, "is full", "Make room there, and give the order again."),
        (errno.EDQUOT, "your quota of the file system", "Make room there, and give the order again."),
        (errno.EACCES, "Permission denied", "Only users with write access to a run can steer it."),
        (errno.EROFS, "Read-only file system", ""),
    ],
)
def test_an_order_that_cannot_be_written_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str, way_out: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "steer" / ".draft"))

    monkeypatch.setattr("longshore.rundir.interventions.write_atomically", fail)
    with pytest.raises(SubmissionRefusedError, match=said) as caught:
        write_intervention(RunPaths(tmp_path), InterventionRecord(who="me", act="cancel"))
    assert f"no intervention can be written to '{tmp_path}': " in caught.value.message
    assert caught.value.hint == way_out
