"""Longshore as a plug-in of the real BPS: its command, and its interface as other programs use it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.bps.real_tasks import END_S, PAYLOAD, BpsShell, bps_shell, make_repository
from tests.bps_environment import BpsEnvironment

pytestmark = pytest.mark.bps
CLASS = "longshore.bps.LongshoreService"

AS_CM_SERVICE = """
import json, sys
from lsst.ctrl.bps import WmsStates
from lsst.utils import doImport

service = doImport("longshore.bps.LongshoreService")({"config": {}})
state, message = service.get_status(sys.argv[1])
report = service.report(wms_workflow_id=sys.argv[1])[0][0]
final = [job.state.name for job in report.jobs if job.name == "finalJob"]
print(json.dumps({
    "state": state.name,
    "message": message,
    "report": report.state.name,
    "final": final,
    "succeeded": {label: counts[WmsStates.SUCCEEDED] for label, counts in report.job_summary.items()},
    "states": sorted({state.name for counts in report.job_summary.values() for state in counts}),
    "summary": report.run_summary,
    "jobs": report.total_number_jobs,
    "operator": report.operator,
    "payload": report.payload,
    "path": report.path,
}))
"""
"""What cm-service asks of a service class, with the submit directory as the id of a run."""

WORKFLOW = """
import json, sys, time
from pathlib import Path
from lsst.ctrl.bps import (
    BpsConfig, GenericWorkflow, GenericWorkflowExec, GenericWorkflowFile, GenericWorkflowJob, WmsStates,
)
from longshore.bps import LongshoreService

def job(name, label, text, **values):
    made = GenericWorkflowJob(name, label, executable=GenericWorkflowExec("sh", "/bin/sh"), arguments=f"-c '{text}'")
    made.request_memory, made.request_cpus = 100, 1
    for key, value in values.items():
        setattr(made, key, value)
    return made

def submitted(workflow, **config):
    folder = Path.cwd() / "submit" / workflow.name
    folder.mkdir(parents=True)
    values = {
        "uniqProcName": workflow.name, "submitPath": str(folder), "payload": {"outputRun": workflow.name},
        "computeSite": "here", "site": {"here": {"description": "x"}},
        "wmsServiceClass": "longshore.bps.LongshoreService", **config,
    }
    config = BpsConfig(values)
    service = LongshoreService(config)
    service.run_submission_checks()
    prepared = service.prepare(config, workflow, str(folder))
    return service, service.submit(prepared), folder

def over(service, run):
    while (report := service.report(wms_workflow_id=run)[0][0]).state in (WmsStates.RUNNING, WmsStates.READY):
        time.sleep(0.2)
    return report
"""


@pytest.fixture
def shell(tmp_path: Path, bps: BpsEnvironment) -> BpsShell:
    """A shell in which runs of the test alone are known."""
    return bps_shell(tmp_path, bps)


@pytest.mark.bulk
@pytest.mark.timeout(END_S)
def test_the_command_bps_runs_real_tasks_on_the_engine_to_complete_datasets(shell: BpsShell) -> None:
    make_repository(shell, 2, 2)
    (shell.folder / "run.yaml").write_text(f"{PAYLOAD}wmsServiceClass: {CLASS}\n", "utf-8")
    typed = shell("bps", "submit", "run.yaml").stdout
    # The words by which campaign managers find a run.
    folder = re.search(r"^Submit dir: (.*)$", typed, re.MULTILINE)
    run = re.search(r"^Run Id: (.*)$", typed, re.MULTILINE)
    assert folder is not None
    assert run is not None
    latest = time.monotonic() + END_S
    while shell("bps", "status", "--wms-service-class", CLASS, "--id", folder[1], check=False).returncode:
        assert time.monotonic() < latest

    found = shell.python(AS_CM_SERVICE, folder[1])
    assert (found["state"], found["report"], found["final"]) == ("SUCCEEDED", "SUCCEEDED", ["SUCCEEDED"])
    expected = {"pipetaskInit": 1, "isr": 4, "calib": 4, "coadd": 2, "finalJob": 1}
    assert found["succeeded"] == expected
    assert found["summary"] == ";".join(f"{label}:{count}" for label, count in expected.items())
    assert len(found["states"]) == 11
    assert (found["jobs"], found["payload"], found["path"]) == (12, "demo", folder[1])
    collection = "/".join(Path(folder[1]).parts[-4:])
    assert shell.count_datasets(collection, "demo_postISR", "demo_calexp", "demo_coadd") == [4, 4, 2]

    table = shell("bps", "report", "--wms-service-class", CLASS, "--id", run[1]).stdout
    assert f"SUCCEEDED 100 {run[1]}" in table
    assert re.search(r"^TOTAL +(0 +){8}12 +0 +0 +12$", table, re.MULTILINE)
    # The submit directory is a run directory as well, with what BPS wrote.
    assert "SUCCEEDED" in shell("longshore", "report", "--id", folder[1]).stdout
    assert list(Path(folder[1]).glob("*.pkg.info.yaml"))


def test_failed_jobs_have_exit_codes_and_run_again_after_their_cause_is_gone(shell: BpsShell) -> None:
    found = shell.python(
        WORKFLOW
        + """
