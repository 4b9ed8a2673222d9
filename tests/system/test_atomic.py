"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.disk import room_for
from tests.doors import replace_calls

from longshore.system.atomic import (
    AppendedFile,
    atomic_file,
    create_atomically,
    create_file,
    draft_path,
    file_system_time,
    is_file_at,
    write_atomically,
)
from longshore.system.files import files
from longshore.system.reading import open_to_read, read_record


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with path.open("rb") as reader:
        write_atomically(path, "new ü", durable=True)
        assert reader.read() == b"old", "who reads the old one reads all of it"
    assert path.read_text("utf-8") == "new ü"
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with room_for(2), pytest.raises(OSError, match="File too large"):
        write_atomically(path, b"newer")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupted_writer_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as file:  # noqa: PT012
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"mine")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert not (tmp_path / "file").is_symlink()


def test_the_names_of_drafts_cannot_be_guessed(tmp_path: Path) -> None:
    names = {draft_path(tmp_path / ("x" * 250)).name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".x") and len(name) < 255 for name in names)


def test_one_of_two_creates_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    create_atomically(path, b"first")
    with pytest.raises(FileExistsError):
        create_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_create_file_refuses_an_existing_file(tmp_path: Path) -> None:
    create_file(tmp_path / "file", [b"a", b"b"], durable=True)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            create_file(tmp_path / name, [b"c"])
    assert (tmp_path / "file").read_bytes() == b"ab"


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert read_record(path, int) is None
    for text, found in ((b"7", 7), (b'"7"', None), (b"{", None), (b'"\xff"', None)):
        path.write_bytes(text)
        assert read_record(path, int) == found
    assert read_record(tmp_path, int) is None


def test_a_pipe_does_not_hold_its_readers(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_to_read(tmp_path / "pipe")


def test_the_time_of_a_file_system_is_that_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "before").touch()
    now = file_system_time(tmp_path)
    (tmp_path / "after").touch()
    assert (tmp_path / "before").stat().st_mtime <= now <= (tmp_path / "after").stat().st_mtime
    assert sorted(os.listdir(tmp_path)) == ["after", "before"]


def test_a_failed_append_is_repeated_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0\n")
    file = AppendedFile(path)
    file.add(b"1\n")
    file.add(b"2\n")
    assert path.read_bytes() == b"0\n"
    with room_for(3), pytest.raises(OSError, match="File too large"):
        file.flush()
    file.commit()
    assert path.read_bytes() == b"0\n1\n2\n"
    assert is_file_at(file.file, path)
    write_atomically(path, b"")
    assert not is_file_at(file.file, path)
    file.close()


def test_content_of_a_failed_sync_is_written_again(tmp_path: Path) -> None:
    # Kernels take pages that they failed to write for written: the next sync succeeds without them.
    class FailingDisk:
        failures = 1

        def __init__(self) -> None:
            self.dirty: set[int] = set()
            self.on_disk: set[int] = set()

        def write(self, file: int, data: bytes) -> int:
            end = os.fstat(file).st_size
            self.dirty.update(range(end, end + len(data)))
            return os.write(file, data)

        def pwrite(self, file: int, data: bytes, offset: int) -> int:
            self.dirty.update(range(offset, offset + len(data)))
            return os.pwrite(file, data, offset)

        def fdatasync(self, file: int) -> None:
            written, self.dirty = self.dirty, set()
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EIO, "Input/output error")
            self.on_disk |= written

    disk = FailingDisk()
    path = tmp_path / "file"
    path.write_bytes(b"0\n")
    with replace_calls(files, disk):
        file = AppendedFile(path)
        file.add(b"one\n")
        with pytest.raises(OSError, match="Input/output"):
            file.commit()
        file.add(b"two\n")
        file.commit()
        assert disk.on_disk == set(range(2, 10))
        file.add(b"three\n")
        file.commit()
        assert disk.on_disk == set(range(2, 16))
        file.close()
    assert path.read_bytes() == b"0\none\ntwo\nthree\n"
