"""A run that the command line prepared for HTCondor gets a second DAG from its changed configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli
from tests.services.htcondor import changed_run
from tests.services.htcondor.changed_run import AnsweringSchedd, node, states

from longshore.contract.capabilities import Amendable
from longshore.plan.changes import compare_run
from longshore.plan.new_submission import write_submission
from longshore.runstate.open_run import OpenRun, open_run

YAML = """\
wmsServiceClass: htcondor
computeSite: here
site: {{here: {{}}}}
pipeline:
  dimensions: {{sample: {{range: [1, {last}]}}}}
  tasks:
    one:
      dimensions: [sample]
      command: "echo {{sample}} > {{out}}"
      outputs: {{out: "{{submitPath}}/out/{{sample}}.one"}}
    two:
      dimensions: [sample]
      command: "{program} {{out}} > {{res}}"
      inputs: [out]
      outputs: {{res: "{{submitPath}}/out/{{sample}}.two"}}
finalJob: {{whenRun: ALWAYS, command1: 'echo {program}'}}
checkOutputs: {checked}
"""


def write(folder: Path, *, program: str = "cta", last: int = 2, checked: str = "false") -> Path:
    path = folder / "run.yaml"
    path.write_text(YAML.format(program=program, last=last, checked=checked), "utf-8")
    return path


@pytest.fixture
def opened(cli: Cli, tmp_path: Path) -> OpenRun:
    """A run whose jobs ``two`` failed."""
    root = tmp_path / "run"
    ran = cli("prepare", write(tmp_path), "--set", f"submitPath={root}")
    assert ran.returncode == 0, ran.stderr
    found = open_run(str(root))
    changed_run.submit(found.run, AnsweringSchedd())
    ends = {node(found.run, name): int(name.startswith("two")) for name in ("one_1", "one_2", "two_1", "two_2")}
    for sample in (1, 2):
        (root / "out" / f"{sample}.one").write_text("x", "utf-8")
    changed_run.write_logs(found.run.wms, 100, {**ends, "final": 0}, code=1)
    return found


def change(opened: OpenRun) -> None:
    """Write the submission for the configuration as it is now."""
    comparison = compare_run(opened)
    assert comparison.plan is not None
    assert comparison.match is not None
    write_submission(opened, comparison.plan, comparison.match)


def test_htcondor_takes_changes(opened: OpenRun) -> None:
    assert isinstance(opened.service, Amendable)
    assert opened.service.why_not_amended(opened.run) == ""


def test_a_changed_configuration_makes_a_second_dag(opened: OpenRun, tmp_path: Path) -> None:
    run = opened.run
    first = (run.wms / "run.dag").read_bytes()
    write(tmp_path, program="cat", last=3, checked="fresh")
    change(opened)
    folder = run.submissions / "0002"
    dag = (folder / "wms" / "run.dag").read_text("utf-8")
    assert (run.wms / "run.dag").read_bytes() == first
    assert f"{folder}/wms/longshore-job" in dag, "the wrapper of the first DAG is missing or old"
    assert (folder / "wms" / "longshore-job").stat().st_mode & 0o111
    assert f"output = {run.root}/logs/two/$(o)/$(n).$(Cluster)" in dag
    assert f"{folder.relative_to(run.root)}/final_job.bash" in dag, "the final job has a changed script"
    plan = changed_run.plan(run)
    done = {f"j{job}" for job in plan.done}
    assert done == {node(run, "one_1"), node(run, "one_2")}
    changed_run.submit(run, AnsweringSchedd(), plan)
    assert {
        line for line in (folder / "wms" / "run.dag.rescue001").read_text("utf-8").split("\n") if "DONE" in line
    } == {f"DONE {name}" for name in done}
    ends = dict.fromkeys((node(run, name) for name in ("one_3", "two_1", "two_2", "two_3")), 0)
    changed_run.write_logs(folder / "wms", 200, {**ends, "final": 0})
    attempts = {"one_1": 1, "one_2": 1, "one_3": 1, "two_1": 2, "two_2": 2, "two_3": 1, "finalJob": 2}
    assert states(run) == {name: ("SUCCEEDED", number) for name, number in attempts.items()}
