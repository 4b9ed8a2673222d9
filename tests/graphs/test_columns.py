"""Columns of the table that brought a dimension are values of paths and commands."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.config.merge import to_node
from longshore.errors import ConfigError, Origin
from longshore.graphs.pipeline import Pipeline, PipelineSettings, missing_files, read_pipeline
from longshore.graphs.tables import parse_csv

NF_CORE = (
    "sample,fastq_1,fastq_2,size_mb\n"
    "control,/data/c/AEG1_R1.fastq.gz,/data/c/AEG1_R2.fastq.gz,100\n"
    "single,raw//./s/AEG2_R1.fastq.gz,,250.5\n"
)
ALIGN = "the command of the task 'align' uses "


def read(table: str = NF_CORE, *, columns: frozenset[str] = frozenset(), **task: Any) -> Pipeline:
    whole = {"dimensions": ["sample"], "command": "run", **task}
    pipeline = {"dimensions": {"sample": {"table": "sheet.csv"}, "lane": [1]}, "tasks": {"align": whole}}
    tables = {"sheet.csv": parse_csv(table, Origin("sheet.csv"))}
    return read_pipeline(to_node(pipeline, Origin("p.yaml", 3, 1)), tables, PipelineSettings(columns=columns))


def test_a_sample_sheet_of_nf_core_gives_inputs() -> None:
    found = read(
        inputs={"r1": "{sample.fastq_1}", "r2": "{sample.fastq_2}"},
        outputs={"bam": "bam/{sample}.bam"},
        command="bwa {r1} {r2} > {bam}",
    )
    control, single = found.graph.dag.nodes
    assert control.paths["r1"] == ("/data/c/AEG1_R1.fastq.gz",)
    assert control.inputs == ("/data/c/AEG1_R1.fastq.gz", "/data/c/AEG1_R2.fastq.gz")
    assert single.paths == {"r1": ("raw/s/AEG2_R1.fastq.gz",), "r2": (), "bam": ("bam/single.bam",)}
    assert {path: file.path for path, file in found.graph.files.items()}.keys() >= set(control.inputs)
    error = missing_files(found, {"raw/s/AEG2_R1.fastq.gz"})
    assert error is not None
    assert "'raw/s/AEG2_R1.fastq.gz' does not exist; 'align_single' reads it" in error.message


def test_a_sheet_with_several_rows_per_sample_gives_all_their_files() -> None:
    """Lanes of a sample: the rows are a dimension of their own, joined to the samples."""
    sheet = "sample,lane,r1,r2\nA,1,x/A_1.fq,x/A_1b.fq\nA,2,x/A_2.fq,\nB,1,x/B_1.fq,x/B_1b.fq\n"
    task = {
        "dimensions": ["sample"],
        "inputs": {"reads": "{row.r1}", "pairs": "{row.r2}"},
        "outputs": {"bam": "bam/{sample}.bam"},
        "command": "bwa {reads} {pairs} > {bam}",
    }
    each = {**task, "dimensions": ["sample", "row"], "outputs": {"one": "one/{sample}_{row.lane}.bam"}, "command": "x"}
    pipeline = {
        "dimensions": {"sample": {"table": "s.csv"}, "row": {"table": "s.csv", "column": "r1"}},
        "relations": {"rows": {"table": "s.csv", "columns": {"sample": "sample", "row": "r1"}}},
        "tasks": {"merge": task, "map": each},
    }
    graph = read_pipeline(to_node(pipeline, Origin("p.yaml")), {"s.csv": parse_csv(sheet, Origin("s.csv"))}).graph
    assert graph.dag["merge_A"].paths == {
        "reads": ("x/A_1.fq", "x/A_2.fq"),
        "pairs": ("x/A_1b.fq",),
        "bam": ("bam/A.bam",),
    }
    assert [task.outputs for task in graph.dag if task.label == "map"] == [
        ("one/A_1.bam",),
        ("one/A_2.bam",),
        ("one/B_1.bam",),
    ]


@pytest.mark.parametrize(("path", "looked"), [("raw/A.fq", "'/x/raw/A.fq'"), ("/raw/A.fq", "")])
def test_a_missing_file_is_named_with_the_place_that_was_looked_at(path: str, looked: str) -> None:
    pipeline = {"tasks": {"align": {"inputs": {"r1": path}, "command": "run {r1}"}}}
    found = read_pipeline(to_node(pipeline, Origin("p.yaml")), {}, PipelineSettings(directory="/x"))
    error = missing_files(found, {path})
    assert error is not None
    where = f" Looked for {looked}: relative paths start at the directory in which you submit." if looked else ""
    assert error.hint == "No task makes the dataset 'r1'." + where


def test_a_column_in_a_longer_path_may_have_slashes() -> None:
    found = read("sample,run\nA,2024/r1\nB,2024/r2\n", outputs={"out": "out/{sample.run}/{sample}.txt"})
    assert [task.outputs for task in found.graph.dag] == [("out/2024/r1/A.txt",), ("out/2024/r2/B.txt",)]


def test_only_columns_that_are_used_are_kept_once_per_value() -> None:
    found = read(command="run {sample.size_mb}", columns=frozenset({"sample.fastq_1", "sample.nope", "x.y", "lane.z"}))
    assert found.graph.columns == {
        "sample.size_mb": {"control": 100, "single": 250.5},
        "sample.fastq_1": {"control": "/data/c/AEG1_R1.fastq.gz", "single": "raw//./s/AEG2_R1.fastq.gz"},
    }
    assert read().graph.columns == {}


@pytest.mark.parametrize(
    ("task", "table", "message", "hint"),
    [
        (
            {"inputs": {"r1": "{sample.fastq}"}},
            NF_CORE,
            "the path of the dataset 'r1' uses '{sample.fastq}', but 'sheet.csv' has no column 'fastq'",
            "Did you mean 'fastq_",
        ),
        (
            {"inputs": {"r1": "{lane.fastq}"}},
            NF_CORE,
            "the path of the dataset 'r1' uses '{lane.fastq}', but the dimension 'lane' comes from no table",
            "Did you mean '{lane}'?",
        ),
        (
            {"inputs": {"r1": "x/{sample.fastq_2}"}},
            NF_CORE,
            "the path of the dataset 'r1' cannot have the value '', which 'sample.fastq_2' has for 'single'",
            "A column may be empty only where it is the whole path",
        ),
        (
            {"command": "run {sample.lane}"},
            "sample,lane\nA,1\nA,2\n",
            ALIGN + "'{sample.lane}', but 'sample.lane' is not one value: 'A' has '1' and '2'",
            (
                "The second is at sheet.csv:3:1. For several rows per value, add a dimension for the rows, such as "
                "'row: {table: sheet.csv, column: lane}', and a relation of 'sample' and 'row'."
            ),
        ),
        (
            {"inputs": {"r1": "{sample.fastq_1}"}},
            "sample,fastq_1\nA,a\nA,b\nB,b\n",
            (
                "the path of the dataset 'r1' uses '{sample.fastq_1}', but 'sample.fastq_1' is not one value: 'A' has "
                "'a' and 'b'"
            ),
            (
                "The second is at sheet.csv:3:1. For several rows per value, add a dimension for the rows, such as "
                "'row: {table: sheet.csv, column: COLUMN}'"
            ),
        ),
        (
            {"inputs": {"r1": "{sample.fastq_1}"}},
            "sample;fastq_1\nA;a\n",
            "'sheet.csv' has no column 'sample'",
            "Its columns seem to be separated by semicolons: save it with commas",
        ),
        (
            {"inputs": {"r1": "{sample.fastq_1}"}},
            "sample\tfastq_1\nA\ta\n",
            "'sheet.csv' has no column 'sample'",
            "Its columns seem to be separated by tabs: end its name in '.tsv'",
        ),
        (
            {"outputs": {"bam": "out/{sample}.bam"}},
            "sample,fastq_1\nA,a\nA/1,b\n",
            "the value 'A/1' of the dimension 'sample' cannot be a part of a path, as the dataset 'bam' wants it",
            (
                "In the name of a file a value must not be empty, '.' or '..', or have a slash in it. It is at "
                "sheet.csv:3:1."
            ),
        ),
        (
            {"outputs": {"bam": "out/{sample}.bam"}},
            'sample,fastq_1\n"",a\nA,b\n',
            "the value '' of the dimension 'sample' cannot be a part of a path, as the dataset 'bam' wants it",
            (
                "In the name of a file a value must not be empty, '.' or '..', or have a slash in it. It is at "
                "sheet.csv:2:1."
            ),
        ),
    ],
)
def test_a_column_that_gives_no_value_is_an_error(task: dict[str, Any], table: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(table, **task)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)
    assert str(caught.value.origin) == "p.yaml:3:1"
