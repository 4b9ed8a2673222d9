"""The files of what jobs took: folded in by whoever comes, whole at any moment, and done without where need be."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from pathlib import Path

import pytest

from longshore.model.measurements import AttemptUsage
from longshore.rundir.histories import HistoryBusyError, add_to_history, history_folder, read_history


def some(label: str, *run_s: float, first: int = 0) -> list[AttemptUsage]:
    return [
        AttemptUsage(label=label, job=f"{label}_{number}", run_s=seconds) for number, seconds in enumerate(run_s, first)
    ]


def test_added_successes_are_read_back() -> None:
    add_to_history("dev/mosaic/p.yaml", [*some("isr", 1.0, 3.0), *some("a/b", 5.0)])
    add_to_history("dev/mosaic/p.yaml", some("isr", 5.0))
    found = read_history("dev/mosaic/p.yaml", ["isr", "a/b", "never"])
    assert found.keys() == {"isr", "a/b"}
    assert (found["isr"].run_s, found["isr"].weight) == (3.0, 3)
    assert found["isr"].jobs == {"isr_0": 5.0, "isr_1": 3.0}
    assert found["a/b"].run_s == 5.0


def test_payloads_do_not_mix() -> None:
    add_to_history("dev/mosaic/p.yaml", some("measure", 1.0))
    add_to_history("dev/mosaic/q.yaml", some("measure", 9.0))
    add_to_history("dev_mosaic/p.yaml", some("measure", 5.0))
    names = ("dev/mosaic/p.yaml", "dev/mosaic/q.yaml", "dev_mosaic/p.yaml")
    assert [read_history(name, ["measure"])["measure"].run_s for name in names] == [1.0, 9.0, 5.0]


def test_a_damaged_or_newer_history_starts_anew() -> None:
    add_to_history("x", some("isr", 1.0))
    path = history_folder("x") / "isr.json"
    for text in (b"{", b'{"label": "isr", "v": 99, "weight": 3}', b""):
        path.write_bytes(text)
        assert read_history("x", ["isr"]) == {}
    add_to_history("x", some("isr", 4.0))
    assert read_history("x", ["isr"])["isr"].run_s == 4.0


def test_an_unwritable_folder_fails_writes_but_not_reads(own_environment: Path) -> None:
    state = own_environment / ".local" / "state"
    state.mkdir(parents=True)
    (state / "longshore").write_text("no folder", "utf-8")
    with pytest.raises(OSError, match="longshore"):
        add_to_history("x", some("isr", 1.0))
    assert read_history("x", ["isr"]) == {}


def test_a_locked_history_is_not_waited_for() -> None:
    folder = history_folder("x")
    folder.mkdir(parents=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(HistoryBusyError):
        add_to_history("x", some("isr", 1.0))
    os.close(lock)
    add_to_history("x", some("isr", 1.0))


def _add_many(number: int) -> None:
    left = 25
    while left:
        try:
            add_to_history("many", some("isr", 1.0, first=number * 100 + left))
        except HistoryBusyError:
            continue
        left -= 1


def test_several_engines_lose_nothing() -> None:
    context = multiprocessing.get_context("fork")
    them = [context.Process(target=_add_many, args=(number,)) for number in range(4)]
    for each in them:
        each.start()
    for each in them:
        each.join()
        assert each.exitcode == 0
    found = read_history("many", ["isr"])["isr"]
    assert found.weight == 100
    assert len(found.jobs) == 100
    assert sorted(path.name for path in history_folder("many").iterdir()) == ["isr.json", "lock"]
