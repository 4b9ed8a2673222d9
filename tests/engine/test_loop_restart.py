"""A run is restarted, or taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors import replace_calls
from tests.engine.dying_files import DyingFiles
from tests.engine.simulation import Crash, Hooked, Simulation, fails, leave_at

from longshore.model.event import Restarted, Steer
from longshore.model.states import JobState
from longshore.rundir.interventions import InterventionRecord, read_interventions, write_intervention
from longshore.rundir.job_table import JobTable
from longshore.system.files import files
from longshore.testing.fakes import (
    AttemptOutcome,
)


def test_a_restart_runs_again_what_did_not_succeed(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=fails(1, until=2))
    assert sim.engine().run() is JobState.FAILED
    engine = sim.engine("restart")
    assert engine.restart() == 2
    assert engine.run() is JobState.SUCCEEDED
    assert list(sim.check().attempts) == [1, 2, 1]
    assert sim.of(Restarted)[0].jobs == (1, 2)


def test_a_restart_with_nothing_to_do_says_so(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.engine().run()
    engine = sim.engine("restart")
    assert engine.restart() == 0
    assert engine.run() is JobState.SUCCEEDED
    assert not sim.of(Restarted)


def test_a_restart_runs_what_is_named_and_writes_down_who_wanted_what(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.engine().run()
    label = JobTable(sim.run).labels[0]
    order = InterventionRecord(who="me", act="restart", set={"requestMemory": "8G"}, from_labels=(label,))
    path = write_intervention(sim.run, order)
    engine = sim.engine("restart")
    assert engine.restart() == 3
    assert path.exists(), "until what follows from it is durable"
    assert engine.run() is JobState.SUCCEEDED
    assert not path.exists()
    assert list(sim.state().attempts) == [2, 2, 2]
    assert set(sim.manager.successes.values()) == {2}, "once more each, and no more"
    [event] = sim.of(Restarted)
    assert (event.who, event.set, event.from_labels) == (tmp_path.owner(), {"requestMemory": "8G"}, (label,))
    [steer] = sim.of(Steer)
    assert (steer.act, steer.jobs, steer.request and steer.request.memory_b) == ("set", (0, 1, 2), 8 << 30)


def test_a_restart_whose_engine_dies_before_it_is_written_down_is_done_by_the_next(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=fails(1, until=2))
    sim.engine().run()
    write_intervention(sim.run, InterventionRecord(who="me", act="restart"))
    assert sim.engine("restart").restart() == 2, "and nothing more: it died"
    assert sim.engine("resume").run() is JobState.SUCCEEDED
    assert list(sim.check().attempts) == [1, 2, 1]
    assert len(sim.of(Restarted)) == 1


def test_a_cancelled_run_can_be_restarted(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=20.0))
    assert sim.engine(executor=Hooked(sim, leave_at(sim, 4))).run() is JobState.DELETED
    engine = sim.engine("restart")
    assert engine.restart() == 3
    assert engine.run() is JobState.SUCCEEDED
    assert list(sim.check().attempts) == [2, 1, 1]


def test_a_finished_run_taken_up_again_finishes_at_once(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.engine().run()
    assert sim.engine("resume").run() is JobState.SUCCEEDED
    sim.check()
    assert len(sim.asked("submit")) == 3


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("values", [{}, {"requestMemory": "8G"}])
def test_a_restart_is_carried_out_once_whenever_its_engine_dies(
    tmp_path: Path, values: dict[str, str], after: bool
) -> None:
    repeated = 0
    for moment in range(1, 1000):
        sim = Simulation(tmp_path / str(moment))
        sim.engine().run()
        label = JobTable(sim.run).labels[0]
        order = InterventionRecord(who="me", act="restart", set=values, from_labels=(label,))
        path = write_intervention(sim.run, order)
        disk = DyingFiles(moment, after=after)
        try:
            with replace_calls(files, disk):
                engine = sim.engine("restart")
                engine.restart()
                engine.run()
        except Crash:
            repeated += path.exists() and bool(sim.of(Restarted))
            sim.engine("resume").run()
        assert not read_interventions(sim.run)
        [restarted, *sets] = sim.of(Restarted, Steer)
        assert isinstance(restarted, Restarted), moment
        assert len(sets) == bool(values)
        assert [event.order for event in (restarted, *sets)][-1] == path.name
        assert list(sim.state().attempts) == [2, 2, 2], moment
        if disk.calls < moment:
            break
    assert moment > 10
    assert repeated, "a file that outlives what follows from it"


def test_an_order_whose_file_cannot_be_removed_is_carried_out_once(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, outcome=lambda _job, _attempt: AttemptOutcome(run_s=20.0))
    path = write_intervention(sim.run, InterventionRecord(who="me", act="pause"))
    text = path.read_bytes()
    assert not sim.engine()._round()
    assert not path.exists()
    path.write_bytes(text)
    write_intervention(sim.run, InterventionRecord(who="me", act="unpause"))
    assert sim.engine("resume").run() is JobState.SUCCEEDED
    assert [event.act for event in sim.of(Steer)] == ["pause", "unpause"]


def test_of_several_restarts_the_newest_stands_for_all(tmp_path: Path) -> None:
    sim = Simulation(tmp_path)
    sim.engine().run()
    label = JobTable(sim.run).labels[0]
    for _ in range(2):
        write_intervention(sim.run, InterventionRecord(who="me", act="restart", from_labels=(label,)))
    assert sim.engine("restart").restart() == 3, "and nothing more: it died"
    assert len(read_interventions(sim.run)) == 1
    assert sim.engine("resume").run() is JobState.SUCCEEDED
    assert list(sim.state().attempts) == [2, 2, 2]
    assert len(sim.of(Restarted)) == 1
