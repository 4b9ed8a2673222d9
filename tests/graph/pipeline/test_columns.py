"""Columns of the table that brought a dimension are values of paths and commands."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.config.values.merge import to_node
from longshore.errors import ConfigError
from longshore.graph.pipeline.pipeline import Pipeline, PipelineSettings, missing_files, read_pipeline
from longshore.graph.query.tables import parse_csv
from longshore.origin import Origin

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
            "the path of the dataset 'r1' cannot have the value '''', which 'sample.fastq_2' has for 'single'",
            "A column may be empty only where it is the whole path",
        ),
        (
            {"command": "run {sample.lane}"},
            "sample,lane\nA,1\nA,2\n",
            ALIGN + "'{sample.lane}', but 'sample.lane' is not one value: 'A' has '1' and '2'",
            "The second is at sheet.csv:3:1.",
        ),
    ],
)
def test_a_column_that_gives_no_value_is_an_error(task: dict[str, Any], table: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(table, **task)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)
    assert str(caught.value.origin) == "p.yaml:3:1"
