"""A command that gets a signal amid its work says so in a line, and leaves neither files nor processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.workflows import WriteRun

COMMANDS = {
    "report RUN": ["0001.late.jsonl"],
    "report --id RUN --json": ["0001.late.jsonl"],
    "report --id RUN --html page.html": ["page.css"],
    "stats RUN": ["0001.late.jsonl"],
    "suggest-resources RUN": ["0001.late.jsonl"],
    "explain RUN a": ["0001.late.jsonl"],
    "show-job RUN a": ["0001.late.jsonl"],
    "events RUN": ["0001.late.jsonl"],
    "logs RUN --failed": ["0001.late.jsonl"],
    "draw RUN": ["0001.late.jsonl"],
    "status RUN": ["0001.late.jsonl"],
    "verify RUN": ["0001.late.jsonl"],
    "clean RUN": ["0001.late.jsonl"],
    "doctor": ["run.json"],
    "export RUN --format csv --output attempts.csv": [".draft", "workflow.jsonl"],
    "export RUN --format wfformat --output workflow.json": ["0001.late.jsonl"],
    "export RUN --format ro-crate --output crate": [".draft", "ro-crate-metadata.json"],
    "export RUN --format ro-crate --output crate.zip": ["made-from.json"],
    "archive RUN --output run.tar.xz": [".draft", "workflow.jsonl"],
    "config lint run.yaml": ["defaults.yaml"],
    "acquire run.yaml": ["graph.json"],
    "transform run.yaml": ["graph.json"],
    "prepare run.yaml --set submitPath=other": [".draft", "input-files.json"],
    "submit run.yaml --set submitPath=other": [".draft", "input-files.json"],
}
"""Files of which the last one, opened after the others, brings the signal."""
MESSAGES = dict.fromkeys(("prepare", "submit"), "nothing was submitted")
"""What some commands add to the word that says how they ended."""


def run_signalled(commands: Sequence[tuple[str, list[str], int]], run: Path) -> list[dict[str, Any]]:
    """Run commands that each get a signal; return their statuses and outputs."""
    asked = [
        {
            "args": [str(run) if word == "RUN" else word for word in command.split()],
            "files": files,
            "number": number,
            "streams": str(run.parent.parent),
        }
        for command, files, number in commands
    ]
    program = [sys.executable, str(Path(__file__).with_name("signalled_commands.py"))]
    done = subprocess.run(
        program, input=json.dumps(asked), cwd=run.parent, capture_output=True, text=True, check=True, timeout=300
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def ended_run(cli: Cli, write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose only job failed, with its configuration beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    text = "runQuantumCommand: 'false'\nsubmitPath: submitted\n"
    done = cli("submit", write_run(text).name, "--wait", "--set", f"submitPath={folder / 'submitted'}")
    assert done.returncode == 19, done.stderr
    for name in ("run.yaml", "graph.json"):
        (tmp_path / name).rename(folder / name)
    return folder / "submitted"


def tree(run: Path) -> list[Path]:
    """Every file and folder beside a run, but for caches of reports."""
    return [path for path in sorted(run.parent.rglob("*")) if "cache" not in path.parts]


def processes_of(run: Path) -> list[str]:
    """Command lines that name a run."""
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_text("utf-8", "replace").replace("\0", " "))
        except OSError:
            continue
    return [line for line in lines if str(run) in line]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_leaves_a_line_and_nothing_half_done(number: signal.Signals, ended_run: Path) -> None:
    before = tree(ended_run)
    found = run_signalled([(command, files, number) for command, files in COMMANDS.items()], ended_run)
    word, status = ("interrupted", 130) if number == signal.SIGINT else ("terminated", -number)
    for command, end in zip(COMMANDS, found, strict=True):
        message = ": ".join(filter(None, (word, MESSAGES.get(command.split()[0], ""))))
        lines = [line for line in end["err"].splitlines() if line and not line.endswith(" ...")]
        assert (command, lines, end["status"]) == (command, [f"longshore: {message}"], status)
        if "--json" in command:
            assert json.loads(end["out"])["error"]["message"] == message
    assert tree(ended_run) == before
    assert processes_of(ended_run) == []


def test_an_interrupted_restart_says_that_it_may_go_on(ended_run: Path) -> None:
    (end,) = run_signalled([("restart RUN", ["engine.log"], signal.SIGINT)], ended_run)
    run_id = json.loads((ended_run / "run.json").read_text("utf-8"))["id"]
    message = f"interrupted: the restart may go on. To see it: longshore report {run_id}"
    assert (end["err"].split("\n")[-2], end["status"]) == (f"longshore: {message}", 130)
