"""Path of each attempt's log, kept or overwritten by the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.services.htcondor.events.job_phases import JobPhase, JobPhases
from longshore.services.htcondor.log_lookup import CondorLogLocator


def _standing(phase: JobPhase) -> JobPhases:
    """A job with two attempts in cluster 7, and three in cluster 41."""
    standing = JobPhases(1)
    for cluster, attempts in ((7, 2), (41, 5)):
        standing.add_cluster(0, cluster)
        standing.attempts[0] = attempts
    standing.phase[0] = phase
    return standing


@pytest.mark.parametrize(
    ("phase", "shared"),
    [(JobPhase.OVER, (2, 5)), (JobPhase.RUNNING, (2, 5)), (JobPhase.PENDING, (2, 4)), (JobPhase.HELD, (2, 5))],
)
def test_a_shared_log_belongs_to_the_last_started_attempt(
    tmp_path: Path, phase: JobPhase, shared: tuple[int, ...]
) -> None:
    folder = tmp_path / "logs" / "a" / "00"
    folder.mkdir(parents=True)
    (folder / "a1.41.log").touch()
    logs = CondorLogLocator(RunPaths(tmp_path), _standing(phase))
    found = {number: logs.path(0, "a1", "a", number) for number in (5, 4, 3, 2, 1)}
    assert {number for number, path in found.items() if path.count(".") == 2} == set(shared)
    assert (found[1], found[2]) == ("logs/a/00/a1.7.1.log", "logs/a/00/a1.7.log")
    assert found[3] == "logs/a/00/a1.41.1.log"


def test_kept_logs_have_a_path_each(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "a" / "00"
    folder.mkdir(parents=True)
    (folder / "a1.41.3.log").touch()
    logs = CondorLogLocator(RunPaths(tmp_path), _standing(JobPhase.OVER))
    names = [Path(logs.path(0, "a1", "a", number)).name for number in range(5, 0, -1)]
    assert names == ["a1.41.3.log", "a1.41.2.log", "a1.41.1.log", "a1.7.2.log", "a1.7.1.log"]
    assert logs.attempts(0) == 5
