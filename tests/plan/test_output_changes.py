"""Outputs of an earlier run are compared with their recorded size and time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.model.event import Ended, Event, FileStamp, Started
from longshore.model.states import Cause
from longshore.plan.match_run import OutputChanges, Stamps, collect_stamps, look_at_file


def record(*paths: Path) -> tuple[FileStamp, ...]:
    return tuple(look_at_file(str(path))[0] for path in paths)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text(f"{path.name}\n", "utf-8")
        os.utime(path, ns=(0, 1_790_000_000_123_456_789))
    return paths


def changes(outputs: list[list[Path]], stamps: Stamps) -> OutputChanges:
    return OutputChanges([[str(path) for path in paths] for paths in outputs], stamps)


def test_the_newest_success_counts() -> None:
    one, two = FileStamp(1, 1), FileStamp(2, 2)
    events: list[Event] = [
        Started(j=0, a=1),
        Ended(j=0, a=1, stamps=(one,)),
        Ended(j=1, a=1, stamps=(one,)),
        Ended(j=2, a=1, stamps=(one,)),
        Ended(j=0, a=2, stamps=(two,)),
        Ended(j=1, a=2, cause=Cause.EXIT),
        Ended(j=2, a=2),
    ]
    stamps: Stamps = {}
    assert list(collect_stamps(events, stamps)) == events
    assert stamps == {0: (two,)}


def test_size_and_time_count(files: list[Path]) -> None:
    compared = changes([files], {0: record(*files)})
    assert [compared.describe(0, str(path)) for path in files] == ["", ""]
    os.utime(files[0], ns=(0, 1_790_000_000_123_456_790))
    files[1].write_text("longer\n", "utf-8")
    os.utime(files[1], ns=(0, 1_790_000_000_123_456_789))
    for path in files:
        assert compared.describe(0, str(path)) == f"its output '{path}' was written since by something else"


def test_a_copy_with_its_time_and_a_second_name_are_the_same(files: list[Path]) -> None:
    compared = changes([files], {0: record(*files)})
    (files[0].parent / "link").hardlink_to(files[0])
    before = files[1].stat()
    files[1].unlink()
    files[1].write_text("b\n", "utf-8")
    os.utime(files[1], ns=(0, before.st_mtime_ns))
    assert [compared.describe(0, str(path)) for path in files] == ["", ""]


def test_where_nothing_was_recorded_nothing_is_compared(files: list[Path]) -> None:
    assert changes([files], {}).describe(0, str(files[0])) == ""


def test_a_file_that_cannot_be_read_is_told(files: list[Path]) -> None:
    compared = changes([files], {0: record(*files)})
    files[0].unlink()
    assert compared.describe(0, str(files[0])) == f"its output '{files[0]}' cannot be read: No such file or directory"


def test_an_output_of_several_jobs_may_be_as_any_of_them_left_it(files: list[Path]) -> None:
    index = files[0]
    first = record(index)
    index.write_text("more\n", "utf-8")
    second = record(index)
    compared = changes([[index], [index]], {0: first, 1: second})
    assert [compared.describe(job, str(index)) for job in (0, 1)] == ["", ""]
    index.write_text("of another run\n", "utf-8")
    assert "was written since" in compared.describe(0, str(index))
    alone = changes([[index], [files[1]]], {0: first, 1: record(index)})
    assert "was written since" in alone.describe(0, str(index)), "what another job did to it without declaring it"


def test_of_a_folder_the_time_counts_unless_outputs_of_others_lie_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.utime(folder, ns=(0, 5))
    stamps: Stamps = {0: record(folder)}
    (folder / "new").write_text("x", "utf-8")
    os.utime(folder, ns=(0, 5))
    assert changes([[folder]], stamps).describe(0, str(folder)) == ""
    (folder / "newer").touch()
    told = changes([[folder]], stamps).describe(0, str(folder))
    assert told == f"entries of its output '{folder}', a folder, were added or removed since by something else"
    assert changes([[folder], [folder / "newer"]], stamps).describe(0, str(folder)) == ""
