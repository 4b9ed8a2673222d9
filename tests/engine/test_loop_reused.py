"""A run that begins with results of another, and whose engine may die at any moment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.doors import replace_calls
from tests.engine.dying_files import DyingFiles
from tests.engine.simulation import Crash, Simulation

from longshore.model.event import Ended, FileStamp, Submitting
from longshore.model.states import JobState
from longshore.model.submission import REUSED_BATCH, REUSED_JOBS, ReusedJobs
from longshore.rundir.job_table import JobTable
from longshore.system.files import files

JOBS = {"a_0": (), "b_0": (), "a_1": ("a_0",), "b_1": ("b_0",)}
STAMPS = (FileStamp(12, 1_790_000_000_123_456_789), FileStamp(0, 7))
REUSED = ("a_0", "b_0", "b_1")


def begin_with_results(sim: Simulation) -> list[int]:
    """Let a run keep the results of some jobs, and return their numbers."""
    names = JobTable(sim.run).names
    numbers = sorted(names.index(name) for name in REUSED)
    record = ReusedJobs(run="earlier", path="/earlier", jobs=tuple(numbers), stamps={numbers[0]: STAMPS})
    (sim.run.root / REUSED_JOBS).write_bytes(msgspec.json.encode(record))
    return numbers


@pytest.mark.parametrize("after", [False, True])
def test_results_are_recorded_once_whenever_the_engine_dies(tmp_path: Path, after: bool) -> None:
    for moment in range(1, 1000):
        sim = Simulation(tmp_path / str(moment), JOBS)
        reused = begin_with_results(sim)
        disk = DyingFiles(moment, after=after)
        try:
            with replace_calls(files, disk):
                sim.engine().run()
        except Crash:
            assert sim.engine("resume").run() is JobState.SUCCEEDED
        state = sim.state()
        assert set(state.attempts) == {1}, moment
        assert state.count_states()[JobState.SUCCEEDED] == len(JOBS)
        others = Counter(dict.fromkeys(set(range(len(JOBS))) - set(reused), 1))
        assert sim.manager.successes == others, "no job with a result runs, and every other once"
        assert [event.stamps for event in sim.of(Ended) if event.j == reused[0]] == [STAMPS]
        told = [event.j for event in sim.of(Ended) if event.extra == {"reused_from": "earlier"}]
        assert sorted(told) == reused, "each result is told once"
        batches = [event for event in sim.of(Submitting) if event.b == REUSED_BATCH]
        assert sorted(job for batch in batches for job, _ in batch.jobs) == reused
        if disk.calls < moment:
            break
    assert moment > 10
