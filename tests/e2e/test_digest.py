"""A run with three kinds of failure: each cause on the first screen, and nothing in a log does harm."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

from longshore.config.plugins import shipped_path
from longshore.reports.documents.document import to_json

MANY: Tasks = {
    **{f"good_{number}": ("good", []) for number in range(3)},
    **{f"typo_{number}": ("typo", []) for number in range(4)},
    **{f"data_{number}": ("data", []) for number in range(3)},
    **{f"crash_{number}": ("crash", []) for number in range(2)},
    "after": ("after", ["data_1"]),
}
COMMANDS = r"""
pipetask:
  good: {runQuantumCommand: 'true'}
  typo: {runQuantumCommand: 'printf "\033[31mno-such-program: not found\033[0m\n"; exit 127'}
  data:
    runQuantumCommand: >-
      echo "ValueError: no data for visit $$ in /data/$$.fits"; printf "\033[2J\377\000bye"; exit 1
  crash: {runQuantumCommand: 'kill -SEGV $$'}
  after: {runQuantumCommand: 'true'}
numberOfRetries: 0
"""


def check_schema(document: Any) -> None:
    schema = jsonschema.Draft202012Validator(jsonschema_of("report"))
    schema.validate(document)


def jsonschema_of(kind: str) -> Any:
    import json

    return json.loads(shipped_path("etc", "schema", f"{kind}.json").read_text("utf-8"))


def test_three_causes_on_the_first_screen(cli: Cli, write_run: WriteRun) -> None:
    assert cli("submit", write_run(COMMANDS, MANY).name, "--wait").returncode == 19
    shown = cli("report", "@last")
    screen = "\n".join(shown.stdout.splitlines()[:40])
    assert "Failed: 9 jobs, alike in 3 groups:" in screen
    assert "1. typo: 4 jobs (exit code 127): no-such-program: not found" in screen
    assert "2. data: 3 jobs (exit code 1): ValueError: no data for visit <n> in <path>" in screen
    assert "3. crash: 2 jobs (signal SIGSEGV)" in screen
    assert "\x1b" not in shown.stdout
    assert "  | no-such-program: not found" in shown.stdout
    assert r"\x1b[2J" in shown.stdout, "what would clear the screen is spelled out"
    again = re.search("again by hand: (.*)", shown.stdout)
    assert again
    by_hand = subprocess.run(again[1], shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - as a user would
    assert (by_hand.returncode, "not found" in by_hand.stdout) == (127, True)
    document = cli("report", "@last", "--json").json
    check_schema(document)
    (run,) = document["runs"]
    assert [(group["label"], group["count"]) for group in run["digest"]] == [("typo", 4), ("data", 3), ("crash", 2)]
    assert sum(group["count"] for group in run["digest"]) == run["counts"]["FAILED"] == 9
    assert run["exit_codes"]["data"] == {"payload": {"1": 3}, "infrastructure": {}, "unknown": 0}
    assert run["exit_codes"]["crash"]["infrastructure"] == {"11": 2}
    codes = cli("report", "@last", "--return-exit-codes").stdout
    assert "PAYLOAD ERROR COUNT" in codes
    assert to_json(document)


def test_tried_again_and_succeeded_is_no_failure_but_badput(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    command = f"if test -e {tmp_path}/second; then exit 0; fi; touch {tmp_path}/second; exit 3"
    write_run(f"runQuantumCommand: '{command}'\nnumberOfRetries: 2\n")
    assert cli("submit", "run.yaml", "--wait").returncode == 0
    (run,) = cli("report", "@last", "--json").json["runs"]
    assert (run["state"], run["digest"]) == ("SUCCEEDED", [])
    assert [(spent["cause"], spent["attempts"]) for spent in run["badput"]] == [("EXIT", 1)]
    text = cli("report", "@last").stdout
    assert "Failed:" not in text
    assert re.search(r"^Ended badly: 1 attempt, .*: 1 with cause EXIT \(exit code 3; .* s\)$", text, re.MULTILINE)
    assert run["badput"][0]["exit_codes"] == {"3": 1}


@pytest.fixture
def held(write_run: WriteRun, tmp_path: Path, cli: Cli) -> Any:
    """A run whose jobs go on until they are let go."""
    write_run(
        f"runQuantumCommand: 'while ! test -e {tmp_path}/go; do sleep 0.05; done'\nresources: {{cpus: 1}}\n",
        {f"t{number}": ("T", []) for number in range(4)},
    )
    yield cli("submit", "run.yaml", "--json").json
    (tmp_path / "go").touch()


def watching(tmp_path: Path, *args: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "longshore", "report", "--watch", *args],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **more,
    )


def test_watching_without_a_terminal_gives_a_line_per_change(held: Any, tmp_path: Path) -> None:
    watch = watching(tmp_path, held["id"])
    assert watch.stdout
    first = watch.stdout.readline()
    assert re.match(rf"20\d\d-\d\d-\d\dT\S+Z {held['id']}: 0/4 succeeded", first)
    (tmp_path / "go").touch()
    out, err = watch.communicate(timeout=120)
    assert (watch.returncode, err) == (0, "")
    assert "SUCCEEDED" in out
    assert "\x1b" not in out
    assert "TOTAL" in out


def test_ctrl_c_stops_the_watching(cli: Cli, held: Any, tmp_path: Path) -> None:
    watch = watching(tmp_path, held["id"])
    assert watch.stdout
    watch.stdout.readline()
    os.killpg(watch.pid, signal.SIGINT)
    _, err = watch.communicate(timeout=120)
    assert watch.returncode == 130
    assert "no longer watching" in err
    assert "Traceback" not in err
    assert cli("status", held["id"]).stdout == "RUNNING\n"


def test_a_watched_run_whose_engine_dies_is_not_running(cli: Cli, held: Any, tmp_path: Path) -> None:
    import json

    watch = watching(tmp_path, held["id"])
    assert watch.stdout
    watch.stdout.readline()
    journal = Path(held["submit_dir"]) / "journal" / "0001.jsonl"
    os.kill(json.loads(journal.read_text("utf-8").splitlines()[0])["pid"], signal.SIGKILL)
    out, _ = watch.communicate(timeout=120)
    assert watch.returncode == 10
    assert f"longshore resume {held['id']}" in out
    (tmp_path / "go").touch()
    assert cli("resume", held["id"]).returncode == 0
    while cli("status", held["id"]).returncode == 15:
        pass


def test_a_directory_that_goes_while_it_is_watched(held: Any, tmp_path: Path) -> None:
    watch = watching(tmp_path, held["submit_dir"])
    assert watch.stdout
    watch.stdout.readline()
    (tmp_path / "go").touch()  # what runs must not outlive the test
    while Path(held["submit_dir"]).exists():
        shutil.rmtree(held["submit_dir"], ignore_errors=True)
    _, err = watch.communicate(timeout=120)
    assert watch.returncode in {0, 5}, err
    assert "Traceback" not in err


@pytest.mark.parametrize("columns", ["40", "120"])
def test_on_a_terminal_it_is_redrawn(held: Any, tmp_path: Path, columns: str) -> None:
    terminal, other_end = pty.openpty()
    watch = subprocess.Popen(
        [sys.executable, "-m", "longshore", "report", "--watch", "--id", held["id"]],
        cwd=tmp_path,
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": columns, "NO_COLOR": "1"},
        start_new_session=True,
    )
    os.close(other_end)
    shown = b""
    deadline = time.monotonic() + 120
    while watch.poll() is None or select.select([terminal], [], [], 0.2)[0]:
        assert time.monotonic() < deadline
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
        if b"RUNNING" in shown:
            (tmp_path / "go").touch()
    os.close(terminal)
    assert watch.wait(120) == 0
    text = shown.decode()
    assert "\x1b[2K" in text, "what stood there is cleared"
    assert not re.search(r"\x1b\[[0-9;]*[1-9][0-9;]*m", text), "no colours"
    assert text.rstrip().splitlines()[-1].strip()
    assert "SUCCEEDED" in text
    assert "Traceback" not in text


def test_any_locale_and_any_reader(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    write_run("runQuantumCommand: 'echo \"ERROR: … 日本 🚢\"; exit 1'\noperator: '12345'\n")
    cli("submit", "run.yaml", "--wait")
    narrow = {"PYTHONIOENCODING": "latin-1", "COLUMNS": "40", "LC_ALL": "POSIX", "NO_COLOR": "1"}
    shown = cli("report", "@last", env=narrow)
    assert shown.returncode == 0, shown.stderr
    assert "  | ERROR: \\u2026 \\u65e5\\u672c \\ud83d\\udea2" in shown.stdout
    (run,) = cli("report", "@last", "--json", env=narrow).json["runs"]
    assert run["digest"][0]["example"]["tail"] == ["ERROR: … 日本 🚢"]
    assert cli("report", "@last", env={**narrow, "PYTHONIOENCODING": "ascii"}).returncode == 0
    assert cli("report", "--user", "12345", env=narrow).stdout.count("FAILED") == 1
    line = f"{sys.executable} -m longshore report @last | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")
