"""The table for the stage program names each file of a job, and its path in the scratch directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from longshore.errors import PreparationError
from longshore.model.tasks.file import File
from longshore.plan.stage_table import scratch_path, stage_table
from longshore.world.shipped_files import shipped_path


def files(*paths: str) -> dict[str, File]:
    return {path: File(name=path, path=path) for path in paths}


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
    assert scratch_path(path, "/run") == there


def test_files_of_one_directory_follow_each_other_and_urls_are_left_out() -> None:
    known = files("b/2", "a/1", "b/1", "/far/x", "s3://bucket/x", "a/b/1")
    assert stage_table(["b/2", "a/b/1", "a/1", "b/1", "s3://bucket/x"], ["/far/x"], known, "/run") == (
        "i\t/run/a/1\ta/1\ni\t/run/a/b/1\ta/b/1\ni\t/run/b/1\tb/1\ni\t/run/b/2\tb/2\no\troot/far/x\t/far/x\n"
    )


def test_two_files_of_one_path_are_refused() -> None:
    known = files("root/x", "/x")
    with pytest.raises(PreparationError, match="would both be 'root/x'"):
        stage_table(["root/x", "/x"], [], known, "/run")


def test_an_input_may_be_an_output_as_well() -> None:
    assert stage_table(["x"], ["x"], files("x"), "/run") == "i\t/run/x\tx\no\tx\t/run/x\n"


def test_the_program_reads_the_table(tmp_path: Path) -> None:
    run, far, scratch = tmp_path / "run", tmp_path / "far dir", tmp_path / "tmp"
    for folder in (run, far, scratch):
        folder.mkdir()
    name = "odd\tname\nwith \\ all 'of' \"it\""
    (far / name).write_text("content", "utf-8")
    known = files(str(far / name), f"made/{name}")
    table = stage_table([str(far / name)], [f"made/{name}"], known, str(run))
    there = scratch_path(str(far / name), str(run))
    line = 'mkdir made && cp "$1" "$2"'
    words = [str(shipped_path("bin", "longshore-stage")), "-t", table, "/bin/sh", "-c", line, "sh", there]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    subprocess.run(["/bin/sh", *words, f"made/{name}"], check=True, timeout=30, env=environment)
    assert (run / "made" / name).read_text("utf-8") == "content"
