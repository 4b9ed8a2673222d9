"""State of the provisioning job by the log, and its line in reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.model.event import Event, Life
from longshore.services.htcondor import status_lines
from longshore.services.htcondor.events.dag_jobs import DagNodes
from longshore.services.htcondor.events.job_phases import JobPhases, status_line
from longshore.services.htcondor.events.log_records import Record
from longshore.services.htcondor.events.to_events import EventBuilder
from longshore.services.htcondor.submission_record import DagSubmission, SubmissionRecord

SUBMITTED = (0, 'host: <127.0.0.1:9618>\n    [ DAGNodeName = "provision"; JobBatchName = "x" ]')
EXECUTING = (1, "Job executing on host: <127.0.0.1:9618?alias=access.pool.test>")
WELL = (5, "Job terminated.\n\t(1) Normal termination (return value 0)\n\t\tUsr 0 00:00:00")
BADLY = (5, "Job terminated.\n\t(1) Normal termination (return value 3)\n\t\tUsr 0 00:00:00")
EVICTED = (4, "Job was evicted.\n\t(0) CPU times")
HELD = (12, "Job was held.\n\tFailed to execute '/p.sh'\n\tCode 6 Subcode 13")
RELEASED = (13, "Job was released.\n\tvia condor_release (by user u)")
BY_DAGMAN = (9, "Job was aborted.\n\tRemoved by DAGMan (by user u)")
BY_HAND = (9, "Job was aborted.\n\tvia condor_rm (by user u)")
IMAGE = (6, "Image size of job updated: 1")
ONE = "Provisioning: job 8.0"
GOES_ON = "the run goes on with the machines there are"
IDLE = "it starts no machines until it is released (condor_release)"


def _told(*records: tuple[int, str]) -> tuple[EventBuilder, JobPhases, list[Event]]:
    standing = JobPhases(2)
    story = EventBuilder(standing, nodes=DagNodes(2, final=False))
    events: list[Event] = []
    for number, (kind, text) in enumerate(records):
        events += story.convert(Record(kind, 8, 0, 1795341660.0 + number, text.encode()))
    return story, standing, events


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "Provisioning: its job is not in the log of the run, so nothing has started machines"),
        ([SUBMITTED], f"{ONE} is PENDING since 2026-11-22T10:01:00Z"),
        ([SUBMITTED, EXECUTING, IMAGE], f"{ONE} is RUNNING since 2026-11-22T10:01:01Z"),
        ([SUBMITTED, EXECUTING, EVICTED], f"{ONE} is PENDING since 2026-11-22T10:01:02Z"),
        ([SUBMITTED, EXECUTING, WELL], f"{ONE} SUCCEEDED at 2026-11-22T10:01:02Z"),
        (
            [SUBMITTED, EXECUTING, BADLY],
            f"{ONE} FAILED at 2026-11-22T10:01:02Z: exit code 3; {GOES_ON} (see 'wms/provisioningJob.log')",
        ),
        (
            [SUBMITTED, EXECUTING, EVICTED, HELD],
            f"{ONE} is HELD since 2026-11-22T10:01:03Z: Failed to execute '/p.sh'; {IDLE}",
        ),
        ([SUBMITTED, HELD, RELEASED], f"{ONE} is PENDING since 2026-11-22T10:01:02Z"),
        (
            [SUBMITTED, EXECUTING, BY_HAND],
            f"{ONE} was removed at 2026-11-22T10:01:02Z: via condor_rm (by user u); {GOES_ON}",
        ),
        ([SUBMITTED, EXECUTING, BY_DAGMAN, WELL], f"{ONE} was removed with the run, at 2026-11-22T10:01:02Z"),
    ],
)
def test_status_line_of_each_state(records: list[tuple[int, str]], said: str) -> None:
    _, standing, events = _told(*records)
    assert status_line(standing.provisioner) == said
    assert events == []
    again = JobPhases(2)
    again.restore(standing.save())
    assert status_line(again.provisioner) == said


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([EXECUTING], "was removed with the run, at 2026-11-22T10:02:00Z"),
        ([HELD], "was removed with the run, at 2026-11-22T10:02:00Z: it was held: Failed to execute"),
        ([EXECUTING, WELL], "SUCCEEDED at"),
    ],
)
def test_it_ends_with_the_run(records: list[tuple[int, str]], said: str) -> None:
    story, standing, _ = _told(SUBMITTED, *records)
    story.end_run(1795341720.0, is_removed=False, submit_failures={})
    assert status_line(standing.provisioner).startswith(f"{ONE} {said}")
    story.reset_for_restart([0])
    assert standing.provisioner is None


def test_the_report_has_provisioning_and_failed_barriers(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.wms.mkdir()
    book = SubmissionRecord(
        submissions=(
            DagSubmission(
                life=Life(v=1, life=1, t=1795341660.0, host="h", pid=7, boot="b", by="submit", longshore="0"),
                cluster=7,
                schedd="s",
            ),
        )
    )
    _, standing, _ = _told(SUBMITTED)
    assert len(list(status_lines.lines(run, book, None, None, lambda: standing))) == 2
    said = "11/22/26 11:01:01 PRE Script of Node g1 failed with status 1\n"
    (run.wms / "run.dag.dagman.out").write_text(f"11/22/26 11:01:01 Running\n{said}", "utf-8")
    assert len(list(status_lines.lines(run, book, None, None, lambda: standing))) == 2
    (run.wms / "gate").touch()
    (line,) = list(status_lines.lines(run, book, None, None, lambda: standing))[2:]
    assert "so the group never runs: PRE Script of Node g1 failed with status 1 (" in line
    (run.wms / "gate").unlink()
    (run.wms / "provisioningJob.bash").touch()
    assert list(status_lines.lines(run, book, None, None, lambda: standing))[2:] == [
        f"{ONE} is PENDING since 2026-11-22T10:01:00Z"
    ]