workflow = GenericWorkflow("fails")
text = "echo <WMS:attemptNum> $TRY >> tries; test -e cure || exit 3"
workflow.add_job(job("a", "first", text, environment={"TRY": "e<WMS:attemptNum>"}))
workflow.add_job(job("b", "second", "echo done > done"), parent_names="a")
service, run, folder = submitted(workflow, requestMemory=100)
failed = over(service, run.run_id)
Path("cure").touch()
before = service.list_submitted_jobs(run.run_id)
new, name, message = service.restart(str(folder))
ended = over(service, str(folder))
print(json.dumps({
    "failed": failed.state.name, "codes": failed.exit_code_summary, "listed": before,
    "restart": [new == run.run_id, name, message], "ended": ended.state.name, "again": service.restart(str(folder)),
    "tries": next(path.read_text() for path in Path.cwd().rglob("tries")),
}))
"""
    )
    assert (found["failed"], found["ended"]) == ("FAILED", "SUCCEEDED")
    assert found["codes"] == {"first": [3], "second": []}
    assert found["tries"] == "0 e0\n1 e1\n"
    assert found["listed"] == []
    assert found["restart"] == [True, "fails", ""]
    assert found["again"][:2] == [None, None]
    assert "succeeded" in found["again"][2]


def test_a_live_run_is_listed_and_cancelled_with_its_final_job_run(shell: BpsShell) -> None:
    found = shell.python(
        WORKFLOW
        + """
workflow = GenericWorkflow("long")
workflow.add_job(job("a", "first", "sleep 600"))
workflow.add_final(job("finalJob", "finalJob", "echo last > last"))
service, run, folder = submitted(workflow)
listed = service.list_submitted_jobs(wms_id=str(folder))
cancelled = service.cancel(listed[0])
report = over(service, run.run_id)
unknown = service.list_submitted_jobs(wms_id="zzzzz"), service.get_status("zzzzz"), service.cancel("zzzzz")
print(json.dumps({
    "listed": listed == [run.run_id], "cancelled": cancelled, "state": report.state.name,
    "jobs": {each.name: each.state.name for each in report.jobs}, "last": Path("last").is_file(),
    "unknown": [unknown[0], unknown[1][0].name, unknown[1][1], unknown[2]], "ping": service.ping(),
}))
"""
    )
    assert found["listed"]
    assert found["cancelled"][0] is True
    assert found["state"] == "DELETED"
    assert found["jobs"] == {"a": "DELETED", "finalJob": "SUCCEEDED"}
    assert found["last"]
    assert found["unknown"][:2] == [[], "UNKNOWN"]
    assert "zzzzz" in found["unknown"][2]
    assert found["unknown"][3][0] is False
    assert found["ping"][0] == 0


def test_the_workflow_of_bps_is_kept_whole(shell: BpsShell) -> None:
    """Values of commands, variables, files, quanta, tags, groups and empty jobs arrive."""
    found = shell.python(
        WORKFLOW
        + """
