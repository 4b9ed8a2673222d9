"""The end of DAGMan's job by its log, and errors in DAGMan's messages."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.model.event import FORMAT, Life
from longshore.services.htcondor import status_lines
from longshore.services.htcondor.events.dagman_end import DagmanEnd, barrier_failures, dag_errors, read_dagman_end
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.schedd.client import silence_stdout
from longshore.services.htcondor.submission_record import DagSubmission, SubmissionRecord

BEGAN = "001 (042.000.000) 2026-11-22 10:48:31 Job executing on host: <127.0.0.1:1>\n...\n"
ABORTED = (
    "009 (042.000.000) 2026-11-22 10:48:51 Job was aborted.\n\ttidying up (by user ann)\n...\n",
    DagmanEnd(at=1795344531.0, is_removed=True, reason="tidying up (by user ann)"),
)
KILLED = (
    "005 (042.000.000) 2026-11-22 10:48:51 Job terminated.\n\t(0) Abnormal termination (signal 9)\n...\n",
    DagmanEnd(at=1795344531.0, is_removed=True, reason="signal 9"),
)
ENDED = (
    "005 (042.000.000) 2026-11-22 10:48:51 Job terminated.\n\t(1) Normal termination (return value 1)\n...\n",
    DagmanEnd(at=1795344531.0, is_removed=False, exit=1),
)
SAID = """
11/22/26 10:48:31 Daemon Log is logging: D_ALWAYS D_ERROR D_STATUS
11/22/26 10:48:31 DAGMAN_LOG_ON_NFS_IS_ERROR setting: False
11/22/26 10:48:31 ERROR: Node j99 not found!
11/22/26 10:48:31 ERROR: Unknown child node j99 specified
11/22/26 10:48:31 ERROR: Node j99 not found!
11/22/26 10:48:31 ERROR: the following job(s) failed:
11/22/26 10:48:32 Warning is fatal error because of DAGMAN_USE_STRICT setting
"""


@pytest.mark.parametrize(("text", "end"), [ABORTED, KILLED, ENDED, ("", None)])
def test_end_of_dagman_by_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: DagmanEnd | None
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    path = tmp_path / "run.dag.dagman.log"
    path.write_text(BEGAN + text, "utf-8")
    assert read_dagman_end(path, 42) == end
    assert read_dagman_end(path, 7) is None
    path.write_text(BEGAN + text + BEGAN, "utf-8")
    assert read_dagman_end(path, 42) is None, "it was started again"


def test_errors_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "run.dag.dagman.out"
    assert dag_errors(path) == []
    path.write_text(SAID, "utf-8")
    assert dag_errors(path) == [
        "ERROR: Node j99 not found!",
        "ERROR: Unknown child node j99 specified",
        "Warning is fatal error because of DAGMAN_USE_STRICT setting",
    ]


@pytest.mark.parametrize("word", ["failed with status 127", "died on signal 9 (Killed)"])
def test_barrier_failures_in_messages(tmp_path: Path, word: str) -> None:
    path = tmp_path / "run.dag.dagman.out"
    assert barrier_failures(path) == []
    path.write_text(f"{SAID}11/22/26 10:48:33 PRE Script of node g0 {word}\n", "utf-8")
    assert barrier_failures(path) == [f"PRE Script of node g0 {word}"]


def test_the_report_has_dagmans_errors(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.wms.mkdir()
    life = Life(v=FORMAT, life=1, t=0.0, host="ap", pid=0, boot="b", by="submit", longshore="1")
    book = SubmissionRecord(submissions=(DagSubmission(life=life, cluster=42, schedd="ap"),))
    removed = list(status_lines.lines(run, book, None, ABORTED[1], lambda: JobPhases(1)))
    assert removed[-1] == "DAGMan ended 2026-11-22T10:48:51Z: tidying up (by user ann)"
    (run.wms / "run.dag.lib.err").write_text("\ncondor_dagman: libcondor.so is not there\n\n", "utf-8")
    assert list(status_lines.lines(run, book, None, ENDED[1], lambda: JobPhases(1)))[-1] == (
        "DAGMan did not start: condor_dagman: libcondor.so is not there"
    )
    (run.wms / "run.dag.dagman.out").write_text(SAID, "utf-8")
    said = list(status_lines.lines(run, book, None, ENDED[1], lambda: JobPhases(1)))
    assert "DAGMan says: ERROR: Node j99 not found!" in said
    assert said[-1] == f"All its messages are in '{run.wms / 'run.dag.dagman.out'}'"
    waits = {"JobStatus": 1, "JobCoolDownExpiration": 1795345331}
    assert list(status_lines.lines(run, book, [waits], None, lambda: JobPhases(1)))[-1] == (
        "DAGMan itself waits: HTCondor starts it again 2026-11-22T11:02:11Z"
    )
    begun = SubmissionRecord(submissions=book.submissions, pending=book.submissions[0])
    assert next(iter(status_lines.lines(run, begun, None, None, lambda: JobPhases(1)))).startswith(
        "Another submit was begun 1970-01-01"
    )


def test_output_of_the_library_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    sys.stdout.write("before\n")
    with silence_stdout():
        os.write(1, b"Running rescue DAG 1\n")
    sys.stdout.write("behind\n")
    assert capfd.readouterr().out == "before\nbehind\n"
