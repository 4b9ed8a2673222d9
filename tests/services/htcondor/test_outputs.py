"""Declared outputs on HTCondor: the wrapper around the command, and the verdict from its exit code and its log."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from tests.services.htcondor.rendering import ROOT, context

from longshore.contract.service import RunPaths
from longshore.model.event import FORMAT, AttemptSucceeded, Ended, Life, OutputFinding, OutputState
from longshore.model.states import Cause, JobState
from longshore.model.submission import RunIdentity, Submission
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobRules, JobSettings, OutputCheck, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.reports.explain import explain_job
from longshore.reports.report import report_run
from longshore.rundir.job_table import read_header
from longshore.rundir.run_directory import write_card
from longshore.runstate.open_run import OpenRun
from longshore.services.htcondor.events.dag_jobs import DagJobs
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.events.log_records import UserLog, parse_eviction, parse_hold
from longshore.services.htcondor.events.to_events import OutputVerdicts
from longshore.services.htcondor.render.dag import dag_text, render
from longshore.services.htcondor.service import HTCondorService
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    SubmissionRecord,
    read_submissions,
    write_submissions,
)


def workflow(check: OutputCheck = OutputCheck.EXISTS, paths: tuple[str, ...] = ("/d/a 1.fits", "b.fits")) -> Workflow:
    settings = JobSettings(label="l", rules=JobRules(check_outputs=check))
    jobs = [
        Job(name=f"j{number}", label="l", command=("/bin/make", path), settings=settings, outputs=(path,))
        for number, path in enumerate(paths)
    ]
    return Workflow("w", Dag.by_name(jobs), files={path: File(name=path, path=path) for path in paths})


def test_the_wrapper_runs_the_command_with_the_outputs_of_each_job() -> None:
    ctx = msgspec.structs.replace(context(), templates={"longshore-job": "#!/bin/sh\n"})
    text = "".join(dag_text(workflow(), ctx))
    assert "  executable = /bin/sh\n" in text
    (arguments,) = (line for line in text.splitlines() if line.startswith("  arguments = "))
    assert arguments == f"  arguments = \"{ROOT}/wms/longshore-job -n $(Cluster) -o 'exists $(w)' -- /bin/make $(a)\""
    first, second = (line for line in text.splitlines() if line.startswith("VARS "))
    assert """w="''/d/a 1.fits''\"""" in first
    assert f'w="{ROOT}/b.fits"' in second
    assert "wms/longshore-job" in {str(file.path) for file in render(workflow(), ctx)}


