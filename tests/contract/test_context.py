"""Names of files: whatever a job is called, its log has a name of its own that any file system takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import RunPaths, file_name

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(text)
def test_any_name_is_one_component_of_a_path(name: str) -> None:
    plain = file_name(name)
    assert plain not in {"", ".", ".."}
    assert not {"/", "\0"} & set(plain)
    assert len(f"{plain}.999999.log".encode()) <= 255
    assert len(Path("x", plain).parts) == 2


@pytest.mark.parametrize(
    ("name", "plain"),
    [("a/b", "a_b"), ("", "_"), (".", "_."), ("..", "_.."), ("a b", "a b"), ("世界", "世界"), ("..a", "..a")],
)
def test_ordinary_names_stay_as_they_are(name: str, plain: str) -> None:
    assert file_name(name) == plain


def test_long_names_are_told_apart() -> None:
    one, two = "世" * 100 + "1", "世" * 100 + "2"
    assert file_name(one) != file_name(two)
    assert file_name(one) == file_name(one)
    assert file_name("x" * 200) == "x" * 200
    assert len(file_name("x" * 201)) <= 200


def test_a_file_can_be_made_under_any_name(tmp_path: Path) -> None:
    for name in ("世" * 300, "a/" * 200, "..", "\n\t", "-rf", " ", "*?"):
        (tmp_path / f"{file_name(name)}.1.log").touch()


def test_a_folder_has_the_logs_of_five_hundred_jobs() -> None:
    run = RunPaths(Path("/runs/x"))
    assert str(run.log_of(0, "job", "label", 1)) == "logs/label/00/job.1.log"
    assert str(run.log_of(499, "a/b", "la/bel", 12)) == "logs/la_bel/00/a_b.12.log"
    assert str(run.log_of(500, "job", "label", 1)) == "logs/label/01/job.1.log"
    assert str(run.log_of(999_999, "job", "..", 1)) == "logs/_../1999/job.1.log"


def test_every_file_of_a_run_has_its_own_place() -> None:
    run = RunPaths(Path("/runs/x"))
    names = [name for name in dir(RunPaths) if isinstance(getattr(RunPaths, name), property)]
    paths = [getattr(run, name) for name in names]
    assert len(set(paths)) == len(names) >= 15
    assert {path.parent for path in paths} == {run.root}
