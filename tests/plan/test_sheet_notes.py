"""Lint notes what is doubtful in the tables of a pipeline: rows, cells and values that are easily overlooked."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.config.schema import Finding, Severity
from longshore.plan.lint_file import lint_file

FILTER = """
pipeline:
  dimensions:
    sample: {table: samples.csv}
  tasks:
    filter:
      dimensions: [sample]
      inputs: {reads: "{sample.reads}"}
      outputs: {filtered: "out/{sample}.txt"}
      command: awk '$3 > 50' {reads} > {filtered}
"""
LANES = """
pipeline:
  dimensions:
    sample: [S1, S2]
    row: {table: lanes.csv, column: fq}
  relations: {lanes: {table: lanes.csv, columns: {sample: sample, row: fq}}}
  tasks:
    m: {dimensions: [sample, row], command: "cat {row}"}
"""
EXPOSURES = """
pipeline:
  dimensions: {exposure: {table: exposures.csv}, band: {table: exposures.csv}}
  RELATIONS
  tasks:
    calibrate: {dimensions: [exposure, band], command: "echo {exposure} {band}"}
"""
JOINED = "relations: {rows: {table: exposures.csv, columns: {exposure: exposure, band: band}}}"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def notes_of(text: str, sheet: str, rows: str) -> list[Finding]:
    """What lint finds in a pipeline with a table; everything must be a note."""
    Path(sheet).write_text(rows, "utf-8")
    Path("run.yaml").write_text(text, "utf-8")
    found = list(lint_file(Path("run.yaml")).findings)
    assert {each.severity for each in found} <= {Severity.NOTE}
    return found


def test_a_task_whose_only_input_is_an_empty_cell_is_noted() -> None:
    Path("a").touch()
    (note,) = notes_of(FILTER, "samples.csv", "sample,reads\nS1,a\nS3,\nS4,a\n")
    assert note.message == "the task 'filter_S3' has no input file: 'sample.reads' is empty"
    assert str(note.origin).startswith("samples.csv:3")
    (note,) = notes_of(FILTER, "samples.csv", "sample,reads\nS1,a\nS3,\nS4,\n")
    assert note.message.endswith("is empty (nor do 1 more of 'filter')")


def test_an_empty_cell_beside_another_input_is_no_doubt() -> None:
    Path("a").touch()
    text = FILTER.replace('{reads: "{sample.reads}"}', '{reads: "{sample.reads}", other: "{sample.other}"}')
    assert notes_of(text, "samples.csv", "sample,reads,other\nS1,a,a\nS3,,a\n") == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("S4 ", "the value 'S4 ' of the dimension 'sample' begins or ends with a blank"),
        ("#S4", "the value '#S4' of the dimension 'sample' looks like a comment"),
    ],
)
def test_a_doubtful_value_of_a_table_is_noted(value: str, message: str) -> None:
    Path("a").touch()
    (note,) = notes_of(FILTER, "samples.csv", f"sample,reads\nS1,a\n{value},a\n")
    assert note.message == message
    assert str(note.origin).startswith("samples.csv:3")


def test_skipped_rows_of_a_relation_are_noted() -> None:
    (note,) = notes_of(LANES, "lanes.csv", "sample,lane,fq\nS1,L1,a\nS2 ,L1,b\nS9,L1,c\n")
    assert note.message == "the relation 'lanes' skips 2 rows: 'S2 ' is no value of 'sample'"
    assert note.hint == "Did you mean 'S2'? Blanks at the end count."
    assert str(note.origin).startswith("lanes.csv:3")
    assert notes_of(LANES, "lanes.csv", "sample,lane,fq\nS1,L1,a\nS2,L1,b\n") == []


def test_two_dimensions_of_one_table_without_a_relation_are_noted() -> None:
    rows = "exposure,band\n1,g\n2,r\n3,g\n"
    (note,) = notes_of(EXPOSURES.replace("RELATIONS", ""), "exposures.csv", rows)
    assert note.message == "the task 'calibrate' has 6 combinations of 'exposure' and 'band', and 'exposures.csv' has 3"
    assert JOINED in note.hint, "the hint is what to write"
    assert notes_of(EXPOSURES.replace("RELATIONS", JOINED), "exposures.csv", rows) == []
    assert notes_of(EXPOSURES.replace("RELATIONS", ""), "exposures.csv", "exposure,band\n1,g\n1,r\n2,g\n2,r\n") == []