@pytest.mark.parametrize(
    ("wanted", "site"),
    [
        (workflow(OutputCheck.NONE), {}),
        (workflow(paths=("s3://b/x",)), {}),
        (workflow(paths=("b.fits",)), {"fileSystem": "transfer"}),
    ],
)
def test_without_outputs_to_check_the_command_runs_by_itself(wanted: Workflow, site: dict[str, str]) -> None:
    text = "".join(dag_text(wanted, context(site)))
    assert "  executable = /bin/make\n" in text
    assert "longshore-job" not in text


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run whose jobs leave logs."""
    (tmp_path / "workflow.jsonl").write_bytes(b"".join(workflow_lines(workflow(OutputCheck.FRESH))))
    (tmp_path / "logs" / "l" / "00").mkdir(parents=True)
    return RunPaths(tmp_path)


END = Ended(j=1, a=1, exit=73, cause=Cause.EXIT, reason="exit code 73")


@pytest.mark.parametrize("log", ["j1.7.1.log", "j1.7.log"])
def test_the_wrapper_tells_the_verdict_by_exit_code_and_log(run: RunPaths, log: str) -> None:
    phases = JobPhases(2)
    phases.add_cluster(1, 7)
    verdicts = OutputVerdicts(DagJobs(run, read_header(run)))
    assert verdicts.judge(END, phases) == END, "there is no log"
    path = run.root / "logs" / "l" / "00" / log
    path.write_text("longshore: outputs: 0 missing\nand more of the job\n", "utf-8")
    assert verdicts.judge(END, phases) == END, "the job itself ends with this code"
    path.write_text("x\nlongshore: outputs: 0 empty\n", "utf-8")
    end = verdicts.judge(END, phases)
    assert (end.cause, end.exit) == (Cause.OUTPUT_MISSING, 0)
    assert end.reason == f"the output '{run.root}/b.fits' is empty"
    assert end.outputs == (OutputFinding(0, OutputState.EMPTY, f"{run.root}/b.fits"),)
    other = msgspec.structs.replace(END, exit=72)
    assert verdicts.judge(other, phases) == other


TRANSFER = "Transfer output files failure at execution point s@n while sending files to access point a. Details: 1"


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        ("reading from file /x/never.txt: (errno 2) No such file or directory\n\tCode 12 Subcode 2", "OUTPUT_MISSING"),
        ("reading from file /x/closed.txt: (errno 13) Permission denied\n\tCode 12 Subcode 13", "TRANSFER"),
        ("writing to file /x/a.txt: (errno 2) No such file or directory\n\tCode 13 Subcode 2", "TRANSFER"),
    ],
)
def test_a_file_that_was_not_transferred_back(details: str, cause: str) -> None:
    hold = parse_hold(f"Job was held.\n\t{TRANSFER} total failures: first failure: {details}".encode())
    assert hold.cause == cause
    code = f"Code {hold.code} Subcode {hold.subcode}"
    end = parse_eviction(f"Job was evicted. {code}\n\tReason: {TRANSFER} total failures: {details}".encode())
    assert end.cause == cause


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        ("reading from file /x/in.txt: (errno 2) No such file or directory\n\tCode 13 Subcode 2", "INPUT_MISSING"),
        ("reading from file /x/in.txt: (errno 13) Permission denied\n\tCode 13 Subcode 13", "TRANSFER"),
        ("writing to file /y/in.txt: (errno 28) No space left on device\n\tCode 12 Subcode 28", "TRANSFER"),
    ],
)
def test_a_file_that_was_not_transferred_to_the_job(details: str, cause: str) -> None:
    words = "Transfer input files failure at execution point s@n while receiving files from access point a. Details: 1"
    assert parse_hold(f"Job was held.\n\t{words} total failures: {details}".encode()).cause == cause


@pytest.mark.parametrize("code", [12, 13, 32, 33])
def test_a_transfer_that_failed_for_an_unknown_reason(code: int) -> None:
    assert parse_hold(f"Job was held.\n\tof some kind\n\tCode {code} Subcode 0".encode()).cause == "TRANSFER"


def record_of(cluster: int, out: str, start: int = 1) -> str:
    values = f'"cluster":{cluster},"start":{start},"out":"{out}"'
    return f'{{{values},"again":{{{values}}}}}\n'


def log_of(cluster: int, node: str, start: int = 1) -> str:
    when = "2026-11-22 06:00:0"
    requeue = f"004 ({cluster}.000.000) {when}1 Job was evicted.\n\t(0) CPU times\n...\n"
    return (
        f'000 ({cluster}.000.000) {when}0 Job submitted\n    [ DAGNodeName = "{node}" ]\n...\n'
        + "".join(
            f"001 ({cluster}.000.000) {when}1 Job executing on host: <h>\n...\n{requeue}" for _ in range(start - 1)
        )
        + f"001 ({cluster}.000.000) {when}2 Job executing on host: <h>\n...\n"
        f"005 ({cluster}.000.000) {when}3 Job terminated.\n\t(1) Normal termination (return value 0)\n...\n"
    )


@pytest.fixture
def logged(tmp_path: Path) -> RunPaths:
    """A run on HTCondor whose second job succeeded with a stale output, by its record."""
    found = RunPaths(tmp_path)
    found.workflow.write_bytes(b"".join(workflow_lines(workflow())))
    (found.wms / "outputs").mkdir(parents=True)
    found.journal.mkdir()
    (found.wms / "outputs" / "8.1").write_text(record_of(8, "0 stale"), "utf-8")
    (found.wms / "run.dag.nodes.log").write_text(log_of(7, "j0") + log_of(8, "j1"), "utf-8")
    life = Life(v=FORMAT, life=1, t=1795329133.0, host="ap", pid=1, boot="", by="submit")
    write_submissions(found, SubmissionRecord(submissions=(DagSubmission(life=life, cluster=1, schedd="ap"),)))
    return found


def ends_of(run: RunPaths, *, brief: bool = False) -> dict[int, Ended | AttemptSucceeded]:
    source = LogEventSource(run, read_submissions(run), lambda: brief)
    events, _ = source.brief_events() if brief else source.events()
    return {event.j: event for event in events if isinstance(event, Ended | AttemptSucceeded)}


def named(run: RunPaths, state: OutputState = OutputState.STALE) -> tuple[OutputFinding, ...]:
    return (OutputFinding(0, state, f"{run.root}/b.fits"),)


def test_a_success_with_a_stale_output_is_told_by_its_record(logged: RunPaths) -> None:
    brief = ends_of(logged, brief=True)
    assert isinstance(brief[0], AttemptSucceeded), "a job without a record stays one event"
    full = ends_of(logged)
    for end in (brief[1], full[1], ends_of(logged)[1]):
        assert isinstance(end, Ended)
        assert (end.cause, end.exit, end.outputs) == (None, 0, named(logged))
        assert end.reason == f"the output '{logged.root}/b.fits' is as it was before the attempt"
    assert isinstance(full[0], Ended)
    assert full[0].outputs is None


class LogService(HTCondorService):
    """The service without a pool: HTCondor's log tells all."""

    def is_alive(self, run: RunPaths) -> bool:
        return False


