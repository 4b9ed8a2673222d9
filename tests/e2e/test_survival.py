"""What is killed, and when, costs no success and repeats none: engine, keeper, both, and the jobs themselves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import Cli
from tests.depth import rounds
from tests.waiting import eventually, whole_lines

import longshore
from longshore.contract.service import RunPaths
from longshore.model.event import Life
from longshore.model.json_lines import SEED, add_checksum
from longshore.rundir.journal import Journal, count_fruitless_lives
from longshore.rundir.run_directory import read_card, read_snapshot, write_snapshot
from longshore.system.host import processes_with_variable

PACKAGE_PARENT = Path(longshore.__file__).resolve().parent.parent
JOBS = 40
WIDTH = 8


@pytest.fixture
def run_yaml(tmp_path: Path) -> Path:
    """A layered run of short jobs, each of which writes down when it starts and when it is done."""
    tasks = [
        {
            "name": "job",
            "id": f"job_{number}",
            "parents": [f"job_{number - WIDTH}", f"job_{number - WIDTH + 1}"] if number >= WIDTH else [],
            "children": [],
        }
        for number in range(JOBS)
    ]
    graph = {"name": "layers", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}}
    (tmp_path / "graph.json").write_text(json.dumps(graph), "utf-8")
    note = '"$LONGSHORE_JOB_NAME $LONGSHORE_JOB_ATTEMPT"'
    path = tmp_path / "run.yaml"
    path.write_text(
        "wfformat: graph.json\nresources: {cpus: 4}\nretryOnLost: 20\n"
        f"runQuantumCommand: 'echo start {note} >> notes; sleep 0.1$(($$ % 9)); echo done {note} >> notes'\n",
        "utf-8",
    )
    return path


def submitted(cli: Cli, path: Path, *more: str) -> Path:
    """Submit a run and return its directory."""
    answer = cli("submit", path, "--json", *more)
    assert answer.returncode == 0, answer.stderr
    return Path(answer.json["submit_dir"])


def events(run: Path) -> Iterator[dict[str, Any]]:
    """Every event of a run that counts."""
    files = sorted((run / "journal").glob("*.jsonl"))
    lives = [[json.loads(line) for line in whole_lines(file)] for file in files]
    for life in lives:
        yield from life


def engine(run: Path) -> int:
    """Process number of the newest engine."""
    return int(next(event["pid"] for event in reversed(list(events(run))) if event["e"] == "life"))


def guard(run: Path) -> int:
    return int(json.loads(max((run / "keeper").glob("*.jsonl")).read_text("utf-8").splitlines()[0])["guard"])


def keeper(run: Path) -> int:
    """Process number of the newest keeper."""
    newest = max((run / "keeper").glob("*.jsonl"))
    first: dict[str, Any] = json.loads(newest.read_text("utf-8").splitlines()[0])
    return int(first["pid"])


def kill(pid: int) -> None:
    """Kill a process that may be gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def ended_jobs(run: Path) -> int:
    """Number of jobs that ended so far."""
    return sum(event["e"] == "ended" for event in events(run))


