"""An interrupted submission is found, or all files return to their places."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from tests.doors import replace_calls

from longshore.contract.service import RunPaths
from longshore.errors import UnreachableError
from longshore.model.event import FORMAT, Life
from longshore.model.submission import RunIdentity
from longshore.rundir.run_directory import write_card
from longshore.services.htcondor.schedd.client import CondorClient, DagmanJob
from longshore.services.htcondor.submission.submit_dag import resolve_submission, submission_constraint
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    SubmissionRecord,
    dagman_log,
    read_submissions,
    write_submissions,
)
from longshore.system.files import files


class _Schedd(CondorClient):
    """A schedd that has, or had, a certain job, or does not answer."""

    def __init__(self, answer: DagmanJob | Exception | None) -> None:
        super().__init__()
        self._answer = answer
        self.asked = ""

    def find_dagman(self, constraint: str, *, since: float) -> DagmanJob | None:
        self.asked = constraint
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def life(number: int) -> Life:
    return Life(v=FORMAT, life=number, t=100.0 * number, host="ap", pid=0, boot="b", by="restart", longshore="1")


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run that was handed over once."""
    run = RunPaths(tmp_path)
    run.journal.mkdir()
    run.wms.mkdir()
    write_card(
        run,
        RunIdentity(
            format=1, id="k1", name="n", service="htcondor", longshore="1", created_at=0, expected=1, labels={}
        ),
    )
    for name, text in {"run.dag": "dag", "run.dag.nodes.log": "first", "overrides.dag": "memory"}.items():
        (run.wms / name).write_text(text, "utf-8")
    write_submissions(run, SubmissionRecord(submissions=(DagSubmission(life=life(1), cluster=7, schedd="ap"),)))
    return run


def begin(run: RunPaths, *, moved: tuple[str, ...] = (), made: tuple[str, ...] = ()) -> SubmissionRecord:
    """Somebody is killed amid a restart, when some files were kept apart and some written anew."""
    book = msgspec.structs.replace(read_submissions(run), pending=DagSubmission(life=life(2), cluster=0, schedd=""))
    write_submissions(run, book)
    folder = run.wms / "backups" / "001"
    folder.mkdir(parents=True)
    for name in moved:
        text = (run.wms / name).read_text("utf-8")
        (folder / name).write_text(text, "utf-8")
        if name != "overrides.dag":
            (run.wms / name).unlink()
    for name in made:
        (run.wms / name).write_text("second", "utf-8")
    return book


def test_without_pending_submission_nothing_is_queried(run: RunPaths) -> None:
    schedd = _Schedd(UnreachableError("nobody is there"))
    assert resolve_submission(run, schedd, read_submissions(run)) == read_submissions(run)
    assert schedd.asked == ""


def test_an_arrived_submission_is_recorded(run: RunPaths) -> None:
    schedd = _Schedd(DagmanJob(cluster=9, schedd="ap", global_id="ap#9.0#200"))
    book = resolve_submission(
        run, schedd, begin(run, moved=("run.dag.nodes.log", "overrides.dag"), made=("run.dag.rescue001",))
    )
    assert book == read_submissions(run)
    assert book.pending is None
    last = book.submissions[1]
    assert (last.cluster, last.global_id, last.life.life, last.life.pid) == (9, "ap#9.0#200", 2, 9)
    assert schedd.asked == submission_constraint(run, 2)
    assert schedd.asked == 'LongshoreRun =?= "k1" && LongshoreLife =?= 2 && JobUniverse == 7'
    assert (run.wms / "run.dag.rescue001").exists()
    assert dagman_log(run, book, 1).parent == run.wms / "backups" / "001"


@pytest.mark.parametrize(
    ("moved", "made"),
    [
        ((), ()),
        (("run.dag.nodes.log",), ()),
        (("run.dag.nodes.log", "overrides.dag"), ()),
        (("run.dag.nodes.log", "overrides.dag"), ("overrides.dag", "run.dag.rescue001", "run.dag.condor.sub")),
    ],
)
def test_a_lost_restart_is_rolled_back(run: RunPaths, moved: tuple[str, ...], made: tuple[str, ...]) -> None:
    before = {path.name: path.read_text("utf-8") for path in run.wms.iterdir()}
    begun = begin(run, moved=moved, made=made)
    # Until then, the newest submission's logs are found wherever they are.
    assert dagman_log(run, begun, 1).parent in {run.wms, run.wms / "backups" / "001"}
    assert resolve_submission(run, _Schedd(None), begun).pending is None
    assert {path.name: path.read_text("utf-8") for path in run.wms.iterdir() if path.is_file()} == before


def test_an_interrupted_roll_back_loses_no_log(run: RunPaths) -> None:
    before = {path.name: path.read_text("utf-8") for path in run.wms.iterdir()}
    begun = begin(run, moved=("run.dag.nodes.log", "overrides.dag"), made=("run.dag.rescue001",))
    moved = iter((True, False))

    class Interrupted:
        def rename(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
            if not next(moved, False):
                raise KeyboardInterrupt
            os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    with replace_calls(files, Interrupted()), pytest.raises(KeyboardInterrupt):
        resolve_submission(run, _Schedd(None), begun)
    resolve_submission(run, _Schedd(None), read_submissions(run))
    assert {path.name: path.read_text("utf-8") for path in run.wms.iterdir() if path.is_file()} == before


def test_a_lost_first_submission_is_rolled_back(run: RunPaths) -> None:
    write_submissions(run, SubmissionRecord(pending=DagSubmission(life=life(1), cluster=0, schedd="")))
    (run.wms / "run.dag.condor.sub").write_text("made", "utf-8")
    assert resolve_submission(run, _Schedd(None), read_submissions(run)) == SubmissionRecord()
    assert not (run.wms / "run.dag.condor.sub").exists()
    assert (run.wms / "run.dag").exists()


def test_no_roll_back_without_an_answer(run: RunPaths) -> None:
    begun = begin(run, moved=("run.dag.nodes.log", "overrides.dag"))
    with pytest.raises(UnreachableError, match="nobody is there"):
        resolve_submission(run, _Schedd(UnreachableError("nobody is there")), begun)
    assert read_submissions(run) == begun
    assert not (run.wms / "run.dag.nodes.log").exists()
