"""Plug-ins of the real BPS under Longshore: Parsl's, and one of a test by its dotted name."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bps.plugin_runs import COMMANDS, ISR
from tests.bps.real_tasks import END_S, PAYLOAD, BpsShell, bps_shell, make_repository
from tests.bps_environment import BpsEnvironment

from longshore.contract.service import RunPaths
from longshore.keeper.protocol import RUN_VARIABLE
from longshore.rundir.run_directory import read_card
from longshore.system.host import process_command, processes_with_variable

pytestmark = pytest.mark.bps

PARSL = """\
wmsServiceClass: lsst.ctrl.bps.parsl.ParslService
computeSite: here
site:
  here:
    class: lsst.ctrl.bps.parsl.sites.Local
    cores: 2
"""

RETRIED = COMMANDS.replace(ISR, "echo {visit} $A > {raw}") + 'numberOfRetries: 3\nenvironment: {A: "${HOME}/x"}\n'

FILE = """\
wmsServiceClass: bps_plugin.FileService
computeSite: here
site: {here: {description: a site}}
"""


@pytest.fixture
def shell(tmp_path: Path, bps: BpsEnvironment) -> BpsShell:
    """A shell in which the plug-in of the tests can be imported."""
    shutil.copy(Path(__file__).resolve().parents[1] / "data" / "bps" / "bps_plugin.py", tmp_path)
    made = bps_shell(tmp_path, bps)
    return BpsShell(folder=tmp_path, env={**made.env, "FILE_SERVICE": str(tmp_path)})


def submitted(shell: BpsShell, text: str) -> Path:
    """Submit a configuration and return the run directory."""
    (shell.folder / "run.yaml").write_text(text, "utf-8")
    return Path(json.loads(shell("longshore", "submit", "run.yaml", "--json").stdout)["submit_dir"])


def counted(shell: BpsShell, run: Path) -> dict[str, dict[str, int]]:
    """Return the number of jobs per label and state."""
    report = json.loads(shell("longshore", "report", "--id", run, "--json").stdout)["runs"][0]
    return {
        label: {state: count for state, count in states.items() if count} for label, states in report["labels"].items()
    }


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds, which is looked up without a command: those import the packages of BPS."""
    latest = time.monotonic() + END_S
    while not is_so():
        assert time.monotonic() < latest
        time.sleep(0.2)


def phase_of(run: Path) -> str:
    """Return how far the process of the plug-in is."""
    return str(json.loads((run / "wms" / "plugin.json").read_text("utf-8"))["phase"])


def programs_of(run: Path) -> set[str]:
    """Return the names of all programs that carry the token of a run."""
    token = read_card(RunPaths(run)).run_token
    found = (process_command(pid) for pid, _ in processes_with_variable(RUN_VARIABLE, token))
    return {Path(word).name for words in found for word in words}


@pytest.mark.bulk
@pytest.mark.timeout(END_S)
def test_parsl_runs_real_tasks_to_complete_datasets(shell: BpsShell) -> None:
    make_repository(shell, 1, 2)
    (shell.folder / "run.yaml").write_text(PAYLOAD + PARSL, "utf-8")
    done = shell("longshore", "submit", "run.yaml", "--wait")
    assert "has no reports: jobs record their starts and ends themselves" in done.stderr
    run = Path(done.stdout.partition("Submit dir: ")[2].splitlines()[0])
    labels = {"pipetaskInit": 1, "isr": 2, "calib": 2, "coadd": 2, "finalJob": 1}
    assert counted(shell, run) == {label: {"SUCCEEDED": count} for label, count in labels.items()}
    collection = "/".join(run.parts[-4:])
    assert shell.count_datasets(collection, "demo_postISR", "demo_calexp", "demo_coadd") == [2, 2, 2]
    # What Parsl's plug-in wrote is there as well, and the logs are found.
    assert (run / "parsl_workflow.pickle").is_file()
    assert "lsst" in shell("longshore", "logs", str(run), "--label", "coadd").stdout


