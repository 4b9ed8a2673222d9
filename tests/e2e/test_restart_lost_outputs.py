"""A restart notices that an output is gone which a job to run reads, although nothing else changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli

PIPELINE = """\
pipeline:
  dimensions: {x: [1, 2, 3]}
  tasks:
    a: {dimensions: [x], command: "echo {x} >> NOTES; echo {x} > {o}", outputs: {o: "FOLDER/{x}.txt"}}
    b: {inputs: [o], command: "test -e FOLDER/ok && cat {o} | sort > {all}", outputs: {all: FOLDER/all.txt}}
numberOfRetries: 0
"""


@pytest.fixture
def run(cli: Cli, tmp_path: Path) -> Path:
    text = PIPELINE.replace("NOTES", f"{tmp_path}/notes").replace("FOLDER", f"{tmp_path}/out")
    (tmp_path / "run.yaml").write_text(text, "utf-8")
    ran = cli("submit", tmp_path / "run.yaml", "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    (tmp_path / "out" / "2.txt").unlink()
    (tmp_path / "out" / "ok").touch()
    return Path(ran.json["submit_dir"])


def test_a_restart_does_not_run_a_job_without_what_it_reads(cli: Cli, run: Path, tmp_path: Path) -> None:
    for words in ((), ("--dry-run",)):
        refused = cli("restart", run, *words)
        assert refused.returncode == 6, refused.stderr
        assert f"'{tmp_path}/out/2.txt' is gone: 'b' reads it, and 'a_2', which makes it, succeeded" in refused.stderr
        for way in ("--with-changes", "--from a", "--as-it-was"):
            assert way in refused.stderr
    assert not (run / "submissions" / "0002.json").exists()

    ran = cli("restart", run, "--with-changes", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "jobs whose output is gone or was written since: a_2" in ran.stderr
    assert sorted((tmp_path / "notes").read_text("utf-8").split()) == ["1", "2", "2", "3"]
    assert (tmp_path / "out" / "all.txt").read_text("utf-8") == "1\n2\n3\n"


def test_the_whole_label_or_nothing_can_run_again(cli: Cli, run: Path, tmp_path: Path) -> None:
    assert cli("restart", run, "--as-it-was", "--dry-run").returncode == 0
    assert cli("restart", run, "--from", "b", "--dry-run").returncode == 6
    ran = cli("restart", run, "--from", "a", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out" / "all.txt").read_text("utf-8") == "1\n2\n3\n"
    (tmp_path / "out" / "2.txt").unlink()
    assert cli("restart", run).returncode == 0, "no job that runs reads it"
