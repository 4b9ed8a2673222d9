"""GPUs and their like over whole lives of engines that die: no two attempts have one at the same time."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from longshore.engine.run.loop import Engine
from longshore.engine.run_settings import read_settings
from longshore.model.event import Submitting
from longshore.model.states import JobState
from longshore.model.workflow import Request
from longshore.rundir.journal import read_events
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import write_run


class Death(Exception):  # noqa: N818 - no error, a death
    """The engine is killed."""


class Mortal(FakeExecutor):
    """Dies after so many calls."""

    left = 10**9

    def _record_call(self, method: str, argument: object = None) -> None:
        super()._record_call(method, argument)
        self.left -= 1
        if self.left < 0 and method != "close":
            raise Death


def requests() -> dict[str, dict[str, Request]]:
    asked = {"a": Request(resources={"gpus": 1}), "b": Request(resources={"gpus": 2}), "c": Request(cpus=2)}
    return {label: {"request": request} for label, request in asked.items()}


@pytest.mark.parametrize("seed", range(12))
def test_no_two_jobs_have_one_gpu_however_often_the_engine_dies(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)
    clock = FakeClock()
    manager = FakeManager(
        clock,
        lambda job, attempt: AttemptOutcome(run_s=1.0 + (job * 7 + attempt) % 5, exit=int((job + attempt) % 6 == 0)),
        capacity={"cpus": 6, "gpus": 3},
        identities={"gpus": ("0", "1", "3")},
    )
    profiles = {label: {**profile, "number_of_retries": 3} for label, profile in requests().items()}
    run = write_run(tmp_path / "run", {f"{'abc'[job % 3]}_{job}": () for job in range(24)}, profiles=profiles)
    for _ in range(200):
        executor = Mortal(manager)
        executor.left = dice.randint(5, 60)
        engine = Engine(run, executor, read_settings(run), clock=clock, by="resume", log_line=lambda _: None)
        try:
            assert engine.run() is JobState.SUCCEEDED
        except Death:
            continue
        break
    # That none is given twice is the manager's to say, which stops the test.
    given = {identity for these in manager.identities_of.values() for identity in these}
    assert given == {("gpus", "0"), ("gpus", "1"), ("gpus", "3")}
    assert all(len(manager.identities_of[job, 1]) == (1, 2, 0)[job % 3] for job in range(24))


def test_the_journal_says_who_has_what(tmp_path: Path) -> None:
    clock = FakeClock()
    manager = FakeManager(clock, capacity={"cpus": 4, "gpus": 2}, identities={"gpus": ("GPU-x", "GPU-y")})
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": (), "c_1": ()}, profiles=requests())
    Engine(run, FakeExecutor(manager), read_settings(run), clock=clock, by="submit", log_line=lambda _: None).run()
    had = [event.ids for event in read_events(run.journal) if isinstance(event, Submitting)]
    assert had == [{0: {"gpus": ("GPU-x",)}}, {1: {"gpus": ("GPU-y",)}}, {}]
    first = next(iter(manager.batches.values())).members[0].environment
    assert first["CUDA_VISIBLE_DEVICES"] == first["HIP_VISIBLE_DEVICES"] == "GPU-x"
    assert first["LONGSHORE_JOB_RESOURCE_GPUS_IDS"] == "GPU-x"
    assert first["LONGSHORE_JOB_RESOURCE_GPUS"] == "1"
