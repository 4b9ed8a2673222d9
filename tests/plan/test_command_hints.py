"""Hints of errors about commands of a pipeline name what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.plan.lint_file import lint_file

TEXT = """\
pipeline:
  dimensions: {sample: [A1, B1]}
  datasets: {r1: "raw/{sample}.fastq", n: "{sample}.n", table: table.tsv}
  tasks:
    count: {dimensions: [sample], command: "wc {r1} > {n}", inputs: [r1], outputs: [n]}
    merge: {command: [cat, "{n}"], inputs: [n], outputs: [table]}
finalJob: {command: "cat table.tsv"}
"""
DOUBLED = " If no variable is meant, double the braces: '{{%s}}'."


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (
            "cat table.tsv",
            "cat {table}",
            "A final job has no datasets and no dimensions: write the path, such as 'table.tsv'." + DOUBLED % "table",
        ),
        (
            "cat table.tsv",
            "cat {sample}",
            "A final job has no datasets and no dimensions: write the path." + DOUBLED % "sample",
        ),
        ("wc {r1}", "wc {input}", "Did you mean '{r1}'?" + DOUBLED % "input"),
        ("> {n}", "> {output}", "Did you mean '{n}'? If the collection is meant, define 'payload.output'."),
        ("wc {r1}", "wc {threads}", "Did you mean '$LONGSHORE_JOB_CPUS'?" + DOUBLED % "threads"),
        ("inputs: [n], ", "", "Add 'n' to the inputs of 'merge'."),
        (
            'dimensions: [sample], command: "wc {r1} > {n}", inputs: [r1], outputs: [n]',
            'command: "echo {sample}"',
            "Add it to the task: 'dimensions: [sample]'.",
        ),
        (
            '"raw/{sample}.fastq"',
            "raw/{sample}.fastq",
            'Quote the whole text: "raw/{sample}.fastq". Between braces or brackets, a brace opens a map.',
        ),
    ],
)
def test_the_hint_of_a_wrong_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, hint: str
) -> None:
    assert TEXT.count(old) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    for sample in ("A1", "B1"):
        (tmp_path / "raw" / f"{sample}.fastq").touch()
    path = tmp_path / "run.yaml"
    path.write_text(TEXT.replace(old, new), "utf-8")
    assert lint_file(path, now=0).findings[0].hint == hint


def test_output_that_the_configuration_defines_is_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text("pipeline: {tasks: {a: {command: 'echo {output}'}}}\npayload: {output: mine}\n", "utf-8")
    assert not [each for each in lint_file(path, now=0).findings if "collection" in each.message]