workflow = GenericWorkflow("whole")
for visit in (1, 2):
    for detector in (1, 2):
        made = job(f"isr_{visit}_{detector}", "isr", "cat <FILE:given> > out_{visit}_$A; test $B = <ENV:HOME>")
        made.cmdvals, made.tags = {"visit": visit}, {"visit": visit, "detector": detector}
        made.quanta_counts.update({"isr": 2, "calib": 1})
        made.environment = {"A": f"{visit}{detector}", "B": "<ENV:HOME>"}
        made.number_of_retries, made.retry_unless_exit = 3, [1, 2]
        made.request_memory, made.memory_multiplier, made.request_memory_max = 50, 2.0, 400
        workflow.add_job(made)
        made = job(f"warp_{visit}_{detector}", "warp", "true", tags={"visit": visit, "detector": detector})
        workflow.add_job(made, parent_names=f"isr_{visit}_{detector}")
given = Path.cwd() / "given.txt"
given.write_text("content")
for name in [each for each in workflow if each.startswith("isr")]:
    workflow.add_job_inputs(name, [GenericWorkflowFile("given", str(given), wms_transfer=True, job_shared=True)])
workflow.add_special_job_ordering({
    "by_visit": {"labels": "isr", "dimensions": "visit", "implementation": "group"},
    "apart": {"labels": "warp", "dimensions": "visit", "implementation": "noop"},
})
workflow.run_attrs = {"bps_operator": "someone", "bps_campaign": "c1"}
service, run, folder = submitted(workflow, ordering={
    "by_visit": {"labels": "isr", "dimensions": "visit"}, "apart": {"labels": "warp", "dimensions": "visit"},
})
report = over(service, run.run_id)
lines = [json.loads(line) for line in (folder / "workflow.jsonl").read_text().splitlines()]
print(json.dumps({
    "state": report.state.name, "campaign": report.campaign, "operator": report.operator,
    "files": sorted(path.name for path in Path().glob("out_*")), "header": lines[0], "lines": lines[1:],
    "content": Path("out_1_11").read_text(),
}))
"""
    )
    assert (found["state"], found["operator"], found["campaign"]) == ("SUCCEEDED", "someone", "c1")
    assert found["files"] == ["out_1_11", "out_1_12", "out_2_21", "out_2_22"]
    assert found["content"] == "content"
    lines = {line["name"]: line for line in found["lines"]}
    assert lines["isr_2_1"]["c"] == "/bin/sh -c 'cat <FILE:given> > out_2_$A; test $B = ${HOME}'"
    assert (lines["isr_2_1"]["tasks"], lines["isr_2_1"]["tags"]) == (3, {"visit": 2, "detector": 1})
    settings = found["header"]["settings"][lines["isr_2_1"]["s"]]
    assert settings["environment"] == {"A": "21", "B": "<ENV:HOME>"}
    assert (settings["number_of_retries"], settings["retry_unless_exit"]) == (3, [1, 2])
    assert settings["attributes"]["requestMemoryMax"] == 400 * 2**20
    # Jobs outside of a group wait for all of it.
    names = [line["name"] for line in found["lines"]]
    assert [names[parent] for parent in lines["warp_2_1"]["p"]] == ["isr_2_1", "isr_2_2"]
    orderings = {each["name"]: each for each in found["header"]["orderings"]}
    assert orderings["by_visit"].get("implementation", "group") == "group"
    assert orderings["apart"]["implementation"] == "noop"
    for name, label in (("by_visit", "isr"), ("apart", "warp")):
        assert orderings[name]["dimensions"] == ["visit"]
        groups = [[names[job] for job in group["jobs"]] for group in orderings[name]["groups"]]
        assert [sorted(group) for group in groups] == [[f"{label}_{visit}_{n}" for n in (1, 2)] for visit in (1, 2)]


def test_a_job_without_executable_is_refused_and_leaves_the_files_of_bps(shell: BpsShell) -> None:
    found = shell.python(
        WORKFLOW
        + """
from longshore.errors import LongshoreError
workflow = GenericWorkflow("empty")
workflow.add_job(GenericWorkflowJob("a", "first"))
try:
    submitted(workflow)
except LongshoreError as error:
    message = str(error)
print(json.dumps({"message": message, "left": sorted(path.name for path in Path("submit/empty").iterdir())}))
"""
    )
    assert "job 'a' has no executable" in found["message"]
    assert found["left"] == ["empty_config.yaml"]