def finish(cli: Cli, run: Path) -> dict[str, Any]:
    """See a run through to its end, resuming it as often as its engine is gone, and return its report."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        answer = cli("report", "--id", run, "--json")
        assert answer.returncode == 0, answer.stderr
        report: dict[str, Any] = answer.json["runs"][0]
        assert sum(report["counts"].values()) == report["expected"] == JOBS
        if report["state"] == "UNKNOWN":
            resumed = cli("resume", run)
            # It may have ended, or an engine may have been a moment late, since the report.
            assert resumed.returncode in (0, 6), resumed.stderr
        elif report["state"] != "RUNNING":
            return report
        time.sleep(0.05)
    pytest.fail("the run does not end")


def check_promise(run: Path, report: dict[str, Any], notes: Path) -> None:
    """Every job succeeded, and exactly once; no attempt was started twice; none is unaccounted for."""
    assert report["state"] == "SUCCEEDED", report
    said = Counter(notes.read_text("utf-8").splitlines())
    twice = {line: count for line, count in said.items() if count > 1}
    assert not twice
    successes = [event for event in events(run) if event["e"] == "ended" and "cause" not in event]
    assert len({event["j"] for event in successes}) == len(successes) == JOBS
    intended = {tuple(pair) for event in events(run) if event["e"] == "submitting" for pair in event["jobs"]}
    started = {
        (int(name.removeprefix("job_")), int(attempt))
        for what, name, attempt in (line.split() for line in said)
        if what == "start"
    }
    names = {
        number: json.loads(line)["name"]
        for number, line in enumerate((run / "workflow.jsonl").read_text("utf-8").splitlines()[1 : JOBS + 1])
    }
    assert {(names[job], attempt) for job, attempt in intended} >= {(f"job_{job}", a) for job, a in started}
    accounted = {(event["j"], event["a"]) for event in events(run) if event["e"] in {"ended", "lost"}}
    refused = {event["b"] for event in events(run) if event["e"] == "refused"}
    handed = {
        tuple(pair)
        for event in events(run)
        if event["e"] == "submitting" and event["b"] not in refused
        for pair in event["jobs"]
    }
    assert handed <= accounted


@pytest.mark.parametrize("victims", [("engine",), ("keeper",), ("engine", "keeper"), ("keeper", "engine")])
def test_a_kill_in_the_middle_costs_nothing(cli: Cli, run_yaml: Path, victims: tuple[str, ...]) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    pids = {"engine": engine(run), "keeper": keeper(run)}
    for victim in victims:
        kill(pids[victim])
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


def test_a_run_is_resumed_with_no_job_run_twice(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    kill(engine(run))
    stopped = eventually(lambda: (answer := cli("status", run)).returncode != 15 and answer)
    assert stopped.returncode == 10
    assert "longshore resume" in stopped.stderr
    assert cli("resume", run).returncode == 0
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")
    assert {job["attempts"] for job in report["jobs"]} == {1}


@pytest.mark.parametrize("seed", rounds(1, 2, 50))
def test_kills_at_random_cost_nothing(cli: Cli, run_yaml: Path, seed: int) -> None:
    chance = random.Random(seed)
    run = submitted(cli, run_yaml)
    for _ in range(5):
        time.sleep(chance.uniform(0.0, 0.4))
        victims = chance.choice([(engine,), (keeper,), (engine, keeper)])
        for victim in victims:
            try:
                kill(victim(run))
            except (ValueError, IndexError):
                # No keeper yet, or one that has not said its number.
                continue
        if engine in victims:
            cli("resume", run)
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


def test_a_job_that_is_killed_is_tried_again(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    started = eventually(lambda: _a_running_job(run))
    os.killpg(started, signal.SIGKILL)
    report = finish(cli, run)
    assert report["state"] == "SUCCEEDED"
    killed = [event for event in events(run) if event["e"] == "ended" and event.get("signal") == signal.SIGKILL]
    assert len(killed) <= 1


def _a_running_job(run: Path) -> int | None:
    running: dict[tuple[int, int], int] = {}
    for file in (run / "keeper").glob("*.jsonl"):
        for line in whole_lines(file):
            record = json.loads(line)
            if record["r"] == "start":
                running[record["j"], record["a"]] = record["pid"]
            elif record["r"] == "end":
                running.pop((record["j"], record["a"]), None)
    return next(iter(running.values()), None)


def test_a_run_that_is_moved_is_taken_up_where_it_is(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    moved = run.rename(run.with_name("elsewhere"))
    eventually(lambda: cli("status", moved).returncode != 15)
    report = finish(cli, moved)
    check_promise(moved, report, run_yaml.parent / "notes")


def run_token(run: Path) -> str:
    """What the run's jobs carry in their environment."""
    return read_card(RunPaths(run)).run_token


def write_records(path: Path, records: list[dict[str, Any]]) -> None:
    """Write changed records of a keeper as it would write them."""
    text, crc = b"", SEED
    for record in records:
        del record["c"]
        line, crc = add_checksum(json.dumps(record, separators=(",", ":")).encode(), crc)
        text += line
    path.write_bytes(text)


def test_a_reboot_is_seen_by_the_boot_and_not_by_numbers_of_processes(cli: Cli, run_yaml: Path) -> None:
    """What ran is lost; a stranger that has its number by now is not touched."""
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= JOBS // 4)
    kill(engine(run))
    kill(guard(run))
    kill(keeper(run))
    for pid, _ in processes_with_variable("LONGSHORE_JOB_RUN_MARK", run_token(run)):
        kill(pid)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        for file in (run / "keeper").glob("*.jsonl"):
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            lines[0]["boot"] = "another-boot"
            write_records(file, [{**line, "pid": stranger.pid} if line["r"] == "start" else line for line in lines])
        report = finish(cli, run)
        check_promise(run, report, run_yaml.parent / "notes")
        lost = [event for event in events(run) if event["e"] == "lost"]
        assert lost
        # One may have been about to start just then.
        whys = {event["why"] for event in lost}
        assert "the machine was restarted while it ran" in whys
        assert whys <= {"the machine was restarted while it ran", "its keeper was killed while starting it"}
        assert stranger.poll() is None
        stranger.kill()


