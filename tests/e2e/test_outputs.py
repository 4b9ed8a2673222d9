"""Declared outputs, as a user sees them: a job that does not leave what it declares has failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli


def write(tmp_path: Path, command: str, *, more: str = "", path: str = "{sample}.out") -> str:
    """Write a pipeline of a task and its reader."""
    (tmp_path / "run.yaml").write_text(
        "numberOfRetries: 0\nrequestMemory: 10\n"
        "pipeline:\n  dimensions: {sample: [A]}\n  tasks:\n"
        f"    one: {{dimensions: [sample], command: {json.dumps(command)}, outputs: {{out: {json.dumps(path)}}}}}\n"
        "    two: {dimensions: [sample], command: 'cat {out}', inputs: [out]}\n" + more,
        "utf-8",
    )
    return "run.yaml"


def jobs_of(cli: Cli) -> dict[str, dict[str, Any]]:
    jobs = cli("report", "@last", "--json").json["runs"][0]["jobs"]
    return {job["name"]: job for job in jobs}


def test_a_job_that_leaves_no_output_failed_and_its_reader_never_runs(cli: Cli, tmp_path: Path) -> None:
    ran = cli("submit", write(tmp_path, "true"), "--wait")
    assert ran.returncode == 19, ran.stdout
    missing = tmp_path / "A.out"
    jobs = jobs_of(cli)
    assert {name: job["state"] for name, job in jobs.items()} == {"one_A": "FAILED", "two_A": "PRUNED"}
    assert (jobs["one_A"]["cause"], jobs["one_A"]["exit_code"]) == ("OUTPUT_MISSING", 0)
    assert jobs["one_A"]["reason"] == f"the output '{missing}' is missing"
    for command in (
        ("report", "@last"),
        ("explain", "@last", "one_A"),
        ("show-job", "@last", "one_A"),
        ("events", "@last"),
        ("logs", "@last", "one_A"),
    ):
        text = cli(*command).stdout
        assert str(missing) in text, command
        assert command[0] == "logs" or "OUTPUT_MISSING" in text, command
    (attempt,) = cli("explain", "@last", "one_A", "--json").json["attempts"]
    assert attempt["outputs"] == [{"path": str(missing), "state": "missing"}]


@pytest.mark.parametrize("where", ["", "site", "label"])
def test_the_check_is_turned_off(cli: Cli, tmp_path: Path, where: str) -> None:
    setting = {
        "": "checkOutputs: false\n",
        "site": "site: {local: {checkOutputs: false}}\ncomputeSite: local\n",
        "label": "pipetask: {one: {checkOutputs: false}}\n",
    }[where]
    cli("submit", write(tmp_path, "true", more=setting), "--wait")
    assert {name: job["cause"] for name, job in jobs_of(cli).items()} == {"one_A": None, "two_A": "EXIT"}


def test_a_stale_output_is_told_and_fails_where_it_must_be_fresh(cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "A.out"
    output.write_text("of last week", "utf-8")
    assert cli("submit", write(tmp_path, "true"), "--wait").returncode == 0
    told = f"the output '{output}' is as it was before the attempt"
    assert jobs_of(cli)["one_A"]["reason"] == told
    note = f"a job succeeded with an output that is stale or empty, 'one_A': {told}"
    assert note in " ".join(cli("report", "@last").stdout.split())
    assert cli("report", "@last", "--json").json["runs"][0]["notes"] == [note]
    assert f"Attempt 1: succeeded, but {told}" in cli("explain", "@last", "one_A").stdout
    assert told in cli("show-job", "@last", "one_A").stdout
    assert f'"outputs":[{{"path":"{output}","state":"stale"}}]' in cli("events", "@last").stdout
    assert cli("submit", write(tmp_path, "true", more="checkOutputs: fresh\n"), "--wait").returncode == 19
    job = jobs_of(cli)["one_A"]
    assert (job["cause"], job["reason"]) == ("OUTPUT_MISSING", told)
    assert cli("submit", write(tmp_path, "echo x > {out}", more="checkOutputs: fresh\n"), "--wait").returncode == 0


def test_an_empty_output_is_told_and_fails_where_it_must_be_fresh(cli: Cli, tmp_path: Path) -> None:
    command = ": > {out}"
    assert cli("submit", write(tmp_path, command), "--wait").returncode == 0
    told = f"the output '{tmp_path / 'A.out'}' is empty"
    assert jobs_of(cli)["one_A"]["reason"] == told
    assert cli("submit", write(tmp_path, command, more="checkOutputs: fresh\n"), "--wait").returncode == 19
    assert jobs_of(cli)["one_A"]["cause"] == "OUTPUT_MISSING"


def test_a_folder_is_an_output_and_a_url_is_not_checked(cli: Cli, tmp_path: Path) -> None:
    pipeline = write(tmp_path, "mkdir -p {out}", more="checkOutputs: fresh\n")
    text = (tmp_path / pipeline).read_text("utf-8").replace("cat {out}", "ls {out}")
    (tmp_path / pipeline).write_text(text, "utf-8")
    assert cli("submit", pipeline, "--wait").returncode == 0
    text = text.replace("mkdir -p {out}", "true").replace("ls {out}", "true").replace("{sample}.out", "s3://b/{sample}")
    (tmp_path / pipeline).write_text(text, "utf-8")
    assert cli("submit", pipeline, "--wait").returncode == 0


def test_each_output_of_a_cluster_is_checked(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, "echo {sample} >> order; test {sample} = B || touch {out}", more="retryDelay: 0\n")
    text = (tmp_path / path).read_text("utf-8").replace("[A]", "[A, B]")
    (tmp_path / path).write_text(
        text + "clusterAlgorithm: dimension_clustering\ncluster: {many: {pipetasks: one, dimensions: ''}}\n", "utf-8"
    )
    assert cli("submit", path, "--wait", "--set", "numberOfRetries=1").returncode == 19
    assert (tmp_path / "order").read_text("utf-8").split() == ["A", "B"] * 2, "a retry runs all tasks again"
    jobs = jobs_of(cli)
    (failed,) = (job for job in jobs.values() if job["state"] == "FAILED")
    assert failed["reason"] == f"the output '{tmp_path / 'B.out'}' is missing"


def test_a_retry_may_still_make_the_output(cli: Cli, tmp_path: Path) -> None:
    command = "if [ -e before ]; then echo x > {out}; else touch before; fi"
    path = write(tmp_path, command, more="retryDelay: 0\n")
    assert cli("submit", path, "--wait", "--set", "numberOfRetries=1").returncode == 0
    assert jobs_of(cli)["one_A"]["attempts"] == 2
    assert "because of OUTPUT_MISSING" in cli("explain", "@last", "one_A").stdout


def test_words_in_the_log_of_a_job_without_its_output_are_worth_another_attempt(cli: Cli, tmp_path: Path) -> None:
    command = "test $LONGSHORE_JOB_ATTEMPT -gt 1 && echo x > {out}; echo connection reset"
    path = write(tmp_path, command, more="retryDelay: 0\nretryOn: {log: 'connection (lost|reset)', only: true}\n")
    assert cli("submit", path, "--wait", "--set", "pipetask.one.numberOfRetries=1").returncode == 0
    assert jobs_of(cli)["one_A"]["attempts"] == 2


def test_success_may_require_the_file_of_a_dataset(cli: Cli, tmp_path: Path) -> None:
    rule = "checkOutputs: false\npipetask: {one: {successIf: {file: '{out}'}}}\n"
    assert cli("submit", write(tmp_path, "echo x > {out}", more=rule), "--wait").returncode == 0
    output = tmp_path / "A.out"
    output.unlink()
    path = write(tmp_path, "true", more=rule)
    assert cli("config", "lint", path).returncode == 0
    assert cli("submit", path, "--wait").returncode == 19
    job = jobs_of(cli)["one_A"]
    assert (job["cause"], job["reason"]) == ("PREDICATE", f"there is no file '{output}' (successIf.file)")


def test_outputs_of_tasks_that_a_retry_skips_are_fresh(cli: Cli, tmp_path: Path) -> None:
    command = "echo {sample} >> order; test {sample} = A -o $LONGSHORE_JOB_ATTEMPT -ge 2 || exit 5; echo x > {out}"
    path = write(tmp_path, command, more="retryDelay: 0\ncheckOutputs: fresh\n")
    text = (tmp_path / path).read_text("utf-8").replace("[A]", "[A, B]")
    (tmp_path / path).write_text(
        text + "clusterAlgorithm: dimension_clustering\ncluster: {many: {pipetasks: one, dimensions: ''}}\n", "utf-8"
    )
    ran = cli("submit", path, "--wait", "--set", "numberOfRetries=1")
    assert ran.returncode == 0, ran.stdout
    assert (tmp_path / "order").read_text("utf-8").split() == ["A", "B", "B"], "the retry skips what is done"
    assert cli("report", "@last", "--json").json["runs"][0]["notes"] == []
