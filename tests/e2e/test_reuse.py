"""`submit --reuse`: a new run takes over what is up to date, and says of each job why it runs or is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli

YAML = """\
pipeline:
  dimensions: {{sample: {{range: [1, {last}]}}}}
  datasets: {{raw: "{folder}/{{sample}}.raw"}}
  tasks:
    one:
      dimensions: [sample]
      command: "echo one {{sample}} >> {folder}/notes; cat {{raw}} > {{out}}"
      inputs: [raw]
      outputs: {{out: "{{submitPath}}/out/{{sample}}.one"}}
    two:
      dimensions: [sample]
      command: "echo two {{sample}} >> {folder}/notes; {program} {{out}} > {{res}}"
      inputs: [out]
      outputs: {{res: "{folder}/{{sample}}.two"}}
numberOfRetries: 0
requestMemory: {memory}
"""


class Project:
    """A pipeline with two samples, which a test changes."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self.folder = folder
        self.number = 0
        for sample in (1, 2, 3):
            (folder / f"{sample}.raw").write_text(f"raw {sample}\n", "utf-8")

    def write(self, *, program: str = "cat", last: int = 2, memory: int | str = 100) -> Path:
        path = self.folder / "run.yaml"
        path.write_text(YAML.format(program=program, last=last, memory=memory, folder=self.folder), "utf-8")
        return path

    def submit(self, *options: str, **changes: Any) -> Any:
        self.number += 1
        place = f"submitPath={self.folder}/runs/{self.number}"
        return self.cli("submit", self.write(**changes), "--set", place, "--json", *options)

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        lines = sorted(path.read_text("utf-8").splitlines()) if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def project(cli: Cli, tmp_path: Path) -> Project:
    made = Project(cli, tmp_path)
    ran = made.submit("--wait")
    assert ran.returncode == 0, ran.stderr
    assert len(made.notes()) == 4
    return made


def verdicts(ran: Any) -> dict[str, str]:
    assert ran.returncode == 0, ran.stderr
    return {job["name"]: job["reason"] for job in ran.json["jobs"]}


def test_a_new_run_keeps_what_is_up_to_date(cli: Cli, project: Project, tmp_path: Path) -> None:
    looked = project.submit("--reuse", "@last", "--dry-run", program="tac", last=3, memory=200)
    assert verdicts(looked) == {
        "one_1": "kept", "one_2": "kept", "one_3": "new", "two_1": "command", "two_2": "command", "two_3": "new",
    }  # fmt: skip
    assert not (tmp_path / "runs" / "2").exists()
    ran = project.submit("--reuse", "@last", "--wait", program="tac", last=3, memory=200)
    assert ran.returncode == 0, ran.stderr
    assert "2 of 6 jobs keep their results" in ran.stderr
    assert project.notes() == ["one 3", "two 1", "two 2", "two 3"]
    run = Path(ran.json["submit_dir"])
    report = cli("report", run, "--json").json["runs"][0]
    assert {job["state"] for job in report["jobs"]} == {"SUCCEEDED"}
    assert cli("status", run, "--json").json["counts"]["SUCCEEDED"] == 6
    assert (run / "out" / "1.one").samefile(tmp_path / "runs" / "1" / "out" / "1.one")
    assert (run / "out" / "3.one").read_text("utf-8") == "raw 3\n"
    assert "kept from run" in cli("explain", run, "one_1").stdout
    assert cli("verify", run).returncode == 0


