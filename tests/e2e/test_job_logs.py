"""``longshore logs``: whole, from the end, by pattern, of many jobs, as they grow, and whatever is in them."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.command import Cli
from tests.waiting import engine_of
from tests.workflows import Tasks, WriteRun

from longshore.cli.terminal import escape_output

THREE: Tasks = {"good_1": ("G", []), "bad_1": ("B", []), "bad_2": ("B", []), "late": ("L", ["bad_1"])}
KINDS = """
pipetask:
  G: {runQuantumCommand: "printf 'one\\\\ntwo\\\\nthree\\\\n'"}
  B: {runQuantumCommand: "echo oops {label}; exit 3", numberOfRetries: 1}
  L: {runQuantumCommand: "true"}
"""
SLOW: Tasks = {"slow": ("S", [])}


def finished(cli: Cli, write_run: WriteRun, text: str = KINDS, tasks: Tasks = THREE) -> Path:
    """A run that is over; its directory."""
    return Path(cli("submit", write_run(text, tasks).name, "--wait", "--json").json["submit_dir"])


def test_the_log_of_one_job(cli: Cli, write_run: WriteRun) -> None:
    finished(cli, write_run)
    assert cli("logs", "@last", "good_1").stdout == "one\ntwo\nthree\n"
    assert cli("logs", "@last", "good").stdout == "one\ntwo\nthree\n", "the unique beginning of a name"
    assert cli("logs", "@last", "good_1", "--tail", "2").stdout == "two\nthree\n"
    assert cli("logs", "@last", "good_1", "--tail", "0").stdout == ""
    assert cli("logs", "@last", "good_1", "--tail", "99").stdout == "one\ntwo\nthree\n"
    assert cli("logs", "@last", "good_1", "--grep", "^t").stdout == "good_1: two\ngood_1: three\n"
    path = cli("logs", "@last", "bad_1", "--paths").stdout.strip()
    assert path.endswith("/bad_1.2.log"), "the newest attempt"
    assert cli("logs", "@last", "bad_1", "--attempt", "1", "--paths").stdout.strip().endswith("/bad_1.1.log")
    number = str(cli("show-job", "@last", "good_1", "--json").json["index"])
    assert cli("logs", "@last", number).stdout == "one\ntwo\nthree\n", "the number of a job"


def test_the_logs_of_several_jobs(cli: Cli, write_run: WriteRun) -> None:
    run = finished(cli, write_run)
    failed = cli("logs", "@last", "--failed")
    headers = [f"==> bad_{number}, attempt 2 {run}/logs/B/00/bad_{number}.2.log <==" for number in (1, 2)]
    assert failed.stdout == f"{headers[0]}\noops B\n{headers[1]}\noops B\n"
    assert failed.stderr == ""
    bounded = cli("logs", "@last", "--label", "B", "--label", "G", "--most", "1")
    assert bounded.stdout.count("==>") == 1
    assert bounded.stderr == "longshore: and 2 more: --most 0 for all of them, --paths for where they are\n"
    assert cli("logs", "@last", "--label", "B", "--grep", "oops").stdout == "bad_1: oops B\nbad_2: oops B\n"
    assert cli("logs", "@last", "--label", "G", "--failed").stderr == "longshore: no job has failed\n"
    assert cli("logs", "@last", "--label", "L").stderr == "longshore: 1 of these jobs has no such log\n"
    document = cli("logs", "@last", "--failed", "--tail", "1", "--json").json
    assert [(log["job"], log["attempt"], log["lines"]) for log in document["logs"]] == [
        ("bad_1", 2, ["oops B"]),
        ("bad_2", 2, ["oops B"]),
    ]
    assert document["logs"][0]["size_b"] == len("oops B\n")


NOT_PRINTED = [
    (["goood_1"], 5, "has no job 'goood_1'\n  Did you mean 'good_1'?"),
    (["bad"], 5, "is the beginning of 2 job names"),
    (["G"], 5, "'G' is a label; a job is named like 'good_1'"),
    (["late"], 5, "job 'late' has no log: no attempt of it has begun\n  Why that is: longshore explain"),
    (["bad_1", "--attempt", "7"], 5, "no log of an attempt 7\n  It has logs of: 1, 2."),
    (["--label", "GG"], 5, "has no label 'GG'\n  Did you mean 'G'?"),
    (
        ["good_1", "--grep", "("],
        2,
        "'(' is no regular expression: missing ), unterminated subpattern at character 1",
    ),
    ([], 2, "name one job"),
    (["good_1", "--failed"], 2, "name one job"),
    (["--failed", "--follow"], 2, "--follow requires one JOB"),
    (["good_1", "--paths", "--tail", "3"], 2, "--paths excludes"),
    (["good_1", "--tail", "-1"], 2, "--tail"),
    (["999"], 5, "has no job '999'"),
    ([""], 2, "name one job"),
]
"""Arguments, exit status, and words of the refusal."""


def test_what_cannot_be_printed(cli: Cli, write_run: WriteRun) -> None:
    finished(cli, write_run)
    for arguments, status, words in NOT_PRINTED:
        ran = cli("logs", "@last", *arguments)
        assert (ran.returncode, ran.stdout) == (status, ""), arguments
        assert words in ran.stderr, arguments


def test_one_log_that_cannot_be_read_does_not_hide_the_others(cli: Cli, write_run: WriteRun) -> None:
    run = finished(cli, write_run)
    broken = run / "logs" / "B" / "00" / "bad_1.2.log"
    broken.unlink()
    os.mkfifo(broken)
    ran = cli("logs", "@last", "--failed")
    assert "oops B" in ran.stdout
    assert f"'{broken}' cannot be read: it is not a regular file" in ran.stderr
    alone = cli("logs", "@last", "bad_1")
    assert (alone.returncode, alone.stdout) == (5, "")


def test_bytes_go_through_a_pipe_as_they_are(write_run: WriteRun, cli: Cli, tmp_path: Path) -> None:
    run = finished(cli, write_run)
    noise = bytes(range(256)) + b"\x1b[2Jno newline at the end \xff\xfe"
    (run / "logs" / "G" / "00" / "good_1.1.log").write_bytes(noise)
    command = [sys.executable, "-m", "longshore", "logs", "@last", "good_1"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout == noise
    found = subprocess.run([*command, "--grep", r"\x1b\[2J"], cwd=tmp_path, capture_output=True, check=True).stdout
    assert found == b"good_1: " + noise.split(b"\n")[-1] + b"\n"


def on_terminal(command: list[str], cwd: Path, env: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Exit status of a command with a terminal for its output, and what it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **(env or {})}
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    return process.wait(120), said


def test_a_terminal_is_told_nothing_it_would_obey(write_run: WriteRun, cli: Cli, tmp_path: Path) -> None:
    run = finished(cli, write_run)
    hostile = "\x1b[2Jclear \x9b31m \x07 tab\there \u202edrawkcab\r\n".encode() + b"\xff\xfe \x00 end\n"
    (run / "logs" / "G" / "00" / "good_1.1.log").write_bytes(hostile)
    command = [sys.executable, "-m", "longshore", "logs", "@last", "good_1"]
    for env in ({}, {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}):
        status, said = on_terminal(command, tmp_path, env)
        assert status == 0
        assert not set(said) & (set(range(32)) - {9, 10, 13}), said
        assert b"\\x1b[2Jclear \\x9b31m \\x07 tab\there \\u202edrawkcab\r\n\\xff\\xfe \\x00 end\r\n" in said
    assert b"\x1b[2J" in on_terminal([*command, "--raw"], tmp_path)[1]


def test_harmless_text_is_left_alone() -> None:
    assert escape_output("plain, naïve and 漢字\n\tnext\n") == "plain, naïve and 漢字\n\tnext\n"
    assert escape_output("50%\r100%\r\n") == "50%\\r100%\n"


def test_whoever_reads_may_stop(write_run: WriteRun, cli: Cli, tmp_path: Path) -> None:
    run = finished(cli, write_run)
    (run / "logs" / "G" / "00" / "good_1.1.log").write_bytes(b"line\n" * 2_000_000)
    line = f"{sys.executable} -m longshore logs @last good_1 | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("line\n0\n", "")


def test_the_end_of_a_vast_log_is_found_from_its_end(write_run: WriteRun, cli: Cli) -> None:
    """Five gigabytes, nearly all of them a hole: reading them through would take far longer than the test may."""
    run = finished(cli, write_run)
    log = run / "logs" / "G" / "00" / "good_1.1.log"
    with log.open("r+b") as file:
        file.seek(5 << 30)
        file.write(b"\nlast but one\nlast")
    ran = cli("logs", "@last", "good_1", "--tail", "2", timeout=20)
    assert ran.stdout == "last but one\nlast"
    document = cli("logs", "@last", "good_1", "--tail", "2", "--json", timeout=20).json
    assert document["logs"][0]["lines"] == ["last but one", "last"]


def follow(cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "longshore", "logs", "@last", *arguments, "--follow"]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_following_a_job_through_its_attempts(write_run: WriteRun, cli: Cli, tmp_path: Path) -> None:
    """A job that waits for a file, fails, and is tried again: all it says is seen, and following ends with the job."""
    command = "echo began; while [ ! -e {0}.$LONGSHORE_JOB_ATTEMPT ]; do sleep 0.05; done; echo ended; exit 3"
    text = f"runQuantumCommand: '{command.format(tmp_path / 'go')}'\nnumberOfRetries: 1\n"
    cli("submit", write_run(text, SLOW).name)
    with follow(tmp_path, "slow") as followed, follow(tmp_path, "slow", "--grep", "gan|end") as matched:
        assert followed.stdout is not None
        assert matched.stdout is not None
        assert matched.stdout.readline() == "slow: began\n"
        assert followed.stdout.readline() == "began\n", "what is there is shown at once"
        (tmp_path / "go.1").touch()
        assert followed.stdout.readline() == "ended\n"
        assert followed.stdout.readline() == "==> slow, attempt 2 <==\n"
        assert followed.stdout.readline() == "began\n"
        (tmp_path / "go.2").touch()
        rest, said = followed.communicate(timeout=120)
        assert (rest, said, followed.returncode) == ("ended\n", "", 0)
        assert matched.communicate(timeout=120) == ("slow: ended\nslow: began\nslow: ended\n", "")
    again = cli("logs", "@last", "slow", "--follow", "--tail", "1")
    assert (again.stdout, again.returncode) == ("ended\n", 0), "one that is over is shown, and that is all"


def test_following_ends_cleanly_when_interrupted(write_run: WriteRun, cli: Cli, tmp_path: Path) -> None:
    cli("submit", write_run("runQuantumCommand: 'echo began; sleep 60'\n", SLOW).name)
    with follow(tmp_path, "slow") as followed:
        assert followed.stdout is not None
        assert followed.stdout.readline() == "began\n"
        followed.send_signal(signal.SIGINT)
        assert followed.communicate(timeout=120) == ("", "\nlongshore: interrupted\n")
    assert followed.returncode == 130
    cli("cancel", "@last")


def test_following_says_that_the_engine_is_gone(write_run: WriteRun, cli: Cli, tmp_path: Path) -> None:
    run = Path(
        cli("submit", write_run("runQuantumCommand: 'echo began; sleep 60'\n", SLOW).name, "--json").json["submit_dir"]
    )
    with follow(tmp_path, "slow") as followed:
        assert followed.stdout is not None
        assert followed.stdout.readline() == "began\n"
        os.kill(engine_of(run), signal.SIGKILL)
        assert "engine not running" in followed.communicate(timeout=120)[1]
    assert followed.returncode == 10
    cli("cancel", "@last")


def test_a_run_that_was_only_prepared(write_run: WriteRun, cli: Cli) -> None:
    said = cli("prepare", write_run().name).stdout
    run = re.findall(r"Submit dir: (.*)", said)[0]
    assert "no attempt of it has begun" in cli("logs", run, "a").stderr
    assert "never submitted" in cli("logs", run, "a", "--follow").stderr
    assert "UNREADY" not in cli("explain", run, "a").stdout
    assert cli("events", run).stdout == ""


def test_json_holds_no_more_of_a_vast_log_than_was_asked_for(cli: Cli, write_run: WriteRun) -> None:
    root = finished(cli, write_run)
    (path,) = (root / "logs").glob("G/*/good_1.1.log")
    with path.open("ab") as file:
        file.truncate(200 * 2**20)
        file.seek(0, os.SEEK_END)
        file.write(b" the end of a line of 200 MiB\nlast")
    found = cli("logs", "@last", "good_1", "--tail", "2", "--json")
    (log,) = found.json["logs"]
    assert len(log["lines"]) == 2
    assert (log["lines"][0].endswith("of 200 MiB"), log["lines"][1]) == (True, "last")
    (log,) = cli("logs", "@last", "good_1", "--grep", "^(two|last)", "--json").json["logs"]
    assert log["lines"] == ["two", "last"]
    assert cli("logs", "@last", "--failed", "--json").json["logs"][0].keys() == log.keys() - {"lines"}


def test_one_folder_that_cannot_be_read_does_not_hide_the_others(cli: Cli, write_run: WriteRun) -> None:
    root = finished(cli, write_run)
    (folder,) = (root / "logs" / "B").iterdir()
    folder.rename(folder.with_name("away"))
    folder.symlink_to(folder.name)
    found = cli("logs", "@last", "--label", "G", "--label", "B", "--json").json
    assert [log["job"] for log in found["logs"]] == ["good_1"]
    assert found["notes"][1].startswith(f"'{folder}' cannot be read: ")
    one = cli("logs", "@last", "bad_1")
    assert (one.returncode, f"'{folder}' cannot be read: " in one.stderr) == (5, True)
