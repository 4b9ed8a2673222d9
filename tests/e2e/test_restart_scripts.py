"""`restart` of a run of `submitcmd` compares the script and its inputs with the copies that the run has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually

JOB = """
customJob:
  executable: ${PWD}/script.sh
  arguments: "{in} {out}"
  inputs: {in: in.txt}
  outputs: {out: deep/out.txt}
numberOfRetries: 0
"""
BROKEN = "#!/bin/sh\ncta $1 > $2\n"
MENDED = "#!/bin/sh\ncat $1 > $2\n"


@pytest.fixture
def failed(cli: Cli, tmp_path: Path) -> Path:
    """A run whose script names a program that does not exist."""
    (tmp_path / "script.sh").write_text(BROKEN, "utf-8")
    (tmp_path / "in.txt").write_text("first\n", "utf-8")
    (tmp_path / "custom.yaml").write_text(JOB, "utf-8")
    ran = cli("submitcmd", "custom.yaml", "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


def wait_for_end(cli: Cli, run: Path) -> None:
    eventually(lambda: cli("status", run).returncode == 0)


def test_a_mended_script_runs_after_a_restart_with_changes(cli: Cli, failed: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(MENDED, "utf-8")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert f"'{script}' has another content than its copy in the run" in refused.stderr
    assert "jobs with another command: script.sh" in refused.stderr
    looked = cli("restart", failed, "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert "script.sh: runs because its command has '... cat" in looked.stdout

    ran = cli("restart", failed, "--with-changes")
    assert ran.returncode == 0, ran.stderr
    wait_for_end(cli, failed)
    assert (failed / "deep" / "out.txt").read_text("utf-8") == "first\n"
    assert (failed / "script.sh").read_text("utf-8") == BROKEN, "the first submission keeps its copy"
    assert (failed / "submissions" / "0002" / "script.sh").stat().st_mode & 0o111
    again = cli("restart", failed, "--json")
    assert (again.returncode, again.json["changes"], again.json["submitted"]) == (0, [], False)
    assert cli("verify", failed).returncode == 0


def test_a_changed_input_is_copied_anew(cli: Cli, failed: Path, tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text(MENDED, "utf-8")
    (tmp_path / "in.txt").write_text("second\n", "utf-8")
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    assert (failed / "deep" / "out.txt").read_text("utf-8") == "second\n"
    assert cli("restart", failed, "--json").json["changes"] == []

    (tmp_path / "in.txt").write_text("third\n", "utf-8")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "jobs with other inputs or outputs: script.sh" in refused.stderr
    plan = cli("restart", failed, "--dry-run", "--json").json
    assert f"'{tmp_path}/in.txt' has another content now" in plan["jobs"][0]["because"]
    # The copies of the second submission are no change of the first: back to its input, and to its output.
    (tmp_path / "in.txt").write_text("first\n", "utf-8")
    assert cli("restart", failed, "--with-changes").returncode == 0
    eventually(lambda: (failed / "deep" / "out.txt").read_text("utf-8") == "first\n")
    wait_for_end(cli, failed)
    manifest = json.loads((failed / "submissions" / "0003.json").read_text("utf-8"))
    assert "submissions/0002/in.txt" in manifest["inputs"], "copies of inputs may be changed by jobs"
    assert "submissions/0003/script.sh" in manifest["files"]
    assert cli("verify", failed).returncode == 0


def test_a_script_that_is_the_same_runs_as_it_was(cli: Cli, failed: Path, tmp_path: Path) -> None:
    (tmp_path / "custom.yaml").write_text(JOB + "# a comment\n", "utf-8")
    ran = cli("restart", failed, "--json")
    assert ran.returncode == 0, ran.stderr
    assert (ran.json["with_changes"], ran.json["changes"]) == (False, [])
    assert not any("as it was" in note for note in ran.json["notes"])
    eventually(lambda: cli("report", failed, "--json").json["runs"][0]["jobs"][0]["attempts"] == 2)


def test_changed_arguments_and_another_folder_of_outputs_are_taken(cli: Cli, failed: Path, tmp_path: Path) -> None:
    other = tmp_path / "far" / "away" / "out.txt"
    text = JOB.replace("deep/out.txt", str(other)).replace('"{in} {out}"', '"{in} {out} 3"')
    (tmp_path / "custom.yaml").write_text(text, "utf-8")
    (tmp_path / "script.sh").write_text(MENDED, "utf-8")
    assert cli("restart", failed, "--dry-run").returncode == 0
    assert not other.parent.exists(), "a command that only looks makes no folders"
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    assert other.read_text("utf-8") == "first\n"
