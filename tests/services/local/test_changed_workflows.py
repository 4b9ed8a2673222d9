"""After a restart with another workflow, records of earlier keepers name jobs by other numbers and are not read."""

from __future__ import annotations

from tests.services.local.processes import NOBODY, Inbox, is_gone, up_of, write_records

from longshore.contract.service import RunPaths
from longshore.model.event import FORMAT, Life, Lost
from longshore.model.submission import Manifest
from longshore.rundir.journal import Journal, first_life_of_workflow
from longshore.rundir.submissions import create_manifest, write_job_map
from longshore.services.local.keeper_client import LocalClient
from longshore.system.host import boot_id


def begin_submission(run: RunPaths, number: int, *, has_other_jobs: bool = False) -> None:
    job_map = write_job_map(run, number, {0: 1}) if has_other_jobs else None
    manifest = Manifest(v=2, number=number, run="", card="", workflow="workflow.jsonl", job_map=job_map, files={})
    create_manifest(run, manifest)


def begin_life(run: RunPaths, number: int, submission: int) -> None:
    run.journal.mkdir(exist_ok=True)
    life = Life(v=FORMAT, life=number, t=1.0, host="here", pid=NOBODY, boot=boot_id(), by="restart", s=submission)
    Journal(run.journal, life).close()


def test_the_first_life_of_a_workflow(run: RunPaths) -> None:
    begin_submission(run, 1)
    assert first_life_of_workflow(run) == 0
    begin_life(run, 1, 1)
    begin_life(run, 2, 1)
    begin_submission(run, 2)
    begin_life(run, 3, 2)
    assert first_life_of_workflow(run) == 0, "a restart as it was keeps the numbers"
    begin_submission(run, 3, has_other_jobs=True)
    assert first_life_of_workflow(run) == 4, "the next one, which has not begun"
    begin_life(run, 4, 3)
    begin_submission(run, 4)
    begin_life(run, 5, 4)
    assert first_life_of_workflow(run) == 4, "also for later submissions of the same workflow"
    begin_submission(run, 5, has_other_jobs=True)
    begin_life(run, 6, 5)
    assert first_life_of_workflow(run) == 6


def test_a_record_of_an_earlier_workflow_is_no_attempt(run: RunPaths, stranger: int) -> None:
    got = {"r": "got", "b": "t", "m": [[1, 1]]}
    write_records(run, got, {"r": "start", "j": 1, "a": 1, "pid": stranger, "t": 5.0, "up": up_of(stranger)})
    begin_submission(run, 1)
    begin_life(run, 1, 1)
    begin_submission(run, 2, has_other_jobs=True)
    inbox = Inbox(LocalClient(run, 2))
    assert inbox.client.find(["t"]) == {}
    assert inbox.client.end([(1, 1)], grace_s=0.0) == 0
    inbox.poll()
    assert not inbox.events
    assert not is_gone(stranger)


def test_a_record_of_the_same_workflow_is_one(run: RunPaths) -> None:
    start = {"r": "start", "j": 1, "a": 1, "pid": NOBODY, "t": 5.0, "up": 1.0}
    written = write_records(run, {"r": "got", "b": "t", "m": [[1, 1]]}, start)
    begin_submission(run, 1)
    begin_life(run, 1, 1)
    begin_submission(run, 2, has_other_jobs=True)
    begin_life(run, 2, 2)
    begin_submission(run, 3)
    written.rename(run.keeper / "0002.1.jsonl")
    inbox = Inbox(LocalClient(run, 3))
    assert isinstance(inbox.end(1), Lost)
