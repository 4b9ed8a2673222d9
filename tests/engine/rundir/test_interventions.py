"""Orders lie in wait for the engine, whole and in their order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.contract.context import RunPaths
from longshore.engine.rundir.interventions import (
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
    assert read_interventions(run) == list(zip(paths, orders, strict=True))
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


def test_orders_can_be_taken_back(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    discard_interventions(run)
    write_intervention(run, InterventionRecord(who="me", act="cancel"))
    discard_interventions(run)
    assert read_interventions(run) == []
