"""A restart of a submit directory of BPS moves the files of the last submission, unless the schedd refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.htcondor.bps.submit_directories import copied

from longshore.contract.service import RestartChanges
from longshore.errors import LongshoreError, ServiceError, SubmissionRefusedError, SubmissionUncertainError
from longshore.model.states import JobState
from longshore.reports.report import report_run
from longshore.runstate.open_run import open_run
from longshore.services.htcondor.bps.mirror import mirror_directory, restart_directory
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob
from longshore.services.htcondor.submission_record import read_submissions


class Schedd(CondorClient):
    """A schedd that takes no submission."""

    def __init__(self, error: LongshoreError) -> None:
        super().__init__()
        self.error = error

    def require_answer(self) -> None:
        """Answer."""

    def submit_description(self, path: Path) -> DagmanJob:
        """Refuse."""
        raise self.error


def refused(folder: Path, error: LongshoreError) -> None:
    """Restart a directory, which the schedd refuses."""
    run = mirror_directory(folder)
    assert run is not None
    last = read_submissions(run).last_submission
    assert last is not None
    with pytest.raises(type(error)):
        restart_directory(run, Schedd(error), last, RestartChanges())


def contents(folder: Path) -> dict[Path, bytes]:
    """The files of a directory."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("error", [SubmissionRefusedError("no"), ServiceError("no identity")])
def test_a_restart_that_is_refused_changes_no_file(tmp_path: Path, error: LongshoreError) -> None:
    folder = copied("failed", tmp_path)
    before = contents(folder)
    refused(folder, error)
    assert contents(folder) == before
    counts = report_run(open_run(str(folder))).counts
    assert (counts[JobState.SUCCEEDED], counts[JobState.FAILED]) == (6, 1)


def test_a_submission_that_may_have_arrived_has_its_place(tmp_path: Path) -> None:
    folder = copied("failed", tmp_path)
    refused(folder, SubmissionUncertainError("it could not commit"))
    assert not list(folder.glob("*.nodes.log"))
    assert list((folder / "backups").glob("*/*.nodes.log"))