def test_a_suspended_engine_is_taken_over_by_somebody_who_says_so(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= 2)
    os.kill(engine(run), signal.SIGSTOP)
    refused = cli("resume", run)
    assert refused.returncode == 6
    assert "its engine is alive" in refused.stderr
    assert "--take-over" not in refused.stderr
    snapshot = read_snapshot(RunPaths(run))
    assert snapshot is not None
    assert "has written nothing" not in cli("status", run).stderr
    # As if that were a while ago.
    write_snapshot(RunPaths(run), msgspec.structs.replace(snapshot, at=snapshot.at - 90))
    assert "--take-over" in cli("resume", run).stderr
    for silent in (cli("status", run), cli("report", run)):
        assert "the engine has written nothing since" in silent.stdout + silent.stderr
        assert "--take-over" in silent.stdout + silent.stderr
    assert cli("resume", run, "--take-over").returncode == 0
    lives = [event for event in events(run) if event["e"] == "life"]
    assert [life["by"] for life in lives] == ["submit", "take-over"]
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a process another host name")
def test_an_engine_on_another_host_that_was_taken_over_does_nothing_more(cli: Cli, run_yaml: Path) -> None:
    """It is suspended for so long that somebody takes it for dead, and then goes on."""
    run = Path(prepared(cli, run_yaml))
    drive = [sys.executable, "-m", "longshore", "drive", str(run), "--by", "submit"]
    with (
        (run / "engine.log").open("ab") as log,
        subprocess.Popen(
            ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh", *drive],
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(PACKAGE_PARENT)},
        ) as other,
    ):
        eventually(lambda: ended_jobs(run) >= 2 and (run / "status.json").exists())
        os.kill(other.pid, signal.SIGSTOP)
        refused = cli("resume", run)
        assert refused.returncode == 6
        assert "'elsewhere'" in refused.stderr
        assert "--take-over" in refused.stderr
        assert cli("resume", run, "--take-over").returncode == 0
        written = (run / "journal" / "0001.jsonl").stat().st_size
        os.kill(other.pid, signal.SIGCONT)
        other.wait(120)
        assert (run / "journal" / "0001.jsonl").stat().st_size == written, "it writes nothing more"
    assert "this engine stops: a newer engine has taken the run up" in (run / "engine.log").read_text("utf-8")
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


def test_what_may_live_on_another_host_is_not_started_again_without_being_told(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    eventually(lambda: ended_jobs(run) >= 2)
    kill(engine(run))
    kill(keeper(run))
    for pid, _ in processes_with_variable("LONGSHORE_JOB_RUN_MARK", run_token(run)):
        kill(pid)
    for file in (run / "keeper").glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        lines[0] |= {"boot": "another-boot", "host": "elsewhere"}
        write_records(file, lines)
        # What the guard saw is on record; there was none on the other host.
        file.with_suffix(".guard").unlink()
    for command in (("resume", run), ("cancel", run), ("restart", run)):
        refused = cli(*command)
        assert refused.returncode == 6, command
        assert "a keeper on 'elsewhere', with" in refused.stderr
        assert f"longshore resume {read_card(RunPaths(run)).id} --take-over" in refused.stderr
    assert not list((run / "steer").glob("*.json")), "what was refused is not obeyed later"
    assert cli("resume", run, "--take-over").returncode == 0
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")
    # The keeper may just have written down what it was about to start.
    why = {event["why"] for event in events(run) if event["e"] == "lost"}
    assert why - {"its keeper was killed while starting it"} <= {"it ran on 'elsewhere'"}
    assert why


def test_engines_that_achieve_nothing_are_not_begun_for_ever(cli: Cli, run_yaml: Path) -> None:
    run = submitted(cli, run_yaml)
    kill(engine(run))
    for life in range(len(list((run / "journal").glob("*.jsonl"))) + 1, 100):
        if life > 3 and count_fruitless_lives(run / "journal") >= 3:
            break
        began = Life(v=1, life=life, t=1.0, host="h", pid=1, boot="b", by="resume")
        Journal(run / "journal", began).close()
    eventually(lambda: cli("status", run).returncode == 10)
    refused = cli("resume", run)
    assert refused.returncode == 6
    assert "engines of" in refused.stderr
    assert "died without achieving anything" in refused.stderr
    assert f"longshore resume {read_card(RunPaths(run)).id} --force" in refused.stderr
    assert cli("resume", "--all").returncode == 6
    assert cli("resume", "--all", "--force").returncode == 2
    assert cli("resume", run, "--force").returncode == 0
    report = finish(cli, run)
    check_promise(run, report, run_yaml.parent / "notes")


def prepared(cli: Cli, path: Path) -> str:
    """Prepare a run and return its directory."""
    answer = cli("prepare", path, "--json")
    assert answer.returncode == 0, answer.stderr
    return str(answer.json["submit_dir"])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a small disk")
def test_a_disk_that_fills_up_is_waited_for(cli: Cli, run_yaml: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=True)
    try:
        run = submitted(cli, run_yaml, "--set", f"submitPath={disk}/run")
        eventually(lambda: ended_jobs(run) >= 2)
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 1024)
        time.sleep(1.5)
        assert cli("status", run).returncode == 15
        ballast.unlink()
        report = finish(cli, run)
        check_promise(run, report, run_yaml.parent / "notes")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
