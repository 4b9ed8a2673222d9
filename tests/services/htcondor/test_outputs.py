"""Declared outputs on HTCondor: the wrapper around the command, and the verdict from its exit code and its log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.services.htcondor.rendering import ROOT, context

from longshore.contract.context import RunPaths
from longshore.engine.rundir.job_table import read_header
from longshore.model.lines.codec import workflow_lines
from longshore.model.run.event import Ended, OutputFinding, OutputState
from longshore.model.run.states import Cause
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.file import File
from longshore.model.workflow.attempt_rules import JobRules, OutputCheck
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.workflow import Workflow
from longshore.services.htcondor.events.dag_jobs import DagJobs
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.events.output_verdicts import OutputVerdicts
from longshore.services.htcondor.events.parse_record import parse_eviction, parse_hold
from longshore.services.htcondor.render.dag import dag_text
from longshore.services.htcondor.render.render import render


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
    assert arguments == f"  arguments = \"{ROOT}/wms/longshore-job -o 'exists $(w)' -- /bin/make $(a)\""
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
        ("reading from file /x/closed.txt: (errno 13) Permission denied\n\tCode 12 Subcode 13", "OUTPUT"),
        ("writing to file /x/a.txt: (errno 2) No such file or directory\n\tCode 13 Subcode 2", "OUTPUT"),
    ],
)
def test_a_file_that_was_not_transferred_back(details: str, cause: str) -> None:
    hold = parse_hold(f"Job was held.\n\t{TRANSFER} total failures: first failure: {details}".encode())
    assert hold.cause == cause
    code = f"Code {hold.code} Subcode {hold.subcode}"
    end = parse_eviction(f"Job was evicted. {code}\n\tReason: {TRANSFER} total failures: {details}".encode())
    assert end.cause == cause