def test_report_and_explain_tell_of_a_stale_output_of_a_success(logged: RunPaths) -> None:
    (logged.wms / "run.dag.dagman.log").write_text(log_of(1, "dag"), "utf-8")
    handed_over = Submission(id="1", by="submit", at=1795329133.0, user="ada", host="ap")
    card = RunIdentity(
        format=1,
        id="k7f3aa",
        name="w",
        service="htcondor",
        longshore="0",
        created_at=handed_over.at,
        expected=2,
        labels={"l": 2},
        submissions=(handed_over,),
    )
    write_card(logged, card)
    opened = OpenRun(run=logged, card=card)
    opened.__dict__["service"] = LogService()
    told = f"the output '{logged.root}/b.fits' is as it was before the attempt"
    for details in (False, True):
        report = report_run(opened, details=details, now=1795329999.0)
        assert f"a job succeeded with an output that is stale or empty, 'j1': {told}" in report.notes
        assert report.counts[JobState.SUCCEEDED] == 2
    (attempt,) = explain_job(opened, "j1").attempts
    assert (attempt.reason, attempt.outputs) == (told, named(logged))


@pytest.mark.parametrize(
    "text",
    [
        record_of(8, "0 missing"),
        record_of(9, "0 stale"),
        record_of(8, "0 stale", start=2),
        record_of(8, "0 stale").replace("0 stale", "0 empty", 1),
        record_of(8, "0 stale")[:-1],
        record_of(8, "3 stale"),
        record_of(8, "0 stale " * (1 << 17)),
        "",
    ],
    ids=["missing", "cluster", "start", "changed", "cut", "number", "large", "empty"],
)
def test_a_record_of_another_form_says_nothing(logged: RunPaths, text: str) -> None:
    (logged.wms / "outputs" / "8.1").write_text(text, "utf-8")
    for brief in (True, False):
        end = ends_of(logged, brief=brief)[1]
        assert isinstance(end, Ended)
        assert (end.cause, end.outputs) == (None, None)


@pytest.mark.parametrize("is_folder", [False, True])
def test_records_are_not_followed_through_links(logged: RunPaths, *, is_folder: bool) -> None:
    link = logged.wms / "outputs" if is_folder else logged.wms / "outputs" / "8.1"
    link.rename(logged.root / "elsewhere")
    link.symlink_to(logged.root / "elsewhere")
    end = ends_of(logged)[1]
    assert isinstance(end, Ended)
    assert end.outputs is None


def test_a_record_belongs_to_one_start_of_its_job(logged: RunPaths) -> None:
    (logged.wms / "outputs" / "8.1").rename(logged.wms / "outputs" / "8.2")
    assert getattr(ends_of(logged)[1], "outputs", None) is None, "it has another name than values"
    shutil.rmtree(logged.cache)
    (logged.wms / "outputs" / "8.2").write_text(record_of(8, "0 empty", start=2), "utf-8")
    (logged.wms / "run.dag.nodes.log").write_text(log_of(8, "j1", start=2), "utf-8")
    end = ends_of(logged)[1]
    assert isinstance(end, Ended)
    assert (end.a, end.outputs) == (2, named(logged, OutputState.EMPTY))


def test_a_record_that_comes_with_a_later_part_of_the_log_is_read(logged: RunPaths) -> None:
    record, log = logged.wms / "outputs" / "8.1", logged.wms / "run.dag.nodes.log"
    text = record.read_text("utf-8")
    shutil.rmtree(record.parent)
    log.write_text(log_of(7, "j0"), "utf-8")
    assert set(ends_of(logged)) == {0}
    record.parent.mkdir()
    record.write_text(text, "utf-8")
    log.write_text(log_of(7, "j0") + log_of(8, "j1"), "utf-8")
    assert getattr(ends_of(logged)[1], "outputs", None) == named(logged)


def test_a_log_is_read_as_far_as_it_went_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(log_of(7, "j0") * 2000, "utf-8")
    log = UserLog(path)
    texts = log.read_texts()
    count = len(next(texts))
    with path.open("a", encoding="utf-8") as file:
        file.write(log_of(8, "j1"))
    assert count + sum(map(len, texts)) == 3 * 2000
    assert sum(map(len, log.read_texts())) == 3
