"""Folders reached without following links below a run directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.system.atomic import (
    AppendedFile,
    copy_file,
    create_atomically,
    create_file,
    file_system_time,
    make_executable,
    open_to_append,
    truncate_file,
    write_atomically,
)
from longshore.system.folder import (
    LinkFoundError,
    make_folders,
    move,
    remove_empty_folder,
    remove_file,
    remove_tree,
    sync_folder,
)
from longshore.system.sharing import take_lock

Write = Callable[[Path, Path], object]

WRITES: dict[str, Write] = {
    "write": lambda path, run: write_atomically(path, b"x", below=run),
    "durable": lambda path, run: write_atomically(path, b"x", below=run, durable=True),
    "create": lambda path, run: create_file(path, [b"x"], below=run),
    "create durably": lambda path, run: create_atomically(path, b"x", below=run),
    "copy": lambda path, run: copy_file(Path(__file__), path, below=run),
    "append": lambda path, run: AppendedFile(path, below=run),
    "append for others": lambda path, run: open_to_append(path, below=run),
    "lock": lambda path, run: take_lock(path, below=run),
    "probe": lambda path, run: file_system_time(path.parent, below=run),
    "make": lambda path, run: make_folders(path, below=run),
}
CHANGES: dict[str, Write] = {
    "remove": lambda path, run: remove_file(path, below=run),
    "remove a folder": lambda path, run: remove_empty_folder(path, below=run),
    "move": lambda path, run: move(path, run / "stolen", below=run),
    "cut": lambda path, run: truncate_file(path, 0, below=run),
    "mode": lambda path, run: make_executable(path, below=run),
    "sync": lambda path, run: sync_folder(path.parent, below=run),
}
IN_PLACE: dict[str, Write] = {
    name: (WRITES | CHANGES)[name] for name in ("append", "append for others", "lock", "cut", "mode")
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory behind a link, with a folder and a file outside it that links point to."""
    (tmp_path / "real").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"precious")
    (tmp_path / "run").symlink_to("real", target_is_directory=True)
    return tmp_path / "run"


def outside(run: Path) -> list[tuple[str, bytes, int]]:
    folder = run.parent / "outside"
    return [(path.name, path.read_bytes(), path.stat().st_mode) for path in folder.iterdir()]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_links_above_a_run_are_followed(run: Path, write: Write) -> None:
    (run / "sub").mkdir()
    write(run / "sub" / "file", run)


@pytest.mark.parametrize("name", [*WRITES, *CHANGES])
def test_a_folder_that_is_a_link_leads_nowhere(run: Path, name: str) -> None:
    before = outside(run)
    (run / "sub").symlink_to("../outside", target_is_directory=True)
    with pytest.raises(LinkFoundError, match=r"it is a link.*remove it") as caught:
        (WRITES | CHANGES)[name](run / "sub" / "file", run)
    assert caught.value.filename == str(run / "sub")
    assert outside(run) == before


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_a_file_that_is_a_link_is_not_written(run: Path, change: Write) -> None:
    before = outside(run)
    (run / "file").symlink_to("../outside/file")
    with pytest.raises(LinkFoundError) as caught:
        change(run / "file", run)
    assert caught.value.filename == str(run / "file")
    assert outside(run) == before


def test_an_atomic_write_replaces_a_link_itself(run: Path) -> None:
    before = outside(run)
    (run / "file").symlink_to("../outside/file")
    write_atomically(run / "file", b"new", below=run)
    assert not (run / "file").is_symlink()
    assert (run / "file").read_bytes() == b"new"
    assert outside(run) == before


def test_removal_of_a_tree_removes_links_and_not_what_they_point_to(run: Path) -> None:
    before = outside(run)
    make_folders(run / "tree" / "deep", below=run)
    (run / "tree" / "deep" / "folder").symlink_to(run.parent / "outside", target_is_directory=True)
    (run / "tree" / "file").symlink_to(run.parent / "outside" / "file")
    (run / "tree" / "own").write_bytes(b"")
    remove_tree(run / "tree", below=run)
    assert os.listdir(run) == []
    assert outside(run) == before


def test_a_path_does_not_lead_out_by_its_parents(run: Path) -> None:
    with pytest.raises(OSError, match="would lead out"):
        write_atomically(run / ".." / "outside" / "file", b"x", below=run)
    with pytest.raises(ValueError, match="subpath"):
        write_atomically(run.parent / "outside" / "file", b"x", below=run)


def test_errors_name_the_whole_path(run: Path) -> None:
    create_file(run / "file", [b"x"], below=run)
    with pytest.raises(FileExistsError) as caught:
        create_file(run / "file", [b"y"], below=run)
    assert caught.value.filename == str(run / "file")
    with pytest.raises(FileNotFoundError) as missing:
        write_atomically(run / "none" / "file", b"x", below=run)
    assert missing.value.filename == str(run / "none")
    with pytest.raises(FileNotFoundError) as removed:
        remove_file(run / "none", below=run, missing_ok=False)
    assert removed.value.filename == str(run / "none")
    with pytest.raises(NotADirectoryError) as wrong:
        make_folders(run / "file" / "sub", below=run)
    assert wrong.value.filename == str(run / "file")


def test_a_copy_has_the_permissions_and_times_of_its_original(run: Path, tmp_path: Path) -> None:
    original = tmp_path / "original"
    original.write_bytes(b"x" * 3_000_000)
    original.chmod(0o750)
    os.utime(original, (1, 2))
    copy_file(original, run / "copy", below=run)
    assert (run / "copy").read_bytes() == original.read_bytes()
    assert ((run / "copy").stat().st_mode & 0o777, (run / "copy").stat().st_mtime) == (0o750, 2)
