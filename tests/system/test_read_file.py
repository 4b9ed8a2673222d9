"""Reading never blocks and never fails in an unexpected way, whatever stands in the place of a file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from longshore.system.reading import MAX_WHOLE_B, open_stream, read_file, read_record, read_with_status
from longshore.system.sharing import is_locked


class Record(msgspec.Struct):
    text: str


def test_a_file_is_read_whole_and_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\n")
    assert read_file(path) == read_file(str(path)) == b"one\ntwo\n"
    with open_stream(path) as file:
        assert file.readline() == b"one\n"


@pytest.mark.timeout(20)
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        read_file(path)
    assert read_record(path, Record) is None
    assert not is_locked(path)


@pytest.mark.timeout(20)
def test_a_device_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "zeros"
    path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="not a regular file"):
        read_file(path)


def test_a_folder_and_a_circle_of_links_are_named(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(IsADirectoryError, match=r"Is a directory: .*"):
        read_file(tmp_path)
    with pytest.raises(OSError, match="circle"):
        read_file(tmp_path / "circle")


def test_a_file_is_read_with_its_own_status_and_never_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"text")
    link.symlink_to(path)
    text, status = read_with_status(path)
    assert (text, status.st_ino) == (b"text", path.stat().st_ino)
    with pytest.raises(OSError, match="symbolic links"):
        read_with_status(link)


def test_a_refused_file_is_closed(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        for read in (read_file, read_with_status):
            with pytest.raises(OSError, match=r"Is a directory|not a regular file"):
                read(path)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_file_of_absurd_size_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, MAX_WHOLE_B + 1)
    with pytest.raises(OSError, match="too large"):
        read_file(path)
    with pytest.raises(OSError, match="too large"):
        read_with_status(path)
    assert read_record(path, Record) is None


@pytest.mark.parametrize("content", [b"", b"\xff", b'{"text": "\xff"}', b'{"text": ' + b"[" * 100_000, b'{"text": "t'])
def test_a_damaged_record_is_as_if_absent(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    assert read_record(path, Record) is None
