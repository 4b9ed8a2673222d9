"""A file of a run that is not as it was written is named, and nothing of it is ever executed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import WriteRun

TEXT = "runQuantumCommand: touch made\nworkingDirectory: ${PWD}\n"

REFUSING = """
from longshore.errors import SubmissionRefusedError
from longshore.services.local.service import LocalService


class Refusing(LocalService):
    def restart(self, run, changes):
        raise SubmissionRefusedError("not today")
"""


def flip_command(run: Path, before: bytes = b" made", after: bytes = b" Made") -> None:
    """Flip a bit in a command of the workflow."""
    workflow = run / "workflow.jsonl"
    text = workflow.read_bytes()
    assert before in text
    workflow.write_bytes(text.replace(before, after))


def submitted(cli: Cli, path: Path, *, status: int = 0) -> Path:
    ran = cli("submit", path, "--wait", "--json")
    assert ran.returncode == status, ran.stderr
    return Path(ran.json["submit_dir"])


def prepared(cli: Cli, path: Path) -> Path:
    ran = cli("prepare", path, "--json")
    assert ran.returncode == 0, ran.stderr
    return Path(ran.json["submit_dir"])


def names(folder: Path) -> set[str]:
    """Names of the files that a job of either command makes."""
    return {path.name for path in folder.iterdir()} & {"made", "Made"}


def test_a_command_that_changed_before_the_submission_is_not_executed(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    run = prepared(cli, write_run(TEXT))
    flip_command(run)
    ran = cli("submit", run)
    assert ran.returncode == 6
    assert "its file 'workflow.jsonl' has another content now, as long as before" in ran.stderr
    assert "--force" in ran.stderr
    assert not list((run / "journal").iterdir())
    assert not names(tmp_path)


def test_a_user_who_edited_a_file_submits_it_by_force(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = prepared(cli, write_run(TEXT))
    flip_command(run)
    ran = cli("submit", run, "--force", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "submitted despite a change: its file 'workflow.jsonl'" in ran.stderr
    assert names(tmp_path) == {"Made"}


@pytest.mark.parametrize("name", ["wms/engine.json", "run.json", "origins.json", "inputs/graph.json"])
def test_every_file_of_a_prepared_run_is_compared(cli: Cli, write_run: WriteRun, name: str) -> None:
    run = prepared(cli, write_run(TEXT))
    path = run / name
    path.write_bytes(path.read_bytes() + b"\n")
    ran = cli("submit", run)
    assert ran.returncode == 6
    assert f"its file '{name}' has another content now" in ran.stderr


@pytest.fixture
def killed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> Iterator[Path]:
    """A run whose engine and keeper were killed while its job waited for the file `go`."""
    text = f"runQuantumCommand: while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; touch made\n"
    run = prepared(cli, write_run(text + "workingDirectory: ${PWD}\nretriesOnLost: 3\n"))
    engine = subprocess.Popen(
        [sys.executable, "-m", "longshore", "drive", str(run), "--by", "submit"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    eventually(lambda: b'"started"' in b"".join(path.read_bytes() for path in run.glob("journal/*.jsonl")))
    engine.kill()
    engine.wait()
    yield run
    (tmp_path / "go").touch()


def test_a_command_that_changed_while_no_engine_lived_is_not_executed(cli: Cli, killed: Path, tmp_path: Path) -> None:
    flip_command(killed, b"touch made", b"touch Made")
    for command in (["resume", str(killed)], ["drive", str(killed)]):
        ran = cli(*command)
        assert ran.returncode in {5, 6}
        assert f"{killed}/workflow.jsonl' has another content now" in ran.stderr
    (tmp_path / "go").touch()
    assert names(tmp_path) <= {"made"}
    flip_command(killed, b"touch Made", b"touch made")
    assert cli("resume", killed).returncode == 0
    eventually(lambda: cli("report", killed, "--json").json["runs"][0]["state"] == "SUCCEEDED")
    assert names(tmp_path) == {"made"}


def test_a_command_that_changed_after_the_end_is_not_executed_by_a_restart(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    run = submitted(cli, write_run("runQuantumCommand: mkdir made\nworkingDirectory: ${PWD}\n"))
    (tmp_path / "made").rmdir()
    flip_command(run)
    for options in (["--from", "A"], ["--from", "A", "--dry-run"]):
        ran = cli("restart", run, *options)
        assert ran.returncode == 6
        assert f"'{run}/workflow.jsonl' has another content now, as long as before" in ran.stderr
        assert f"longshore verify {run}" in ran.stderr
    assert len(list((run / "journal").glob("*.jsonl"))) == 1
    assert not names(tmp_path)


def test_an_engine_trusts_no_file_beside_the_workflow_either(cli: Cli, write_run: WriteRun) -> None:
    run = prepared(cli, write_run(TEXT))
    settings = run / "wms" / "engine.json"
    settings.write_bytes(settings.read_bytes().replace(b"{", b"{ ", 1))
    ran = cli("drive", run, "--by", "submit")
    assert ran.returncode == 6
    assert f"'{settings}' has another content now" in ran.stderr
    assert not list((run / "journal").iterdir())


def test_a_run_without_its_manifest_is_not_taken_for_an_older_one(cli: Cli, write_run: WriteRun) -> None:
    run = prepared(cli, write_run(TEXT))
    (run / "submissions" / "0001.json").unlink()
    for command in (["submit", str(run)], ["drive", str(run), "--by", "submit"]):
        ran = cli(*command)
        assert ran.returncode == 5
        assert f"'{run}/submissions/0001.json' cannot be read" in ran.stderr


def test_a_run_of_the_older_format_needs_no_manifest(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    run = prepared(cli, write_run(TEXT))
    (run / "submissions" / "0001.json").unlink()
    card = msgspec.json.decode((run / "run.json").read_bytes())
    del card["c"]
    (run / "run.json").write_bytes(msgspec.json.encode({**card, "format": 1}))
    ran = cli("submit", run, "--wait")
    assert ran.returncode == 0, ran.stderr
    assert names(tmp_path) == {"made"}
    ran = cli("restart", run, "--from", "A")
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: cli("report", run, "--json").json["runs"][0]["state"] == "SUCCEEDED")
    assert b'"format": 1' in (run / "run.json").read_bytes()


def test_a_restart_begins_a_submission_with_a_manifest_of_its_own(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: 'false'\nnumberOfRetries: 0\n"), status=19)
    first = (run / "submissions" / "0001.json").read_bytes()
    ran = cli("restart", run)
    assert ran.returncode == 0, ran.stderr
    assert (run / "submissions" / "0001.json").read_bytes() == first
    second = msgspec.json.decode((run / "submissions" / "0002.json").read_bytes())
    assert second["number"] == 2
    assert second["workflow"] == "workflow.jsonl"
    assert second["files"] == msgspec.json.decode(first)["files"]
    eventually(lambda: cli("report", run, "--json").json["runs"][0]["state"] == "FAILED")


def test_no_engine_begins_without_the_manifest_of_the_newest_submission(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: 'false'\nnumberOfRetries: 0\n"), status=19)
    assert cli("restart", run, "--wait").returncode == 19
    manifest = run / "submissions" / "0002.json"
    manifest.unlink()
    commands = (["resume"], ["restart"], ["resume", "--accept-loss"], ["restart", "--accept-loss"])
    for name, *options in (*commands, ["drive", "--by", "resume"]):
        ran = cli(name, run, *options)
        assert ran.returncode == 6, (name, options, ran.stderr)
        assert f"its submission has no readable manifest '{manifest}'" in ran.stderr
    assert len(list((run / "journal").glob("*.jsonl"))) == 2


def test_a_refused_restart_leaves_no_submission(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "refusing.py").write_text(REFUSING, "utf-8")
    env = {"PYTHONPATH": str(tmp_path)}
    ran = cli("submit", write_run("wmsServiceClass: refusing.Refusing\n"), "--wait", "--json", env=env)
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    ran = cli("restart", run, "--from", "A", env=env)
    assert ran.returncode == 6
    assert "not today" in ran.stderr
    assert [path.name for path in (run / "submissions").iterdir()] == ["0001.json"]