@pytest.mark.bulk
@pytest.mark.timeout(END_S)
def test_a_failure_under_parsl_is_told(shell: BpsShell) -> None:
    command = "test {visit} = 1 && echo {visit} > {raw} || (echo 'try {wmsAttemptNum}'; exit 3)"
    text = RETRIED.replace("echo {visit} $A > {raw}", command) + PARSL
    run = submitted(shell, text)
    wait_until(lambda: phase_of(run) == "ended")
    assert shell("longshore", "status", run, check=False).returncode == 19
    report = shell("longshore", "report", "--id", run, "--return-exit-codes").stdout
    assert "Plug-in: ended" in report
    tries = [path.read_text("utf-8") for path in sorted((run / "logs").glob("isr/*/isr_2.*.log"))]
    assert tries == [f"try {number}\n" for number in range(len(tries))]
    assert len(tries) > 1
    found = counted(shell, run)
    assert found["isr"] == {"SUCCEEDED": 1, "FAILED": 1}
    assert found["sum"].keys() <= {"PRUNED", "DELETED"}
    assert found["finalJob"] == {"SUCCEEDED": 1}
    refused = shell("longshore", "restart", str(run), "--set", "requestMemory=200", check=False)
    assert refused.returncode == 6
    assert "restarts a run as it was" in refused.stderr


@pytest.mark.timeout(END_S)
def test_cancel_of_a_run_under_parsl_leaves_no_process(shell: BpsShell) -> None:
    run = submitted(shell, RETRIED.replace("echo {visit} $A > {raw}", "setsid sleep 600") + PARSL)
    # Workers and jobs have sessions of their own.
    wait_until(lambda: programs_of(run) >= {"process_worker_pool.py", "sleep"})
    cancelled = shell("longshore", "cancel", run)
    assert "Successfully canceled" in cancelled.stdout
    assert "may still" not in cancelled.stderr
    assert "the final job runs" not in cancelled.stderr
    assert programs_of(run) == set()
    assert shell("longshore", "status", run, check=False).returncode == 16


def test_a_plug_in_gets_the_whole_workflow_and_its_reports_come_through(shell: BpsShell) -> None:
    ordering = "ordering: {by_visit: {labels: isr, dimensions: visit}}\nqueue: long\nproject: p\n"
    run = submitted(shell, RETRIED + ordering + FILE)
    seen = json.loads((shell.folder / "seen.json").read_text("utf-8"))
    assert seen["nodes"]["group_by_visit_1"] == "GenericWorkflowGroup"
    assert ["group_by_visit_1", "group_by_visit_2"] in seen["edges"]
    assert [len(group) for group in seen["groups"].values()] == [1, 1]
    assert seen["final"] == "finalJob"
    assert seen["attributes"]["bps_project"] == "p"
    assert seen["attributes"]["bps_isjob"] == "True"
    assert seen["defined"][1] == json.loads((run / "run.json").read_text("utf-8"))["name"]
    assert seen["config"][:2] == [str(run), "bps_plugin.FileService"]
    total = next(job for job in seen["jobs"].values() if job["label"] == "sum")
    assert (total["memory"], total["retries"], total["queue"]) == (100, 3, "long")
    assert total["environment"] == {"A": "<ENV:HOME>/x"}
    assert total["program"] == "sh"
    assert seen["jobs"]["finalJob"]["line"].startswith(f"/bin/bash {run}/final_job.bash")

    assert counted(shell, run)["sum"] == {"RUNNING": 1}
    refused = shell("longshore", "cancel", run, "--pass-thru", "refuse", check=False)
    assert refused.returncode == 6
    assert "did not cancel the run: 77 may not be ended" in refused.stderr
    assert "Successfully canceled" in shell("longshore", "cancel", run).stdout
    assert shell("longshore", "status", run, check=False).returncode == 16


@pytest.mark.bulk
def test_a_plug_in_restarts_a_run_by_its_id(shell: BpsShell) -> None:
    run = submitted(shell, RETRIED + FILE)
    shell("longshore", "cancel", run)
    # A restart that was refused changes nothing: the run keeps its id, and the next one is not taken for it.
    (shell.folder / "closed").touch()
    refused = shell("longshore", "restart", str(run), check=False)
    assert refused.returncode == 6
    assert "refused the run: the queue is closed" in refused.stderr
    assert shell("longshore", "status", run, check=False).returncode == 16
    (shell.folder / "closed").unlink()
    shell("longshore", "restart", str(run))
    assert shell("longshore", "status", run, check=False).returncode == 0
    assert (shell.folder / "restarted").read_text("utf-8").split() == ["77", "77"]


def test_a_plug_in_that_refuses_a_run_is_quoted_and_leaves_nothing(shell: BpsShell) -> None:
    (shell.folder / "run.yaml").write_text(f"{RETRIED}{FILE}operator: nobody\n", "utf-8")
    refused = shell("longshore", "submit", "run.yaml", check=False)
    assert refused.returncode == 6
    assert "'bps_plugin.FileService' refused the run: RuntimeError: nobody may not run" in refused.stderr
    assert not list(shell.folder.glob("submit/*/*/*/*"))
