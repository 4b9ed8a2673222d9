"""Init job and final job: what they run, when, and what becomes of them after failures and cancellations."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from tests.command import Cli, CommandResult
from tests.e2e.conftest import LeftBehind
from tests.e2e.final_jobs import COMMON, FINAL, said
from tests.workflows import Tasks, WriteRun

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", [])}


def submit(cli: Cli, path: Path, *more: str) -> CommandResult:
    """Submit a run and wait for its end."""
    return cli("submit", path, "--wait", *more)


def test_an_init_job_runs_before_all_others(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    init = "payload: {runInit: true}\npipetask: {pipetaskInit: {runQuantumCommand: 'echo init >> {notes}'}}\n"
    assert submit(cli, write_run(COMMON + init, CHAIN)).returncode == 0
    assert said(tmp_path)[0] == "init"
    assert sorted(said(tmp_path)) == ["a", "b", "c", "init"]


def test_an_init_job_without_a_command_of_its_own_is_refused(
    cli: Cli, write_run: WriteRun, left_behind: LeftBehind
) -> None:
    ran = submit(cli, write_run(COMMON + "payload: {runInit: true}\n", CHAIN))
    assert ran.returncode == 7
    assert "'runInit' asks for an init job, which has no command" in ran.stderr
    assert not left_behind()


@pytest.mark.parametrize("when", ["ALWAYS", "SUCCESS"])
def test_a_final_job_runs_last(cli: Cli, write_run: WriteRun, tmp_path: Path, when: str) -> None:
    path = write_run(COMMON + FINAL + "", CHAIN)
    assert submit(cli, path, "--set", f".finalJob.whenRun={when}").returncode == 0
    assert said(tmp_path)[-1] == "final"
    assert len(said(tmp_path)) == 4


def test_a_final_job_that_is_never_to_run_does_not(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    assert submit(cli, write_run(COMMON + FINAL, CHAIN), "--set", ".finalJob.whenRun=NEVER").returncode == 0
    assert "final" not in said(tmp_path)


@pytest.mark.parametrize(("when", "runs"), [("ALWAYS", True), ("SUCCESS", False)])
def test_after_a_failure(cli: Cli, write_run: WriteRun, tmp_path: Path, when: str, runs: bool) -> None:
    path = write_run(COMMON + FINAL + "pipetask: {A: {runQuantumCommand: 'exit 1'}}\n", CHAIN)
    ran = submit(cli, path, "--set", f".finalJob.whenRun={when}")
    assert ran.returncode == 19
    assert ("final" in said(tmp_path)) is runs
    note = "the final job ran although 2 jobs did not succeed; to run it only after success"
    assert (note in ran.stderr) is runs


def test_the_final_script_is_that_of_bps(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    final = "finalJob: {command: 'echo one', command2: '', command3: 'echo {payloadName}', command5: 'echo never'}\n"
    ran = cli("prepare", write_run(COMMON + final), "--json")
    script = Path(ran.json["submit_dir"], "final_job.bash").read_text("utf-8")
    assert script == "#!/bin/bash\n\nset -e\nset -x\necho one\n\necho run\n"


def test_a_final_job_without_a_command_is_refused(cli: Cli, write_run: WriteRun) -> None:
    ran = submit(cli, write_run(COMMON + "finalJob: {whenRun: ALWAYS, command1: ''}\n"))
    assert ran.returncode == 7
    assert "finalJob.whenRun" in ran.stderr


def test_a_final_job_has_values_of_its_own(cli: Cli, write_run: WriteRun) -> None:
    final = "finalJob: {command1: 'echo $LONGSHORE_JOB_MEMORY_MB; exit 1', requestMemory: 77, numberOfRetries: 0}\n"
    ran = submit(cli, write_run(COMMON + final), "--json")
    assert ran.returncode == 19
    log = Path(ran.json["submit_dir"], "logs", "finalJob", "00", "finalJob.1.log")
    assert "77" in log.read_text("utf-8").splitlines()
    assert not log.with_name("finalJob.2.log").exists()


@pytest.mark.parametrize(("options", "runs"), [((), True), (("--no-final",), False)])
def test_after_a_cancellation(
    cli: Cli, write_run: WriteRun, tmp_path: Path, options: tuple[str, ...], runs: bool
) -> None:
    path = write_run(COMMON + FINAL + "pipetask: {A: {runQuantumCommand: 'sleep 60'}}\n", CHAIN)
    run = cli("submit", path, "--json").json["submit_dir"]
    cancelled = cli("cancel", run, *options)
    assert cancelled.returncode == 0, cancelled.stderr
    deadline = time.monotonic() + 120
    while (status := cli("status", run)).returncode == 15:
        assert time.monotonic() < deadline
    assert status.returncode == 16
    notes = said(tmp_path) if (tmp_path / "notes").exists() else []
    assert notes.count("final") == int(runs)
    assert "b" not in notes


def test_a_list_can_name_variables_of_the_job(cli: Cli, write_run: WriteRun) -> None:
    yaml = 'runQuantumCommand: [echo, "<ENV:LONGSHORE_JOB_NAME>", "${HOME}", "{label}"]\nrequestMemory: 10\n'
    ran = submit(cli, write_run(yaml), "--json")
    assert ran.returncode == 0, ran.stderr
    words = Path(ran.json["submit_dir"], "logs", "A", "00", "a.1.log").read_text("utf-8").split()
    assert words[0] == "a"
    assert words[1].startswith("/")
    assert words[2] == "A"


def test_values_of_the_environment_are_filled_in_where_the_job_runs(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    yaml = """
runQuantumCommand: 'echo "$MINE" && in-the-bin'
environment: {PATH: '{here}/bin:${PATH}', MINE: '<$NOT_SET_ANYWHERE>$GREETING-$$-{label}'}
here: ${HERE}
requestMemory: 10
"""
    program = tmp_path / "bin" / "in-the-bin"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec echo found\n", "utf-8")
    program.chmod(0o755)
    ran = cli("submit", write_run(yaml), "--wait", "--json", env={"HERE": str(tmp_path), "GREETING": "it's"})
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert run.joinpath("logs", "A", "00", "a.1.log").read_text("utf-8") == "<>it's-$$-A\nfound\n"
    assert "it's" not in run.joinpath("workflow.jsonl").read_text("utf-8")
    by_hand = subprocess.run(
        [run / "wms" / "run-job", "a"],
        env={**os.environ, "HERE": str(tmp_path), "GREETING": "bye"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert by_hand.stdout == "<>bye-$$-A\nfound\n", by_hand.stderr


def test_a_program_is_looked_for_where_the_environment_of_the_job_says(
    cli: Cli, write_run: WriteRun, left_behind: LeftBehind
) -> None:
    ran = submit(cli, write_run("runQuantumCommand: [echo, hi]\nenvironment: {PATH: '/nowhere:$NOT_SET_ANYWHERE'}\n"))
    assert ran.returncode == 7
    assert "job 'a' runs 'echo', which is not on the PATH that 'environment' gives it" in ran.stderr
    assert "Correct 'runQuantumCommand' or 'environment.PATH'." in ran.stderr
    assert not left_behind()


def test_a_workflow_in_place_of_the_final_job_is_refused(
    cli: Cli, write_run: WriteRun, left_behind: LeftBehind
) -> None:
    text = COMMON + "finalJob: {implementation: WORKFLOW, command1: 'echo x'}\n"
    for stage in ("transform", "submit"):
        ran = cli(stage, write_run(text))
        assert ran.returncode == 3
        assert "run.yaml:6:28: 'finalJob.implementation' must be" in ran.stderr
        assert "JOB" in ran.stderr
    assert not left_behind()


@pytest.mark.parametrize(("when", "noted"), [("NEVER", False), ("SUBMIT", True)])
def test_when_a_final_job_is_set_up_is_read_and_ignored(cli: Cli, write_run: WriteRun, when: str, noted: bool) -> None:
    text = COMMON + f"finalJob: {{implementation: JOB, whenSetup: {when}, command1: 'echo x'}}\n"
    ran = cli("prepare", write_run(text))
    assert ran.returncode == 0, ran.stderr
    assert (f"run.yaml:6:44: 'finalJob.whenSetup: {when}' has no effect" in ran.stderr) is noted


@pytest.mark.parametrize(
    ("chain", "line"),
    [("", "gather -j 1"), ('updateOutputChain: "", ', "gather -j 1"), ("updateOutputChain: --mine, ", "")],
)
def test_an_empty_option_leaves_nothing_in_a_command(cli: Cli, write_run: WriteRun, chain: str, line: str) -> None:
    text = (
        COMMON + f"finalJob: {{{chain}command1: 'gather -j {{requestCpus}} {{updateOutputChain}}', requestCpus: 1}}\n"
    )
    ran = cli("prepare", write_run(text), "--json")
    if not chain:
        assert ran.returncode == 3, "nothing defines it"
        return
    script = Path(ran.json["submit_dir"], "final_job.bash").read_text("utf-8")
    assert script.splitlines()[-1].strip() == (line or "gather -j 1 --mine")


def test_a_gap_at_the_beginning_is_no_final_job_but_an_error(cli: Cli, write_run: WriteRun) -> None:
    for stage in ("transform", "submit"):
        ran = cli(stage, write_run(COMMON + "finalJob: {command2: 'echo x'}\n"))
        assert ran.returncode == 7
        assert "run.yaml:6:22: the final job has 'command2' and no 'command1'" in ran.stderr


@pytest.mark.parametrize("service", ["htcondor", "slurm"])
def test_defaults_of_a_service_for_a_final_job_are_no_section_without_effect(
    cli: Cli, write_run: WriteRun, service: str
) -> None:
    written = write_run("runQuantumCommand: 'true'\nsite: {here: {}}\n")
    ran = cli("prepare", written, "--wms-service-class", service, "--compute-site", "here")
    assert ran.returncode == 0, ran.stderr
    assert "has an effect" not in ran.stderr