def test_a_run_that_is_wholly_up_to_date_runs_nothing(cli: Cli, project: Project) -> None:
    ran = project.submit("--reuse", "@last", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert project.notes() == []
    again = project.submit("--reuse", "@last", "--wait")
    assert (again.returncode, project.notes()) == (0, [])
    restarted = cli("restart", again.json["submit_dir"], "--from", "two")
    assert restarted.returncode == 0, restarted.stderr


def test_changed_inputs_and_lost_outputs_run_again(project: Project, tmp_path: Path) -> None:
    (tmp_path / "1.raw").write_text("another\n", "utf-8")
    (tmp_path / "2.two").unlink()
    looked = project.submit("--reuse", "@last", "--dry-run")
    assert verdicts(looked) == {"one_1": "inputs", "two_1": "reads", "one_2": "kept", "two_2": "outputs"}
    because = {job["name"]: job["because"] for job in looked.json["jobs"]}
    assert f"'{tmp_path}/1.raw' has another size now" in because["one_1"]
    assert f"'{tmp_path}/2.two'" in because["two_2"]
    text = project.cli("submit", project.write(), "--reuse", "@last", "--dry-run").stdout
    assert "one_1: runs because its input" in text
    assert "one_2: kept because it succeeded" in text


def test_by_content_a_touched_input_is_the_same(project: Project, tmp_path: Path) -> None:
    assert project.submit("--reuse", "@last", "--by-content", "--wait").returncode == 0
    os.utime(tmp_path / "1.raw")
    assert verdicts(project.submit("--reuse", "@last", "--dry-run"))["one_1"] == "inputs"
    assert verdicts(project.submit("--reuse", "@last", "--by-content", "--dry-run"))["one_1"] == "kept"
    (tmp_path / "1.raw").write_text("RAW 1\n", "utf-8")
    assert verdicts(project.submit("--reuse", "@last", "--by-content", "--dry-run"))["one_1"] == "inputs"


def test_an_output_that_another_run_has_overwritten_is_not_kept(project: Project, tmp_path: Path) -> None:
    older = tmp_path / "runs" / "1"
    newer = project.submit("--wait", program="sort")
    assert newer.returncode == 0, newer.stderr
    project.notes()
    looked = project.submit("--reuse", str(older), "--dry-run")
    assert verdicts(looked) == {"one_1": "kept", "one_2": "kept", "two_1": "outputs", "two_2": "outputs"}
    because = {job["name"]: job["because"] for job in looked.json["jobs"]}
    assert because["two_1"] == f"its output '{tmp_path}/1.two' was written since by something else"
    text = project.cli("submit", project.write(), "--reuse", str(older), "--by-content", "--dry-run").stdout
    assert f"two_2: runs because its output '{tmp_path}/2.two' was written since by something else" in text
    assert verdicts(
        project.submit("--reuse", str(newer.json["submit_dir"]), "--dry-run", program="sort")
    ) == dict.fromkeys(("one_1", "one_2", "two_1", "two_2"), "kept")
    ran = project.submit("--reuse", str(older), "--wait")
    assert (ran.returncode, project.notes()) == (0, ["two 1", "two 2"])


def test_results_that_were_kept_once_are_compared_as_well(project: Project, tmp_path: Path) -> None:
    kept = project.submit("--reuse", "@last", "--wait")
    assert (kept.returncode, project.notes()) == (0, [])
    run = Path(kept.json["submit_dir"])
    assert set(verdicts(project.submit("--reuse", str(run), "--dry-run")).values()) == {"kept"}
    (tmp_path / "1.two").write_text("RAW 1\n", "utf-8")
    (run / "out" / "2.one").write_text("RAW 2\n", "utf-8")
    looked = verdicts(project.submit("--reuse", str(run), "--dry-run"))
    assert looked == {"one_1": "kept", "one_2": "outputs", "two_1": "outputs", "two_2": "reads"}
    looked = verdicts(project.submit("--reuse", str(tmp_path / "runs" / "1"), "--dry-run"))
    assert looked["one_2"] == "outputs", "both names are of one file"


def test_outputs_in_another_order_are_taken_over_under_their_names(project: Project, tmp_path: Path) -> None:
    places = "b: '{submitPath}/out/{sample}.b', a: '{submitPath}/out/{sample}.a'"
    text = project.write().read_text("utf-8").replace("> {out}", "> {out}; echo a > {a}; echo b > {b}")

    def write(outputs: str) -> None:
        place = 'outputs: {out: "{submitPath}/out/{sample}.one"'
        (tmp_path / "both.yaml").write_text(text.replace(place, f"{place}, {outputs}"), "utf-8")

    write(places)
    first = project.cli("submit", "both.yaml", "--set", f"submitPath={tmp_path}/b1", "--wait")
    assert first.returncode == 0, first.stderr
    write(", ".join(reversed(places.split(", "))))
    second = project.cli("submit", "both.yaml", "--set", f"submitPath={tmp_path}/b2", "--reuse", "@last", "--wait")
    assert second.returncode == 0, second.stderr
    assert "4 of 4 jobs keep their results" in second.stderr
    assert [(tmp_path / "b2" / "out" / f"1.{name}").read_text("utf-8") for name in "ab"] == ["a\n", "b\n"]


def test_without_the_check_of_outputs_their_state_does_not_count(project: Project, tmp_path: Path) -> None:
    (tmp_path / "1.two").write_text("RAW 1\n", "utf-8")
    assert verdicts(project.submit("--reuse", "@last", "--dry-run"))["two_1"] == "outputs"
    unchecked = "100\npipetask: {two: {checkOutputs: false}}"
    assert verdicts(project.submit("--reuse", "@last", "--dry-run", memory=unchecked))["two_1"] == "kept"


def test_an_output_that_cannot_be_linked_runs_again_and_says_why(project: Project, tmp_path: Path) -> None:
    output = tmp_path / "runs" / "1" / "out" / "1.one"
    output.unlink()
    output.mkdir()
    looked = project.submit("--reuse", "@last", "--dry-run")
    assert verdicts(looked)["one_1"] == "outputs"
    assert "no regular file that could be linked" in looked.stdout


def test_options_of_reuse_need_a_run(project: Project) -> None:
    for option in ("--dry-run", "--by-content"):
        refused = project.submit(option)
        assert refused.returncode == 2
    assert project.submit("--reuse", "nosuchrun").returncode == 5


def test_strict_refuses_a_warning_before_anything_is_written(project: Project, tmp_path: Path) -> None:
    memory = "100\npipetask: {tow: {requestMemory: 5}}"
    refused = project.submit("--reuse", "@last", "--strict", memory=memory)
    assert refused.returncode == 6
    assert "'--strict' refuses a run with a warning" in refused.stderr
    assert "tow" in refused.stderr
    assert not (tmp_path / "runs" / "2").exists()
    ran = project.submit("--reuse", "@last", "--strict", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "4 of 4 jobs keep their results" in ran.stderr
    assert project.submit("--reuse", "@last", "--force").returncode == 2
