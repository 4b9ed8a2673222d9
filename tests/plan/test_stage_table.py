"""The table for the stage program names each file of a job, and its path in the scratch directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from longshore.config.plugins import shipped_path
from longshore.errors import PreparationError
from longshore.jobs.stage_table import ScratchLayout, stage_table, staged_outputs
from longshore.model.tasks import is_pattern
from longshore.model.workflow import StagingRules

RUN = ScratchLayout("/run")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("a/b.fits", "a/b.fits"),
        ("/run/a/b.fits", "a/b.fits"),
        ("a/../c", "c"),
        ("/data/x", "root/data/x"),
        ("../x", "root/x"),
        ("/runaway/x", "root/runaway/x"),
        ("s3://bucket/x", "s3://bucket/x"),
    ],
)
def test_a_file_of_the_run_directory_keeps_its_path(path: str, there: str) -> None:
    assert ScratchLayout("/run").place(path) == there


def test_files_of_one_directory_follow_each_other_and_urls_are_left_out() -> None:
    assert stage_table(["b/2", "a/b/1", "a/1", "b/1", "s3://bucket/x"], ["/far/x"], RUN) == (
        "i\t/run/a/1\ta/1\ni\t/run/a/b/1\ta/b/1\ni\t/run/b/1\tb/1\ni\t/run/b/2\tb/2\no\troot/far/x\t/far/x\n"
    )


def test_two_files_of_one_path_are_refused() -> None:
    with pytest.raises(PreparationError, match="would both be 'root/x'"):
        stage_table(["root/x", "/x"], [], RUN)


def test_an_input_may_be_an_output_as_well() -> None:
    assert stage_table(["x"], ["x"], RUN) == "i\t/run/x\tx\no\tx\t/run/x\n"


def test_the_program_reads_the_table(tmp_path: Path) -> None:
    run, far, scratch = tmp_path / "run", tmp_path / "far dir", tmp_path / "tmp"
    for folder in (run, far, scratch):
        folder.mkdir()
    name = "odd\tname\nwith \\ all 'of' \"it\""
    (far / name).write_text("content", "utf-8")
    table = stage_table([str(far / name)], [f"made/{name}"], ScratchLayout(str(run)))
    there = ScratchLayout(str(run)).place(str(far / name))
    line = 'cp "$1" "$2"'
    words = [str(shipped_path("bin", "longshore-stage")), "-t", table, "/bin/sh", "-c", line, "sh", there]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    subprocess.run(["/bin/sh", *words, f"made/{name}"], check=True, timeout=30, env=environment)
    assert (run / "made" / name).read_text("utf-8") == "content"


def test_lines_that_transfer_files_stand_before_them() -> None:
    rules = StagingRules(fetch="F", send="S", urls={"s3": "U"})
    layout = ScratchLayout("/run", schemes=rules.urls)
    table = stage_table(["a", "s3://bucket/x", "gs://other/y"], ["b", "s3://bucket/z"], layout, rules)
    assert table.splitlines() == [
        "t\tF",
        "i\t/run/a\ta",
        "t\tU",
        "i\ts3://bucket/x\turls/s3/bucket/x",
        "t\tS",
        "o\tb\t/run/b",
        "t\tU",
        "u\turls/s3/bucket/z\ts3://bucket/z",
    ]


def test_files_are_copied_again_behind_those_of_a_command() -> None:
    rules = StagingRules(urls={"s3": "U"})
    table = stage_table(["s3://bucket/x"], ["b"], ScratchLayout("/run", schemes=rules.urls), rules)
    assert table.splitlines() == ["t\tU", "i\ts3://bucket/x\turls/s3/bucket/x", "t\t", "o\tb\t/run/b"]


def test_the_last_part_of_a_path_may_be_a_pattern() -> None:
    assert stage_table(["parts/*.txt"], ["out[1]/x?"], RUN).splitlines() == [
        "m\t/run/parts/*.txt\tparts",
        "p\tout[1]/x?\t/run/out[1]",
    ]
    assert not is_pattern("s3://bucket/*")
    assert staged_outputs(["b", "a*", "gs://other/y"], RUN) == ["/run/a*", "/run/b"]


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/base/here/a", "a"),
        ("/base/here/runs/1/a", "a"),
        ("/base/a", "root/base/a"),
        ("b", "b"),
        ("s3://x/../y", "urls/s3/y"),
    ],
)
def test_files_of_the_working_directory_keep_their_paths_too(path: str, there: str) -> None:
    assert ScratchLayout("/base/here/runs/1", "/base/here", {"s3"}).place(path) == there


def test_before_the_run_directory_is_known_relative_paths_stay() -> None:
    layout = ScratchLayout("", "/base/here")
    assert [layout.place(path) for path in ("a/b", "/base/here/a/b", "/x")] == ["a/b", "a/b", "root/x"]
