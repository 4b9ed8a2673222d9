"""What is on disk when: files before their names, names before the next step."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from tests.doors import replace_calls

from longshore.contract.service import RunPaths
from longshore.errors import FilesError
from longshore.rundir.interventions import InterventionRecord, write_intervention
from longshore.rundir.run_directory import create_run_directory
from longshore.system.atomic import create_atomically, create_file, write_atomically
from longshore.system.files import files
from longshore.system.folder import make_folders, remove_file, sync_names, sync_tree


class Recorder:
    """Records what is synced, renamed and linked, by path."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def _path(self, file: int) -> str:
        return str(Path(f"/proc/self/fd/{file}").readlink())

    def fsync(self, file: int) -> None:
        self.calls.append(f"sync {self._path(file)}")

    def syncfs(self, file: int) -> None:
        self.calls.append(f"sync all of {self._path(file)}")

    def _record(self, what: str, name: str | Path, folder: int | None) -> None:
        path = name if folder is None else f"{self._path(folder)}/{name}"
        self.calls.append(f"{what} {path}")

    def rename(self, source: str, target: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._record("rename", target, dst_dir_fd)

    replace = rename

    def link(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self._record("link", target, dst_dir_fd)

    def unlink(self, name: str, *, dir_fd: int | None = None) -> None:
        os.unlink(name, dir_fd=dir_fd)
        self._record("remove", name, dir_fd)

    def relative(self, root: Path) -> list[str]:
        """The calls, with the paths relative to a folder, and one name for all drafts."""
        found = [re.sub(r"/\.[^/]*\.draft", "/DRAFT", call) for call in self.calls]
        return [call.replace(f"{root}/", "").replace(str(root), ".") for call in found]


def test_a_durable_write_syncs_the_file_before_its_name(tmp_path: Path) -> None:
    recorder = Recorder()
    with replace_calls(files, recorder):
        write_atomically(tmp_path / "file", b"x", durable=True)
        assert recorder.relative(tmp_path) == ["sync DRAFT", "rename file", "sync ."]
        recorder.calls.clear()
        create_atomically(tmp_path / "other", b"x")
        assert recorder.relative(tmp_path) == ["sync DRAFT", "link other", "remove DRAFT", "sync ."]
        recorder.calls.clear()
        remove_file(tmp_path / "file", durable=True)
        assert recorder.relative(tmp_path) == ["remove file", "sync ."]


def test_new_folders_below_a_run_are_durable_with_their_names(tmp_path: Path) -> None:
    recorder = Recorder()
    with replace_calls(files, recorder):
        make_folders(tmp_path / "a" / "b", below=tmp_path, durable=True)
        make_folders(tmp_path / "a" / "b", below=tmp_path, durable=True)
    assert recorder.relative(tmp_path) == ["sync .", "sync a"]


def test_a_run_directory_is_on_disk_before_it_gets_its_name_and_its_name_before_it_is_used(tmp_path: Path) -> None:
    recorder = Recorder()
    target = tmp_path / "new" / "parents" / "run"
    with replace_calls(files, recorder), create_run_directory(target) as draft:
        make_folders(draft.inputs, below=draft.root)
        create_file(draft.inputs / "a.yaml", [b"a"], below=draft.root)
        create_file(draft.workflow, [b"w"], below=draft.root)
    calls = [call.replace("new/parents/DRAFT", "DRAFT") for call in recorder.relative(tmp_path)]
    assert set(calls[:4]) == {
        "sync DRAFT/inputs/a.yaml",
        "sync DRAFT/inputs",
        "sync DRAFT/workflow.jsonl",
        "sync DRAFT",
    }
    assert calls.index("sync DRAFT/inputs/a.yaml") < calls.index("sync DRAFT/inputs")
    assert calls[3:] == ["sync DRAFT", "rename new/parents/run", "sync new/parents", "sync new", "sync ."]


def test_files_that_were_there_before_are_synced_with_the_draft(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "graph.qg").write_bytes(b"graph")
    recorder = Recorder()
    with replace_calls(files, recorder), create_run_directory(tmp_path / "run", kept=("graph.qg",)):
        pass
    assert recorder.relative(tmp_path)[-4:] == ["sync DRAFT/graph.qg", "sync DRAFT", "rename run", "sync ."]


def test_many_files_are_synced_by_one_call(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).write_bytes(b"x")
    recorder = Recorder()
    with replace_calls(files, recorder):
        sync_tree(tmp_path)
    assert recorder.relative(tmp_path) == ["sync all of ."]


def test_folders_and_files_that_cannot_be_opened_are_synced_with_the_file_system(tmp_path: Path) -> None:
    class Closed(Recorder):
        def open(self, path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if not flags & os.O_PATH and str(path) in {".", str(tmp_path / "secret")}:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return os.open(path, flags, mode, dir_fd=dir_fd)

    (tmp_path / "secret").write_bytes(b"x")
    recorder = Closed()
    with replace_calls(files, recorder):
        sync_tree(tmp_path)
        sync_names(tmp_path)
    assert recorder.relative(tmp_path) == ["sync all of .", "sync all of ."]


def test_a_file_system_that_cannot_sync_folders_is_no_error(tmp_path: Path) -> None:
    class NoFolderSync:
        def fsync(self, file: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    with replace_calls(files, NoFolderSync()):
        sync_names(tmp_path)


@pytest.mark.parametrize("failing", range(4))
def test_a_sync_that_fails_leaves_no_run(tmp_path: Path, failing: int) -> None:
    class Failing:
        left = failing

        def fsync(self, file: int) -> None:
            if not self.left:
                raise OSError(errno.EIO, "Input/output error")
            self.left -= 1

    disk = Failing()
    with (
        replace_calls(files, disk),
        pytest.raises(FilesError, match="Input/output error"),
        create_run_directory(tmp_path / "new" / "run") as draft,
    ):
        create_file(draft.workflow, [b"w"], below=draft.root)
    assert os.listdir(tmp_path) == []


def test_an_intervention_is_on_disk_with_all_its_names(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    recorder = Recorder()
    with replace_calls(files, recorder):
        path = write_intervention(run, InterventionRecord(who="somebody", act="pause"))
    calls = recorder.relative(tmp_path)
    assert calls == ["sync .", "sync steer/DRAFT", f"rename steer/{path.name}", "sync steer"]
