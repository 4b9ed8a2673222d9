"""Commands beside a pipeline are checked for placeholders of other systems like those within it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longshore.plan.lint_file import lint_file

PIPELINE = """\
pipeline:
  dimensions: {sample: {table: sheet.csv}}
  datasets: {bam: "{sample}.bam", table: table.tsv}
  tasks:
    align: {dimensions: [sample], command: "true", outputs: [bam]}
    merge: {command: "true", inputs: [bam], outputs: [table]}
paths: {reference: ref.fa}
"""
BPS_COMMAND = (
    "${DAF_BUTLER_DIR}/bin/butler {butlerConfig} {fileDistributionEndPoint} {wildcards.sample} ${sample} {a[0]}"
)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sheet.csv").write_text("sample,size\nA,1\n", "utf-8")
    return tmp_path


def errors_of(text: str, directory: Path) -> list[tuple[str, str, str]]:
    """Place, message and hint of each error."""
    path = directory / "run.yaml"
    path.write_text(text, "utf-8")
    return [
        (str(each.origin).partition(":")[2], each.message, each.hint)
        for each in lint_file(path, now=0).findings
        if each.severity == "error"
    ]


TASK = "pipetask: {align: {runQuantumCommand: 'bwa %s'}}\n"
ROOT = "runQuantumCommand: 'bwa %s'\npipetask: {merge: {runQuantumCommand: 'true'}}\n"
FINAL = "finalJob: {command1: 'true', command2: 'cat %s'}\n"
INIT = "runInit: true\npipetask: {pipetaskInit: {runQuantumCommand: 'mkdir %s'}}\n"


@pytest.mark.parametrize(
    "written", ["{wildcards.sample}", "{input.bam}", "{output[0]}", "${sample}", "{sample.nope.x}"]
)
@pytest.mark.parametrize("form", [TASK, ROOT, FINAL, INIT], ids=["task", "root", "final", "init"])
def test_a_command_beside_a_pipeline_has_no_foreign_placeholder(directory: Path, form: str, written: str) -> None:
    text = PIPELINE + form % written
    ((place, message, _),) = errors_of(text, directory)
    assert f"uses '{written}', " in message
    line = text[: text.index(written)].count("\n") + 1
    assert place == f"{line}:{text.splitlines()[line - 1].index(written) + 1}"


def test_the_hint_names_what_the_job_has(directory: Path) -> None:
    hints = [
        errors_of(PIPELINE + form % written, directory)[0][1:]
        for form, written in [(TASK, "{output[0]}"), (FINAL, "$sample"), (FINAL, "{paths.reference}")]
    ]
    assert hints[0][0] == "the command of the task 'align' uses '{output[0]}', which nothing replaces"
    assert hints[0][1].startswith("Did you mean '{bam}'?")
    assert hints[1][0] == "the command of the job 'finalJob' uses '$sample', a variable of the shell that nothing sets"
    assert hints[1][1].startswith("A job without a task has no dimensions and no datasets. Set the variable")
    assert hints[2][1].startswith("Did you mean '{.paths.reference}'?")


def test_a_command_of_several_tasks_is_told_once(directory: Path) -> None:
    faults = errors_of(PIPELINE + "runQuantumCommand: 'bwa {output[0]} {params.x}'\n", directory)
    assert [message.partition("uses ")[2] for _, message, _ in faults] == [
        "'{output[0]}', which nothing replaces",
        "'{params.x}', which nothing replaces",
    ]


def test_a_column_that_the_table_lacks_is_an_error_in_such_a_command_too(directory: Path) -> None:
    ((place, message, hint),) = errors_of(PIPELINE + TASK % "{sample.sise}", directory)
    assert place.startswith("8:")
    assert message.endswith("'sheet.csv' has no column 'sise'")
    assert hint == "Did you mean 'size'?"


@pytest.mark.parametrize(
    "form",
    [
        TASK % "{sample.size} {sample} {.paths.reference} {{wildcards.sample}} ${x%.*}",
        "pipetask: {align: {runQuantumCommand: 'bwa $sample'}}\nenvironment: {sample: x}\n",
        "pipetask: {align: {runQuantumCommand: [sh, -c, 'sample=1; echo $sample']}}\n",
        "finalJob: {command1: 'bam=x; table=y', command2: 'cat $bam ${table}'}\n",
        "finalJob: {command1: 'cat {wildcards.sample}', whenRun: NEVER}\n",
        "pipetask: {pipetaskInit: {runQuantumCommand: 'mkdir {output[0]}'}}\n",
        "runQuantumCommand: '{output[0]}'\npipetask: {align: &a {runQuantumCommand: 'true'}, merge: *a}\n",
    ],
)
def test_legal_commands_and_those_that_never_run_are_not_refused(directory: Path, form: str) -> None:
    assert errors_of(PIPELINE + form, directory) == []


@pytest.mark.parametrize(
    "form",
    [
        "runQuantumCommand: '%s'\n",
        "pipetask: {isr: {runQuantumCommand: '%s'}}\n",
        "finalJob: {whenRun: ALWAYS, command1: '%s'}\n",
    ],
)
def test_a_file_without_a_pipeline_keeps_such_texts_as_bps_does(directory: Path, form: str) -> None:
    header = {"kind": "longshore-graph", "version": 1, "name": "g", "tasks": 1, "edges": 0, "commands": {"isr": "true"}}
    (directory / "tasks.jsonl").write_text(json.dumps(header) + '\n{"name":"isr","label":"isr"}\n', "utf-8")
    text = "graphFile: tasks.jsonl\nbutlerConfig: repo\nfileDistributionEndPoint: here\n" + form
    assert errors_of(text % BPS_COMMAND, directory) == []
    ((_, message, _),) = errors_of(text % "{nothing}", directory)
    assert message == "the command uses '{nothing}', which nothing defines"
