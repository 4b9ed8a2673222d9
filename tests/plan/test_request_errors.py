"""Errors of requests with columns name the job, what it lacks, and the way out; `config lint` finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.plan.lint_file import lint_file

PIPELINE = """pipeline:
  dimensions: {sample: {table: samples.csv}}
  tasks:
    sort: {dimensions: [sample], command: "true"}
"""
COMBINE = '    combine: {command: "true"}\n'
FINAL = 'finalJob: {command: "true"}\n'
BY_SIZE = 'requestMemory: "{sample.size_mb} * 3"\n'
SHEET = "sample,size_mb\nS1,20\nS2,30\n"
NO_DIMENSION = "uses '{sample.size_mb}', but the job has no dimension 'sample'"


def found_errors(folder: Path, text: str, sheet: str = SHEET) -> list[tuple[str, str]]:
    (folder / "samples.csv").write_text(sheet, "utf-8")
    path = folder / "run.yaml"
    path.write_text(text, "utf-8")
    return [(each.message, each.hint) for each in lint_file(path, None, now=0).findings]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            PIPELINE + COMBINE + BY_SIZE,
            f"'requestMemory' of 'combine' {NO_DIMENSION}",
            "Set 'pipetask.combine.requestMemory'.",
        ),
        (PIPELINE + BY_SIZE + FINAL, f"'requestMemory' of 'finalJob' {NO_DIMENSION}", "Set 'finalJob.requestMemory'."),
        (
            PIPELINE + COMBINE + 'requestResources: {gpu: "{sample.size_mb}"}\n',
            f"'requestResources.gpu' of 'combine' {NO_DIMENSION}",
            "Set 'pipetask.combine.requestResources.gpu'.",
        ),
        (
            PIPELINE + 'requestCpus: "{smaple.size_mb}"\n',
            "'requestCpus' of 'sort' uses '{smaple.size_mb}', but the job has no dimension 'smaple'",
            "Set 'pipetask.sort.requestCpus'.",
        ),
    ],
)
def test_a_request_without_a_value_names_the_job_and_the_key(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    assert (message, hint) in found_errors(tmp_path, text)


@pytest.mark.parametrize("column", ["size_mbb", "Size_MB"])
@pytest.mark.parametrize(
    "request_line",
    ['requestMemory: "{sample.COLUMN} * 3"\n', 'pipetask: {sort: {requestMemory: "max(50, {sample.COLUMN})"}}\n'],
)
def test_a_misspelt_column_of_a_request_is_told(tmp_path: Path, column: str, request_line: str) -> None:
    message = f"'requestMemory' uses '{{sample.{column}}}', but '{tmp_path}/samples.csv' has no column '{column}'"
    found = found_errors(tmp_path, PIPELINE + request_line.replace("COLUMN", column))
    assert (message, "Did you mean 'size_mb'?") in found


@pytest.mark.parametrize("amount", ["max(50, 20)", "2 * 1024", "(1 + 1) GB"])
def test_arithmetic_needs_no_column(tmp_path: Path, amount: str) -> None:
    assert found_errors(tmp_path, f'{PIPELINE}requestMemory: "{amount}"\n') == []


def test_arithmetic_without_a_column_may_be_wrong(tmp_path: Path) -> None:
    (found,) = found_errors(tmp_path, f'{PIPELINE}requestMemory: "max(50, lots)"\n')
    assert found[0] == "'max(50, lots)' is no arithmetic with numbers"


@pytest.mark.parametrize("cell", ["n/a", ""])
def test_a_wrong_cell_is_named_with_its_job(tmp_path: Path, cell: str) -> None:
    text = PIPELINE + 'requestMemory: "max(50, {sample.size_mb} * 3)"\n'
    (found,) = found_errors(tmp_path, text, f"sample,size_mb\nS1,20\nS2,{cell}\n")
    assert found[0].endswith(f"is no arithmetic with numbers; in the job 'sort_S2', 'sample.size_mb' is '{cell}'")
