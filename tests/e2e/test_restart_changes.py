"""`restart` runs what the user mended: it compares, asks or refuses, and keeps what is up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually

PIPELINE = """\
pipeline:
  dimensions: {{sample: {{range: [1, {last}]}}}}
  tasks:
    one:
      dimensions: [sample]
      command: "echo one {{sample}} >> {notes}; echo {{sample}} > {{out}}"
      outputs: {{out: "{folder}/{{sample}}.one"}}
    two:
      dimensions: [sample]
      command: "echo two {{sample}} >> {notes}; {program} {{out}} > {{res}}"
      inputs: [out]
      outputs: {{res: "{folder}/{{sample}}.two"}}
numberOfRetries: 0
{more}
"""
WriteConfig = Callable[..., Path]


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    (tmp_path / "data").mkdir()

    def write(program: str = "cta", last: int = 2, more: str = "") -> Path:
        path = tmp_path / "run.yaml"
        text = PIPELINE.format(
            program=program, last=last, more=more, notes=tmp_path / "notes", folder=tmp_path / "data"
        )
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def failed(cli: Cli, write_config: WriteConfig) -> Path:
    ran = cli("submit", write_config(), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


def notes(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "notes").read_text("utf-8").splitlines())


def wait_for_end(cli: Cli, run: Path) -> None:
    eventually(lambda: cli("status", run).returncode == 0)


def states(cli: Cli, run: Path) -> dict[str, tuple[str, int]]:
    jobs = cli("report", run, "--json").json["runs"][0]["jobs"]
    return {job["name"]: (job["state"], job["attempts"]) for job in jobs}


def test_mend_what_was_wrong_and_restart(cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path) -> None:
    before = states(cli, failed)
    explained = cli("explain", failed, "one_1", "--json").json
    write_config(program="cat")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "'pipeline.tasks.two.command' is" in refused.stderr
    assert "run.yaml:10:" in refused.stderr
    assert "jobs with another command: two_1, two_2" in refused.stderr
    for way in ("--with-changes", "--as-it-was"):
        assert way in refused.stderr
    assert not (failed / "submissions" / "0002.json").exists()
    looked = cli("restart", failed, "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert "one_1: kept because it succeeded" in looked.stdout
    assert "two_1: runs because its command" in looked.stdout

    ran = cli("restart", failed, "--with-changes")
    assert ran.returncode == 0, ran.stderr
    wait_for_end(cli, failed)
    assert notes(tmp_path) == ["one 1", "one 2", "two 1", "two 1", "two 2", "two 2"]
    assert (tmp_path / "data" / "1.two").read_text("utf-8") == "1\n"
    after = states(cli, failed)
    assert after["one_1"] == before["one_1"] == ("SUCCEEDED", 1)
    assert after["two_1"] == ("SUCCEEDED", 2)
    assert cli("explain", failed, "one_1", "--json").json["attempts"] == explained["attempts"]
    assert "cta: not found" in cli("logs", failed, "two_1", "--attempt", "1").stdout
    assert cli("status", failed, "--json").json["counts"]["SUCCEEDED"] == 4
    assert cli("verify", failed).returncode == 0
    again = cli("restart", failed)
    assert again.returncode == 0
    assert "nothing to run again" in again.stderr


def test_as_it_was_runs_the_old_command(cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path) -> None:
    write_config(program="cat")
    ran = cli("restart", failed, "--as-it-was")
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: states(cli, failed)["two_1"] == ("FAILED", 2))
    assert notes(tmp_path).count("one 1") == 1
    assert not list((tmp_path / "data").glob("1.two/x"))


def test_comments_and_what_changes_no_job_do_not_count(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    write_config(more="# a comment\nproject: another")
    ran = cli("restart", failed, "--json")
    assert ran.returncode == 0, ran.stderr
    assert (ran.json["with_changes"], ran.json["changes"]) == (False, [])


def test_new_jobs_join_and_jobs_that_are_gone_are_told(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    write_config(program="cat", last=3)
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    assert states(cli, failed)["two_3"] == ("SUCCEEDED", 1)
    assert notes(tmp_path).count("one 1") == 1
    write_config(program="cat", last=1)
    plan = cli("restart", failed, "--dry-run", "--json").json
    assert plan["gone"] == ["one_2", "two_2", "one_3", "two_3"] or set(plan["gone"]) == {
        "one_2", "two_2", "one_3", "two_3",
    }  # fmt: skip
    assert {job["name"]: job["reason"] for job in plan["jobs"]} == {"one_1": "kept", "two_1": "kept"}
    write_config(program="tac", last=4)
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    assert {name: attempts for name, (_, attempts) in states(cli, failed).items()} == {
        "one_1": 1, "one_2": 1, "one_3": 1, "one_4": 1, "two_1": 3, "two_2": 3, "two_3": 2, "two_4": 1,
    }  # fmt: skip
    assert cli("status", failed, "--json").json["expected"] == 8
    assert cli("verify", failed).returncode == 0


def test_a_value_that_is_set_changes_the_run_and_stays(cli: Cli, failed: Path, tmp_path: Path) -> None:
    command = "pipetask.two.runQuantumCommand=echo set {sample} >> " + str(tmp_path / "notes")
    assert cli("restart", failed, "--set", command, "--as-it-was").returncode == 2
    ran = cli("restart", failed, "--set", command, "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.json["with_changes"] is True
    wait_for_end(cli, failed)
    assert [line for line in notes(tmp_path) if line.startswith("set")] == ["set 1", "set 2"]
    later = cli("restart", failed, "--dry-run", "--json")
    assert later.json["changes"] == [], "what was set belongs to the run from now on"


def test_a_changed_request_keeps_what_succeeded(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    write_config(program="cta", more="requestMemory: 77")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "'requestMemory' is" in refused.stderr
    assert "run with other settings: two_1, two_2" in refused.stderr
    plan = cli("restart", failed, "--dry-run", "--json").json
    assert {job["name"]: job["reason"] for job in plan["jobs"]} == {
        "one_1": "kept", "one_2": "kept", "two_1": "unfinished", "two_2": "unfinished",
    }  # fmt: skip


def test_a_changed_final_job_runs_its_new_script(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    final = "finalJob: {{whenRun: ALWAYS, command1: 'echo {word} >> {notes}'}}"
    write_config(program="cat", more=final.format(word="final-1", notes=tmp_path / "notes"))
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    write_config(program="cat", more=final.format(word="final-2", notes=tmp_path / "notes"))
    assert cli("restart", failed).returncode == 6
    assert cli("restart", failed, "--with-changes").returncode == 0
    eventually(lambda: "final-2" in notes(tmp_path))
    wait_for_end(cli, failed)
    assert states(cli, failed)["finalJob"] == ("SUCCEEDED", 2)
    assert (notes(tmp_path).count("final-1"), notes(tmp_path).count("one 1")) == (1, 1)
    assert cli("verify", failed).returncode == 0


def test_a_configuration_that_is_wrong_now_is_told(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    path = write_config()
    path.write_text(path.read_text("utf-8").replace("inputs: [out]", "inputs: [nothing]"), "utf-8")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "the run could not be prepared now" in refused.stderr
    assert "nothing" in refused.stderr
    assert cli("restart", failed, "--as-it-was").returncode == 0


def test_a_run_whose_configuration_is_gone_goes_on_as_it_was(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    write_config().unlink()
    refused = cli("restart", failed, "--with-changes")
    assert refused.returncode == 6
    assert "is not there any more" in refused.stderr
    assert cli("restart", failed).returncode == 0


def test_what_failed_can_be_mended_by_an_input_file(cli: Cli, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_text("1\n", "utf-8")
    (tmp_path / "run.yaml").write_text(
        f"pipeline:\n  datasets: {{raw: {raw}}}\n  tasks:\n"
        f"    ok: {{command: 'cat {{raw}} > {{a}}', inputs: [raw], outputs: {{a: {tmp_path}/a}}}}\n"
        f"    bad: {{command: 'grep 2 {{a}}', inputs: [a]}}\nnumberOfRetries: 0\n",
        "utf-8",
    )
    run = cli("submit", tmp_path / "run.yaml", "--wait", "--json").json["submit_dir"]
    raw.write_text("12\n", "utf-8")
    refused = cli("restart", run)
    assert refused.returncode == 6
    assert "jobs with other inputs or outputs: ok" in refused.stderr
    plan = cli("restart", run, "--dry-run", "--json").json
    assert "has another size now" in {job["name"]: job["because"] for job in plan["jobs"]}["ok"]
    assert cli("restart", run, "--with-changes").returncode == 0
    wait_for_end(cli, Path(run))


def test_a_killed_restart_leaves_the_old_workflow_or_the_new_one(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    left = failed / "submissions" / "0002"
    left.mkdir()
    (left / "workflow.jsonl").write_text("torn", "utf-8")
    assert cli("verify", failed).returncode == 0
    write_config(program="cat")
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    manifest = json.loads((failed / "submissions" / "0002.json").read_text("utf-8"))
    assert manifest["folder"] == "submissions/0002"
    assert notes(tmp_path).count("one 1") == 1
