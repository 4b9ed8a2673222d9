"""The engine of a large run leaves a process that stores what the first report of single jobs needs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.engine.simulation import Simulation
from tests.journal_lines import lines_of
from tests.written_run import WrittenRun

from longshore.contract.executor import Executor
from longshore.engine.run import processes
from longshore.engine.run.engine_service import EngineService
from longshore.engine.run.processes import start_first_report
from longshore.model.event import Steer
from longshore.model.states import JobState
from longshore.testing.fakes import FakeExecutor

EVENTS = 20_000
"""So many make a replay worth storing."""
PATIENCE_S = 60.0


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    """A run with few jobs and many events."""
    written = WrittenRun(tmp_path / "run")
    written.begin()
    events = [Steer(n=n, t=9.0, who="ada", act="pause", set={"why": "lunch"}) for n in range(1, EVENTS + 1)]
    with written.journal.open("ab") as file:
        file.write(lines_of(events, written.journal.read_bytes()))
    return written


def test_a_process_stores_the_replay_of_a_large_journal(run: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LEAST_B", run.journal.stat().st_size)
    start_first_report(run.run)
    deadline = time.monotonic() + PATIENCE_S
    while not (run.run.cache / "replay.msgpack").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("bound", ["_LEAST_B", "_MOST_B"])
def test_small_and_huge_journals_are_left_to_who_asks(
    run: WrittenRun, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = run.journal.stat().st_size
    monkeypatch.setattr(processes, "_LEAST_B", size)
    monkeypatch.setattr(processes, bound, size + 1 if bound == "_LEAST_B" else size - 1)
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_options: started.append(command))
    start_first_report(run.run)
    assert not started


def test_a_process_that_cannot_be_started_has_no_effect(run: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LEAST_B", 0)
    monkeypatch.setattr(sys, "executable", str(run.run.root / "absent"))
    start_first_report(run.run)
    assert not (run.run.cache / "replay.msgpack").exists()


def test_the_engine_starts_it_when_the_run_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(tmp_path)

    class Service(EngineService):
        def executor(self, settings: Mapping[str, Any]) -> Executor:
            return FakeExecutor(sim.manager)

        def check(self, workflow: Any, ctx: Any) -> list[Any]:
            return []

    commands: list[list[str]] = []

    def start(command: list[str], **_options: Any) -> Any:
        assert sim.check().finish_event
        commands.append(command)
        return type("Process", (), {})()

    monkeypatch.setattr(processes, "_LEAST_B", 0)
    monkeypatch.setattr(subprocess, "Popen", start)
    assert Service().drive(sim.run, "submit", clock=sim.clock) is JobState.SUCCEEDED
    assert [command[-4:] for command in commands] == [["report", "--id", str(sim.run.root), "--json"]]
