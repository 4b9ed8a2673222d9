"""Whether a file is really absent, where a file system may remember wrongly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.errors import FilesError
from longshore.system.reading import exists_uncached, is_local_file_system, real_path

MOUNT = "36 35 {device} / /somewhere rw,noatime master:1 - {kind} server:/export rw\n"


def test_existing_and_missing_paths(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert exists_uncached(tmp_path / "file")
    assert exists_uncached(tmp_path / "link")
    assert not exists_uncached(tmp_path / "no file")
    assert not exists_uncached(tmp_path / "no folder" / "file")
    assert not exists_uncached(tmp_path / "file" / "file")


@pytest.mark.skipif(os.getuid() == 0, reason="root may look everywhere")
def test_an_unreadable_folder_raises_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    with pytest.raises(PermissionError):
        exists_uncached(folder / "file")


@pytest.mark.parametrize(
    ("kinds", "local"), [(["ext4"], True), (["nfs4"], False), (["ext4", "fuse.sshfs"], False), ([], False)]
)
def test_only_known_file_systems_are_local(tmp_path: Path, kinds: list[str], local: bool) -> None:
    device = tmp_path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    lines = [MOUNT.format(device=number, kind=kind) for kind in kinds]
    mounts.write_text("".join([MOUNT.format(device="0:0", kind="nfs"), *lines, "nonsense\n"]))
    assert is_local_file_system(tmp_path, mounts=mounts) is local


def test_without_the_kernels_word_nothing_is_sure(tmp_path: Path) -> None:
    assert not is_local_file_system(tmp_path, mounts=tmp_path / "missing")
    assert not is_local_file_system(tmp_path / "missing")


def test_a_relative_path_needs_a_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    (tmp_path / "link").symlink_to("gone")
    monkeypatch.chdir(gone)
    assert real_path("../link/x") == gone / "x"
    gone.rmdir()
    assert real_path(tmp_path / "link") == gone
    with pytest.raises(FilesError, match="the current directory is gone"):
        real_path("../x")
