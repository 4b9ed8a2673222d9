"""The job wrapper: what reaches a command is exactly the value, and every end is recorded, in any POSIX shell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.contract.service import Context, RunPaths, Site
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.services.local.render import table

PROGRAM = Path(__file__).resolve().parents[2] / "bin" / "longshore-job"
SHELLS = [path for shell in ("dash", "bash", "ksh", "mksh") if (path := shutil.which(shell))]
quickly = settings(max_examples=examples(25))
values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
awkward = st.text(st.sampled_from("ab \t\n'\"\\$`*?~#!;&|<>(){}=%-\rcn0"), max_size=20)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def job(name: str, command: str | tuple[str, ...], *, folder: Path | str = "/", **environment: str) -> Job:
    shared = JobSettings(label="l", working_directory=str(folder), environment=environment)
    return Job(name=name, label="l", command=command, settings=shared)


def write(folder: Path, *jobs: Job) -> Path:
    """A table of jobs, as the local service renders it."""
    ctx = Context(settings={}, site=Site(name="here"), paths=RunPaths(folder), templates={})
    path = folder / "jobs.tsv"
    path.write_text("".join(table(Workflow("w", Dag.by_name(jobs)), ctx)), "utf-8", newline="")
    return path


def run(shell: str, *words: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [shell, PROGRAM, *map(str, words)],
        capture_output=True,
        check=False,
        env={"PATH": os.environ["PATH"], **environment},
        timeout=30,
    )


@quickly
@given(st.one_of(values, awkward), st.one_of(values, awkward))
def test_the_command_gets_exact_values(tmp_path: Path, shell: str, word: str, value: str) -> None:
    line = 'printf "%s\\0" "$@" "$VALUE" "$LONGSHORE_JOB_NAME"'
    made = job(f"job{value}", ("/bin/sh", "-c", line, "sh", word), VALUE=value)
    done = run(shell, write(tmp_path, made), made.name)
    assert done.stdout.split(b"\0") == [word.encode(), value.encode(), made.name.encode(), b""], done.stderr


def test_jobs_are_named_by_number_or_name(tmp_path: Path, shell: str) -> None:
    names = ("first", "007", "7", "1e1", "10", "a.b")
    path = write(tmp_path, *[job(name, 'echo "$LONGSHORE_JOB_NAME"') for name in names])
    for number, name in enumerate(names):
        assert run(shell, path, name).stdout.decode() == f"{name}\n"
        assert run(shell, path, number).stdout.decode() == f"{name}\n"
    for nobody in ("07", "axb", "", "6", "00"):
        done = run(shell, path, nobody)
        assert done.returncode == 2
        assert b"there is no job" in done.stderr


def test_the_exit_status_is_the_jobs(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("bad", "exit 37"), job("dead", "kill -9 $$"), job("none", ("/no/such/program",)))
    assert run(shell, path, "bad").returncode == 37
    assert run(shell, path, "dead").returncode == 137
    assert run(shell, path, "none").returncode == 127


def test_no_variable_of_the_wrapper_reaches_the_job(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("env", ("env",)))
    inherited = {"log": "1", "line": "2", "status": "3", "command": "4", "_mine": "5", "number": "6"}
    said = dict(line.split("=", 1) for line in run(shell, path, "env", **inherited).stdout.decode().splitlines())
    assert {name: said[name] for name in inherited} == inherited
    ours = {name for name in said if name.startswith("LONGSHORE_JOB_")}
    assert set(said) - ours - set(inherited) <= {"PATH", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"}


def test_variables_of_the_job_do_not_reach_the_wrapper(tmp_path: Path, shell: str) -> None:
    hostile = dict.fromkeys(("PATH", "IFS", "ENV", "_command", "_tmp", "_status", "CDPATH"), "/nonexistent")
    hostile |= {"UID": "5", "PPID": "5", "OPTIND": "9", "TMPDIR": "/nonexistent", "my-name": "odd"}
    path = write(tmp_path, job("x", "echo $IFS $_command; exit 4", folder=tmp_path, **hostile))
    done = run(shell, path, "x")
    assert (done.returncode, done.stderr) == (4, b"")


def test_the_temporary_directory_is_empty_and_removed(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("tmp", 'ls -A "$TMPDIR"; mkdir "$TMPDIR/a"; touch "$TMPDIR/a/b"; echo "$TMPDIR"'))
    base = tmp_path / "base dir"
    base.mkdir()
    said = Path(run(shell, path, "tmp", TMPDIR=str(base)).stdout.decode().removesuffix("\n"))
    assert said.parent == base
    assert list(base.iterdir()) == []


def test_a_job_has_no_input(tmp_path: Path, shell: str) -> None:
    assert run(shell, write(tmp_path, job("cat", "cat")), "cat").returncode == 0


def ended(ends: Path) -> dict[str, object]:
    (record,) = ends.iterdir()
    assert record.name == "1.1"
    told: dict[str, object] = json.loads(record.read_text("utf-8").splitlines()[-1])
    return told


def test_a_member_leaves_a_log_and_a_record(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("it's me", "echo out; echo err >&2; exit 5", folder=tmp_path))
    ends = tmp_path / "ends" / "b 1"
    before = int(time.time())
    done = run(shell, "-m", 2, "-e", ends, path)
    assert (done.returncode, done.stdout, done.stderr) == (5, b"", b"")
    told = ended(ends)
    assert (told["j"], told["a"], told["status"], told["host"]) == (1, 1, 5, os.uname().nodename)
    assert 0 <= float(str(told["run"])) <= time.time() - before + 1
    assert (tmp_path / "logs" / "l" / "00" / "it's me.1.log").read_bytes() == b"out\nerr\n"


def test_a_second_start_of_an_attempt_repeats_its_end(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", "echo once >> note; exit 5", folder=tmp_path))
    ends = tmp_path / "ends"
    assert run(shell, "-m", 2, "-e", ends, path).returncode == 5
    told = ended(ends)
    again = run(shell, "-m", 2, "-e", ends, path)
    assert again.returncode == 5
    assert b"attempt 1 of job 1 was started before, and is not run again" in again.stderr
    assert ended(ends) == told
    assert (tmp_path / "note").read_text("utf-8") == "once\n"


def test_who_comes_again_while_an_attempt_runs_waits_for_its_end(tmp_path: Path, shell: str) -> None:
    line = "echo once >> note; until [ -e go ]; do sleep 0.1; done; exit 5"
    path = write(tmp_path, job("other", "true"), job("x", line, folder=tmp_path))
    ends = tmp_path / "ends"
    words = [shell, str(PROGRAM), "-m", "2", "-e", str(ends), str(path)]
    first = subprocess.Popen(words)
    deadline = time.monotonic() + 120
    while not (tmp_path / "note").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second = subprocess.Popen(words, stderr=subprocess.PIPE)
    assert second.stderr
    assert b"is not run again" in second.stderr.readline()
    time.sleep(0.3)
    assert second.poll() is None
    (tmp_path / "go").touch()
    assert (first.wait(120), second.wait(30)) == (5, 5)
    second.stderr.close()
    assert ended(ends)["status"] == 5
    assert (tmp_path / "note").read_text("utf-8") == "once\n"


def test_a_second_start_after_a_dead_one_does_not_run(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", "echo once >> note", folder=tmp_path))
    began = tmp_path / "ends" / "1.1.began"
    began.parent.mkdir()
    began.write_text(f"{os.uname().nodename} 999999999 {PROGRAM}\n", "utf-8")
    assert run(shell, "-m", 2, "-e", began.parent, path).returncode == 99
    assert (ended(began.parent)["status"], ended(began.parent)["refused"]) == (99, True)
    assert not (tmp_path / "note").exists()


def test_a_requeued_attempt_never_runs_again(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", "echo once >> note; exit 5", folder=tmp_path))
    ends = tmp_path / "ends"
    words = ("-m", 2, "-e", ends, path)
    assert run(shell, "-r", 0, *words).returncode == 5
    assert run(shell, "-r", 1, *words).returncode == 5
    assert sorted(each.name for each in ends.iterdir()) == ["1.1", "1.1.again"]
    # Whoever took its end removed its record.
    for each in ends.iterdir():
        each.unlink()
    again = run(shell, "-r", 1, *words)
    assert again.returncode == 99
    assert b"was started before, and is not run again" in again.stderr
    assert ended(ends)["refused"] is True
    assert (tmp_path / "note").read_text("utf-8") == "once\n"


def test_a_member_that_cannot_be_started_leaves_a_record_too(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", "true", folder="/no/such/folder"))
    assert run(shell, "-m", 2, "-e", tmp_path / "ends", path).returncode != 0
    assert ended(tmp_path / "ends")["status"] not in (0, None)
    assert b"/no/such/folder" in (tmp_path / "logs" / "l" / "00" / "x.1.log").read_bytes()


def test_a_script_can_be_the_shell_that_runs_it(tmp_path: Path, shell: str) -> None:
    path = write(
        tmp_path, job("other", "true"), job("x", "echo $#; echo $0; cat ends/1.1.began; exit 5", folder=tmp_path)
    )
    script = tmp_path / "a script"
    script.write_text(f"set -- -m 2 -e '{tmp_path}/ends' '{path}' && . '{PROGRAM}'\n", "utf-8")
    words = [shell, str(script)]
    assert subprocess.run(words, check=False, timeout=30).returncode == 5
    assert ended(tmp_path / "ends")["status"] == 5
    words_of_job = (tmp_path / "logs" / "l" / "00" / "x.1.log").read_text("utf-8").splitlines()
    assert words_of_job[:2] == ["0", "/bin/sh"]
    # Who began is told by the name of the script, for that is what the process is called.
    assert words_of_job[2].endswith(f" {script}")


def test_a_job_starts_few_programs(tmp_path: Path, shell: str) -> None:
    """Most of the cost of a short job is starting programs."""
    # The process that renews the lease sleeps by then. One that is ended while it begins may clear up as well.
    line = f"until grep -qs sleep '{tmp_path}/started'; do :; done"
    path = write(tmp_path, job("other", "true"), job("x", line, folder=tmp_path))
    for folder in ("logs/l/00", "ends", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("sed", "mkdir", "mktemp", "setsid", "mv", "rm", "cat", "date", "stat", "ls", "uname", "env", "sleep"):
        shim = tmp_path / "bin" / name
        shim.write_text(f'#!/bin/sh\necho {name} >>"{tmp_path}/started"\nexec {shutil.which(name)} "$@"\n', "utf-8")
        shim.chmod(0o755)
    searched = f"{tmp_path}/bin:{os.environ['PATH']}"
    assert run(shell, "-m", 2, "-e", tmp_path / "ends", path, PATH=searched).returncode == 0
    started = (tmp_path / "started").read_text("utf-8").split()
    assert sorted(started) == ["mktemp", "rm", "sed", "setsid", "sleep"]
    assert [path.name for path in (tmp_path / "ends").iterdir()] == ["1.1"]


def test_a_record_that_cannot_be_written_completely_is_none(tmp_path: Path, shell: str) -> None:
    # To write into it fails like on a full disk.
    line = "ln -s /dev/full ends/1.1; echo once >> note"
    path = write(tmp_path, job("other", "true"), job("x", line, folder=tmp_path))
    assert run(shell, "-m", 2, "-e", tmp_path / "ends", path).returncode == 0
    assert [path.name for path in (tmp_path / "ends").iterdir()] == ["1.1.began"]
    assert run(shell, "-m", 2, "-e", tmp_path / "ends", path).returncode == 99
    assert (tmp_path / "note").read_text("utf-8") == "once\n"


def test_an_unwritable_end_record_prevents_the_run(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", "echo once >> note", folder=tmp_path))
    (tmp_path / "ends").touch()
    done = run(shell, "-m", 2, "-e", tmp_path / "ends", path)
    assert done.returncode == 126
    assert b"cannot be written" in done.stderr
    assert not (tmp_path / "note").exists()


def test_a_foreign_temporary_directory_stays(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", 'echo "$TMPDIR"'))
    (tmp_path / "longshore-1.1").mkdir()
    assert run(shell, "-m", 2, "-e", tmp_path / "ends", path, TMPDIR=str(tmp_path)).returncode == 0
    said = Path((tmp_path / "logs" / "l" / "00" / "x.1.log").read_text("utf-8").strip())
    assert said.parent == tmp_path
    assert not said.exists()
    assert [path for path in tmp_path.iterdir() if path.name.startswith("longshore-")] != []


@pytest.mark.parametrize("name", ["LONGSHORE_JOB_X", "OMP_NUM_THREADS", "lower_case", "LONGSHORE_mixed", "CDPATH"])
def test_variables_of_all_sources_reach_the_command(tmp_path: Path, shell: str, name: str) -> None:
    value = "a 'b' \"c\" $d \\e\n*"
    made = job("x", "env -0", **{name: value, "LONGSHORE_OTHER": "1"})
    said = run(shell, write(tmp_path, made), "x").stdout.split(b"\0")
    assert f"{name}={value}".encode() in said
    assert b"LONGSHORE_OTHER=1" in said


def test_the_end_is_recorded_without_a_temporary_directory(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("other", "true"), job("x", "true"))
    done = run(shell, "-m", 2, "-e", tmp_path / "ends", path, TMPDIR="/no/such/folder")
    assert done.returncode == 126
    assert ended(tmp_path / "ends")["status"] == 126


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_passed_on_and_the_end_recorded(tmp_path: Path, shell: str, number: signal.Signals) -> None:
    line = "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.02; done"
    path = write(tmp_path, job("other", "true"), job("x", line))
    (tmp_path / "t").mkdir()
    # Under nohup it would be ignored.
    heeded = ["env", f"--default-signal={number.name.removeprefix('SIG')}"]
    process = subprocess.Popen(
        [*heeded, shell, PROGRAM, "-m", "2", "-e", tmp_path / "ends", path],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "t")},
    )
    log = tmp_path / "logs" / "l" / "00" / "x.1.log"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.read_text("utf-8")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(120) == 9
    assert log.read_text("utf-8") == "ready\nbye\n"
    assert (ended(tmp_path / "ends")["status"], ended(tmp_path / "ends")["signalled"]) == (9, True)
    assert list((tmp_path / "t").iterdir()) == []


def test_no_signal_is_lost_while_a_job_begins(tmp_path: Path, shell: str) -> None:
    line = "trap 'exit 9' TERM; kill -s TERM $PPID; while :; do sleep 0.02; done"
    path = write(tmp_path, job("other", "true"), job("x", line))
    for number in range(20):
        assert run(shell, "-m", 2, "-e", tmp_path / f"ends{number}", path).returncode == 9


def test_it_says_how_it_is_used(tmp_path: Path, shell: str) -> None:
    path = write(tmp_path, job("x", "true"))
    for words in ((), (path,), (path, "x", "y"), ("-m", "1"), ("-m", "1", "-e", tmp_path, path, "x"), ("-q",)):
        done = run(shell, *words)
        assert done.returncode == 2
        assert b"usage: " in done.stderr
