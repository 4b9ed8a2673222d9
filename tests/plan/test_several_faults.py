"""Independent faults of a payload are reported together, in order of their lines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.progress_notes import ProgressNotes

from longshore.errors import LongshoreError
from longshore.plan.lint_file import lint_file
from longshore.plan.stages import Stage, run_stages

DECLARATIONS = """\
pipeline:
  dimensions:
    sample: [A, B, A]
    visit: {rnge: [1, 3]}
    empty: []
  relations:
    pairs: {rows: [[A, 1]], columns: [sample, visits]}
  datasets:
    raw: "in/{sampel}.txt"
    other: {pth: x}
  tasks:
    one:
      comand: "true"
    two:
      dimensions: [sample]
      command: "cat {wildcards.sample} > {out}"
      outputs: {out: "{sample}.out"}
    three:
      dimensions: [sampel]
      command: "cat {raw} {other}"
      inputs: [raw, other]
    four:
      dimensions: [sample, visit]
      inputs: [outt]
      command: "cat {sample}"
    five:
      dimensions: [sample]
      command: "cat {sampl} {raw} $sample"
    six:
      after: [sevn]
"""
LINES = [3, 4, 5, 7, 9, 10, 13, 16, 19, 24, 28, 28, 28, 30]

COMMANDS = """\
pipeline:
  dimensions: {sample: [A]}
  tasks:
    one: {command: "echo {first}"}
    two: {dimensions: [sample], command: "echo {second} {sample}"}
    three: {command: [echo, "{third}"]}
"""


def write(text: str, at: Path) -> Path:
    path = at / "run.yaml"
    path.write_text("payloadName: several\n" + text, "utf-8")
    return path


def refused(path: Path) -> LongshoreError:
    with pytest.raises(LongshoreError) as caught:
        run_stages(path, Stage.TRANSFORM, progress=ProgressNotes())
    return caught.value


@pytest.mark.parametrize(
    ("text", "lines"), [(DECLARATIONS, LINES), (COMMANDS, [4, 5, 6])], ids=["declarations", "commands"]
)
def test_independent_faults_are_reported_together(text: str, lines: list[int], tmp_path: Path) -> None:
    path = write(text, tmp_path)
    found = lint_file(path, now=time.time()).findings
    assert [finding.origin.line - 1 for finding in found] == lines
    details = refused(path).details
    assert [detail.origin.line - 1 for detail in details if detail.origin] == lines
    assert {detail.message for detail in details} == {finding.message for finding in found}


def test_an_error_of_several_faults_counts_them(tmp_path: Path) -> None:
    error = refused(write(COMMANDS, tmp_path))
    assert error.message == "the command uses '{first}', which nothing defines (and 2 more)"
    assert (error.exit_status, len(error.details)) == (3, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pipeline: {dimensions: [a], tasks: {one: {dimensions: [a], command: x}}}\n", "'dimensions' must be a map"),
        (
            "pipeline: {datasets: [a], tasks: {one: {inputs: [a], command: 'cat {a}'}}}\n",
            "'datasets' must be a map",
        ),
        (
            "pipeline: {tasks: {one: {command: 'cat {out}', outputs: {out: [x]}}, two: {inputs: [out], command: x}}}\n",
            "the path of the dataset 'out' must be text",
        ),
        (
            "pipeline: {dimensions: {a: {}}, tasks: {one: {dimensions: [a], command: 'x {a}', outputs: {o: '{a}'}}}}\n",
            "the dimension 'a' needs one of",
        ),
        ("pipeline: {tasks: {one: {comand: x}, two: {after: [one], command: x}}}\n", "no key 'comand'"),
    ],
)
def test_a_fault_brings_no_others(text: str, message: str, tmp_path: Path) -> None:
    error = refused(write(text, tmp_path))
    assert message in error.message
    assert not error.details
