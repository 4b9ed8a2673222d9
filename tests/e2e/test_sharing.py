"""Real runs that share a machine, GPUs that are one job's at a time, and what jobs find in their environment."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.command import Cli
from tests.e2e.overlap import RECORD, most_at_once, signs
from tests.waiting import eventually
from tests.workflows import Tasks, WriteRun

from longshore.rundir.find_run import find_run
from longshore.rundir.run_directory import read_snapshot

EIGHT: Tasks = {f"t{number}": ("T", []) for number in range(8)}


def run_of(
    write_run: WriteRun, tasks: Tasks, word: str, text: str = "", *, seconds: float = 0.4, before: str = ""
) -> str:
    command = RECORD.replace("{w}", word).replace("sleep 0.4", f"{before}sleep {seconds}")
    path = write_run(
        f"resources: {{cpus: 2, memory: 100 GiB}}\nrequestMemory: 10\nsubmitPath: submit/{word}\n{text}\n"
        f"runQuantumCommand: '{command}'\n",
        tasks,
        name=f"{word}.yaml",
    )
    return path.name


@pytest.mark.full
def test_two_runs_share_a_machine_and_one_then_has_it_all(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    many: Tasks = {f"t{number}": ("T", []) for number in range(30)}
    # However busy this machine is, the first has most of its work to do when the second comes.
    waiting = "until [ -e submit/second/status.json ]; do sleep 0.1; done; "
    assert cli("submit", run_of(write_run, many, "first", before=waiting)).returncode == 0
    ran = cli("submit", run_of(write_run, EIGHT, "second"), "--wait", timeout=280)
    assert ran.returncode == 0, ran.stderr
    eventually(
        lambda: (found := read_snapshot(find_run(str(tmp_path / "submit/first")))) is not None and found.finished
    )
    records = signs(tmp_path / "signs")
    assert most_at_once(tmp_path / "signs") == 2
    second = [when for when, _, word in records if word == "second"]
    first = [when for when, _, word in records if word == "first"]
    assert (len(first), len(second)) == (60, 16)
    assert any(second[0] < when < second[-1] for when in first), "the first goes on while the second runs"
    assert most_at_once(tmp_path / "signs", since=second[-1]) == 2, "alone, it has both processors again"
    words = (tmp_path / "submit/first/engine.log").read_text("utf-8")
    assert "this machine is shared with 1 other run" in words
    assert "this machine is no longer shared" in words


@pytest.mark.full
def test_runs_that_do_not_share_take_what_they_count(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = "shareMachine: false"
    names = [run_of(write_run, EIGHT, word, text, seconds=1.5) for word in ("first", "second")]
    for name in names:
        assert cli("submit", name).returncode == 0
    done = [find_run(str(tmp_path / "submit" / word)) for word in ("first", "second")]
    eventually(lambda: all((found := read_snapshot(run)) is not None and found.finished for run in done))
    assert most_at_once(tmp_path / "signs") > 2
    assert most_at_once(tmp_path / "signs", "first") == 2


@pytest.mark.full
def test_no_two_jobs_have_one_gpu_although_the_engine_is_killed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = (
        "resources: {cpus: 8, memory: 100 GiB, gpus: [0, 1, 3]}\nrequestMemory: 10\nrequestResources: {gpus: 1}\n"
        f"runQuantumCommand: '{RECORD.replace('{w}', '$CUDA_VISIBLE_DEVICES')}'\n"
    )
    assert cli("submit", write_run(text, EIGHT).name).returncode == 0
    run = find_run("@last")
    eventually(lambda: (tmp_path / "signs").exists() and len(signs(tmp_path / "signs")) > 2)
    snapshot = read_snapshot(run)
    assert snapshot
    os.kill(snapshot.pid, signal.SIGKILL)
    time.sleep(0.1)
    resumed = cli("resume", str(run.root))
    assert resumed.returncode == 0, resumed.stderr
    eventually(lambda: (found := read_snapshot(run)) is not None and found.finished)
    records = signs(tmp_path / "signs")
    assert len(records) == 16
    assert {word for _, _, word in records} == {"0", "1", "3"}
    for gpu in ("0", "1", "3"):
        assert most_at_once(tmp_path / "signs", gpu) == 1


def test_a_job_sees_its_gpus_only_and_makes_no_more_threads_than_it_has_processors(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    tasks: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"])}
    text = (
        "resources: {cpus: 8, gpus: 2}\nrequestCpus: 3\nrequestMemory: 10\n"
        "pipetask: {A: {requestResources: {gpus: 2}}, B: {environment: {OMP_NUM_THREADS: 5}},"
        " C: {limitThreads: false}}\n"
        "runQuantumCommand: 'echo $LONGSHORE_JOB_LABEL [$CUDA_VISIBLE_DEVICES] [$LONGSHORE_JOB_RESOURCE_GPUS_IDS]"
        " $OMP_NUM_THREADS $MKL_NUM_THREADS >> seen'\n"
    )
    ran = cli(
        "submit", write_run(text, tasks).name, "--wait", env={"OMP_NUM_THREADS": "99", "CUDA_VISIBLE_DEVICES": "7"}
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "seen").read_text("utf-8").splitlines() == ["A [0,1] [0,1] 3 3", "B [] [] 5 3", "C [] [] 99"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("resources: {cpus: [0, 1]}", "'resources.cpus' must be a number or text"),
        ("resources: {gpus: [0, 0]}", "'resources.gpus' names '0' twice"),
        ("resources: {gpus: [0, '1,2']}", "gpus"),
        ("requestResources: {gpus: 3}\nresources: {gpus: [0, 1]}", "asks for 3 of 'gpus', and there are only 2"),
    ],
)
def test_gpus_that_cannot_be_are_refused(text: str, words: str, cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    ran = cli("submit", write_run(f"{text}\n").name)
    assert ran.returncode in {3, 7}
    assert words in ran.stderr
    assert not (tmp_path / "submit").exists()


INNER = "longshore submit inner.yaml --set submitPath=inner --wait"


def write_nested(write_run: WriteRun, tmp_path: Path, command: str) -> None:
    write_run(
        f"requestMemory: 10\nrunQuantumCommand: '{command}'\n", {"i1": ("I", []), "i2": ("I", [])}, name="inner.yaml"
    )
    (tmp_path / "outer.yaml").write_text(
        f"pipeline: {{tasks: {{find: {{command: '{INNER}'}}}}}}\nresources: {{cpus: 2}}\nrequestCpus: 2\n"
        "requestMemory: 100\nnumberOfRetries: 0\nsubmitPath: outer\n",
        "utf-8",
    )


def test_a_run_inside_a_job_lives_in_its_request(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    write_nested(write_run, tmp_path, "sleep 0.1")
    ran = cli("submit", "outer.yaml", "--wait", timeout=100)
    assert ran.returncode == 0, ran.stderr
    outer, inner = (cli("report", "--id", folder).stdout for folder in ("outer", "inner"))
    assert "Runs inside its jobs: " in outer
    assert f"Inside: job 'find' of '{tmp_path / 'outer'}'" in inner
    (log,) = (tmp_path / "outer" / "logs").rglob("*.log")
    assert "its jobs share the request of job 'find'" in log.read_text("utf-8")


def test_a_run_inside_a_job_that_is_cancelled_is_cancelled(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    write_nested(write_run, tmp_path, "touch started; sleep 600")
    assert cli("submit", "outer.yaml").returncode == 0
    eventually((tmp_path / "started").exists)
    assert cli("cancel", "outer").returncode == 0
    eventually(lambda: cli("status", "inner").stdout.split()[:1] == ["DELETED"])
    eventually(lambda: cli("status", "outer").stdout.split()[:1] == ["DELETED"])
    assert "which this run is inside of, has ended" in (tmp_path / "inner" / "engine.log").read_text("utf-8")


def test_a_run_inside_a_job_that_asks_for_more_than_it_is_refused(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    write_nested(write_run, tmp_path, "true")
    with (tmp_path / "inner.yaml").open("a", encoding="utf-8") as file:
        file.write("requestCpus: 3\n")
    assert cli("submit", "outer.yaml", "--wait", timeout=100).returncode != 0
    (log,) = (tmp_path / "outer" / "logs").rglob("*.log")
    assert "asks for 3 of 'cpus', and there are only 2" in log.read_text("utf-8")
