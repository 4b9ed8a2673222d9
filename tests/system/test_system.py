"""The door for files: the operating system's calls, and their replacement."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest
from tests.doors import replace_calls

from longshore.system.atomic import AppendedFile, write_atomically
from longshore.system.files import FileSystem, files


class BrokenDisk:
    """A disk whose writes and syncs fail; all else works."""

    def __init__(self) -> None:
        self.synced = 0

    def write(self, file: int, content: bytes) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def fdatasync(self, file: int) -> None:
        self.synced += 1


def test_calls_are_those_of_the_operating_system() -> None:
    calls = vars(FileSystem())
    assert calls.pop("flock") is fcntl.flock
    assert calls.pop("fcntl") is fcntl.fcntl
    assert calls.pop("syncfs")
    assert all(call is getattr(os, name) for name, call in calls.items())


def test_a_simulation_replaces_the_calls_that_it_has_for_a_while(tmp_path: Path) -> None:
    disk = BrokenDisk()
    with replace_calls(files, disk):
        assert files.listdir is os.listdir
        with pytest.raises(OSError, match="Input/output error"):
            write_atomically(tmp_path / "file", b"text")
    assert vars(files) == vars(FileSystem())
    assert os.listdir(tmp_path) == []


def test_appended_lines_wait_for_a_disk_that_works_again(tmp_path: Path) -> None:
    file = AppendedFile(tmp_path / "file")
    file.add(b"line\n")
    with replace_calls(files, BrokenDisk()), pytest.raises(OSError, match="Input/output error"):
        file.commit()
    file.commit()
    file.close()
    assert (tmp_path / "file").read_bytes() == b"line\n"


def test_a_file_system_is_synced_as_a_whole(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    files.syncfs(folder)
    os.close(folder)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.syncfs(folder)
