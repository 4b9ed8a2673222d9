"""Run directories appear whole or not at all, and whatever goes wrong leaves the disk as it was."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
import pytest
from tests.doors import replace_calls

from longshore.contract.service import RenderedFile, RunPaths
from longshore.errors import FilesError, RunNotFoundError, RunUnreadableError
from longshore.model.report import Snapshot
from longshore.model.states import JobState
from longshore.model.submission import RunIdentity
from longshore.rundir.run_directory import (
    RUN_FORMAT,
    add_to_run_folder,
    create_run_directory,
    create_run_folder,
    read_cached,
    read_card,
    read_snapshot,
    remove_run_directory,
    write_cached,
    write_card,
    write_rendered,
    write_snapshot,
)
from longshore.system.atomic import create_file
from longshore.system.files import files

CARD = RunIdentity(
    format=RUN_FORMAT,
    id="k7f3a1",
    name="n",
    service="local",
    longshore="0",
    created_at=1.0,
    expected=1,
    labels={"l": 1},
)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_run_directory_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "run"
    with create_run_directory(target) as draft:
        assert not target.exists()
        assert draft.root.parent == target.parent
        (draft.root / "file").write_text("x", "utf-8")
    assert names(tmp_path) == ["a", "a/b", "a/b/run", "a/b/run/file"]


def test_it_is_as_open_as_the_user_wants_it(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with create_run_directory(tmp_path / "run"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750


class Accident(Exception):  # noqa: N818 - it is no error of anybody's
    pass


@pytest.mark.parametrize("accident", [Accident, KeyboardInterrupt, SystemExit])
def test_an_accident_leaves_nothing(tmp_path: Path, accident: type[BaseException]) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "a" / "b" / "run"
    with pytest.raises(accident), create_run_directory(target) as draft:  # noqa: PT012
        (draft.root / "deep").mkdir()
        (draft.root / "deep" / "file").touch()
        raise accident
    assert names(tmp_path) == ["there"]


def test_folders_that_others_use_meanwhile_stay(tmp_path: Path) -> None:
    with pytest.raises(Accident), create_run_directory(tmp_path / "a" / "b" / "run"):  # noqa: PT012
        (tmp_path / "a" / "note").touch()
        raise Accident
    assert names(tmp_path) == ["a", "a/note"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path: Path, code: int) -> None:
    error = OSError(code, os.strerror(code), "the/file")
    with pytest.raises(FilesError, match="'the/file': ") as raised, create_run_directory(tmp_path / "a" / "run"):
        raise error
    assert names(tmp_path) == []
    assert os.strerror(code) in raised.value.message
    assert ("Make room" in raised.value.hint) == (code != errno.EIO)


def test_an_error_without_errno_keeps_its_message(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="something odd"), create_run_directory(tmp_path / "run"):
        raise OSError("something odd")


@pytest.mark.parametrize("kind", ["folder", "file", "link to nowhere"])
def test_an_existing_directory_is_not_overwritten(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "run"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.touch()
    else:
        target.symlink_to("/nowhere/x")
    with pytest.raises(FilesError, match="already exists"), create_run_directory(target):
        pytest.fail("the body must not be run")
    assert names(tmp_path) == ["run"]


def test_a_directory_created_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "run"
    with pytest.raises(FilesError, match="already exists"), create_run_directory(target) as draft:  # noqa: PT012
        (draft.root / "mine").touch()
        target.mkdir()
    assert names(tmp_path) == ["run"]


@pytest.mark.parametrize("parent", ["file/a", "/proc/nothing/a", "/dev/null/a", "x" * 300, "ok/" + "x" * 300 + "/b"])
def test_an_unwritable_parent_is_reported(tmp_path: Path, parent: str) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(FilesError, match="cannot write the run directory"),
        create_run_directory(tmp_path / parent / "run"),
    ):
        pytest.fail("the body must not be run")
    assert names(tmp_path) == ["file"]


def test_a_name_that_is_too_long_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FilesError), create_run_directory(tmp_path / "a" / ("x" * 300)):
        pass
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_on_the_way_leaves_nothing(tmp_path: Path) -> None:
    class FullDisk:
        def mkdir(self, path: str | Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            # The parent is made first, so that its absence is what calls for it.
            if Path(path).name in {"b", "c"} and Path(path).parent.exists():
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            os.mkdir(path, mode, dir_fd=dir_fd)

    with (
        replace_calls(files, FullDisk()),
        pytest.raises(FilesError, match="No space left"),
        create_run_directory(tmp_path / "a" / "b" / "c" / "run"),
    ):
        pytest.fail("the body must not be run")
    assert names(tmp_path) == []


def test_a_run_that_was_never_submitted_is_removed(tmp_path: Path) -> None:
    with create_run_directory(tmp_path / "run") as draft:
        (draft.root / "file").touch()
    run = RunPaths(tmp_path / "run")
    remove_run_directory(run)
    remove_run_directory(run)
    assert names(tmp_path) == []


def rendered(path: str, *chunks: str, mode: int = 0o644) -> RenderedFile:
    return RenderedFile(path=PurePosixPath(path), mode=mode, chunks=lambda: iter(chunks))


def test_rendered_files_are_written_as_they_are(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    files = [rendered("wms/a", "a\r\n", "b\n", mode=0o755), rendered("wms/deep/b", "世"), rendered("c")]
    assert len(write_rendered(run, files)) == 3
    assert (tmp_path / "wms" / "a").read_bytes() == b"a\r\nb\n"
    assert (tmp_path / "wms" / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "wms" / "deep" / "b").read_text("utf-8") == "世"
    assert (tmp_path / "c").read_bytes() == b""


def test_they_are_made_one_at_a_time(tmp_path: Path) -> None:
    def files() -> Iterator[RenderedFile]:
        yield rendered("first", "1")
        assert (tmp_path / "first").exists()
        yield rendered("second", "2")

    assert len(write_rendered(RunPaths(tmp_path), files())) == 2


def test_a_card_comes_back_as_it_was(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    write_card(run, CARD)
    assert read_card(run) == CARD
    assert names(tmp_path) == ["run.json"]
    assert run.card.read_text("utf-8").endswith("}\n")


def test_a_card_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.card.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_card(run, CARD)
    assert names(tmp_path) == ["run.json"]


@pytest.mark.parametrize("root", ["nothing", "file"])
def test_a_directory_without_a_run_is_reported(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunNotFoundError, match="is not a run directory") as raised:
        read_card(RunPaths(tmp_path / root))
    assert "Submit dir:" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"format": 1}', "cannot be read"),
        (b'{"format": "1"}', "cannot be read"),
        (b'{"format": 99, "everything": "new"}', "has format 99; this Longshore reads up to 2"),
    ],
)
def test_an_unreadable_card_is_reported(tmp_path: Path, text: bytes, said: str) -> None:
    run = RunPaths(tmp_path)
    run.card.write_bytes(text)
    with pytest.raises(RunUnreadableError, match=said):
        read_card(run)


def test_a_folder_in_place_of_the_card_is_reported(tmp_path: Path) -> None:
    RunPaths(tmp_path).card.mkdir()
    with pytest.raises(RunUnreadableError, match="Is a directory"):
        read_card(RunPaths(tmp_path))


def test_a_snapshot_comes_back_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_snapshot(run) is None
    snapshot = Snapshot(
        life=1,
        n=2,
        at=3.0,
        pid=4,
        host="h",
        boot="b",
        state=JobState.RUNNING,
        counts={JobState.RUNNING: 1},
        labels={"l": {JobState.RUNNING: 1}},
    )
    write_snapshot(run, snapshot)
    assert read_snapshot(run) == snapshot
    other_life = run.status.read_bytes().replace(b'"life":1', b'"life":1000000000000000000')
    other_count = run.status.read_bytes().replace(b'"RUNNING":1', b'"RUNNING":2')
    for damage in (b"", b"{}", b"\xff", other_life, other_count):
        run.status.write_bytes(damage)
        assert read_snapshot(run) is None


def test_a_cache_that_is_changed_or_of_another_run_is_not_used(tmp_path: Path) -> None:
    runs = [RunPaths(tmp_path / name) for name in ("one", "two")]
    for run in runs:
        run.root.mkdir()
        write_card(run, msgspec.structs.replace(CARD, key=run.root.name))
        write_cached(run, "x.json", b'{"n":1}')
        assert read_cached(run, "x.json") == b'{"n":1}'
    stored = (runs[0].cache / "x.json").read_bytes()
    (runs[1].cache / "x.json").write_bytes(stored)
    (runs[0].cache / "x.json").write_bytes(stored.replace(b"1", b"2"))
    assert [read_cached(run, "x.json") for run in runs] == [b"", b""]


def test_lines_are_written_to_a_new_file(tmp_path: Path) -> None:
    create_file(tmp_path / "lines", [b"a\n", b"b\n"])
    assert (tmp_path / "lines").read_bytes() == b"a\nb\n"


def test_kept_files_move_into_the_run_directory(tmp_path: Path) -> None:
    target = tmp_path / "a" / "run"
    create_run_folder(target)
    (target / "g.qg").write_text("graph", "utf-8")
    with create_run_directory(target, kept=["g.qg"]) as draft:
        (draft.root / "file").touch()
    assert names(tmp_path) == ["a", "a/run", "a/run/file", "a/run/g.qg"]
    assert (target / "g.qg").read_text("utf-8") == "graph"


def test_it_stays_where_it_was_after_an_accident(tmp_path: Path) -> None:
    target = tmp_path / "run"
    create_run_folder(target)
    (target / "g.qg").touch()
    with pytest.raises(Accident), create_run_directory(target, kept=["g.qg"]) as draft:  # noqa: PT012
        (draft.root / "file").touch()
        raise Accident
    assert names(tmp_path) == ["run", "run/g.qg"]


def test_kept_files_stay_when_other_files_appear(tmp_path: Path) -> None:
    target = tmp_path / "run"
    create_run_folder(target)
    (target / "g.qg").touch()
    with pytest.raises(FilesError), create_run_directory(target, kept=["g.qg"]):
        (target / "note").touch()
    assert names(tmp_path) == ["run", "run/g.qg", "run/note"]


def test_such_a_folder_is_new(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(FilesError, match="run"):
        create_run_folder(tmp_path / "run")
    (tmp_path / "file").touch()
    with pytest.raises(FilesError, match="run"):
        create_run_folder(tmp_path / "file" / "run")


def test_removal_leaves_the_kept_files(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    (run.root / "wms").mkdir(parents=True)
    (run.root / "wms" / "x").touch()
    (run.root / "g.qg").touch()
    write_card(run, CARD)
    remove_run_directory(run, kept=("g.qg", "g.out"))
    assert names(tmp_path) == ["run", "run/g.qg"]


@pytest.mark.parametrize("there", [False, True])
def test_files_added_early_are_removed_on_failure(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "a" / "run"
    if there:
        create_run_folder(target)
        (target / "graph.qg").write_text("graph", "utf-8")
    before = names(tmp_path)

    def fill() -> None:
        with add_to_run_folder(target, ("one", "two"), exists=there):
            (target / "one").write_text("1", "utf-8")
            raise OSError(errno.ENOSPC, "No space left on device", str(target / "two"))

    with pytest.raises(FilesError, match=r"two': No space left on device"):
        fill()
    assert names(tmp_path) == before


def test_files_added_early_stay_on_success(tmp_path: Path) -> None:
    target = tmp_path / "a" / "run"
    with add_to_run_folder(target, ("one",), exists=False):
        (target / "one").write_text("1", "utf-8")
    assert names(tmp_path) == ["a", "a/run", "a/run/one"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/proc/run", "'/proc/run': No such file or directory"),
        ("/dev/null/run", "'/dev/null/run': '/dev/null': Not a directory"),
        ("/tmp/" + "a" * 300, "aaa...aaa"),
    ],
)
def test_long_paths_are_shortened_in_write_errors(target: str, said: str) -> None:
    with pytest.raises(FilesError) as caught, create_run_directory(Path(target)):
        pass
    assert said in caught.value.message
    assert "draft" not in caught.value.message
    assert len(caught.value.message) < 400
