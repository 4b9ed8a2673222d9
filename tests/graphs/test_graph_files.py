"""The lines of graph files are read as they were written, packed or not; a damaged file is told of as one."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.errors import FilesError, GraphError, Origin
from longshore.graphs.graph_file import open_graph_file, write_graph_file

LINES = [b"%d\n" % number for number in range(300_000)]


def read(path: Path) -> list[bytes]:
    with open_graph_file(path) as lines:
        return list(lines)


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.jsonl.gz"])
def test_a_written_graph_file_reads_back(tmp_path: Path, name: str) -> None:
    write_graph_file(tmp_path / name, iter(LINES))
    assert read(tmp_path / name) == LINES
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_packed_file_is_smaller_and_always_the_same(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl"):
        write_graph_file(tmp_path / name, LINES)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert (tmp_path / "a.jsonl.gz").stat().st_size < (tmp_path / "c.jsonl").stat().st_size


def test_compression_is_detected_by_content(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(gzip.compress(b"a\nb"))
    assert read(tmp_path / "tasks.jsonl") == [b"a\n", b"b"]


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b"")
    assert read(tmp_path / "tasks.jsonl") == []


def test_a_packed_file_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(LINES))[:-100])
    with pytest.raises(GraphError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: the packed file is damaged: it was cut short\nCopy or make it again."


def test_a_packed_file_that_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    content = bytearray(gzip.compress(b"".join(LINES)))
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(GraphError, match="the packed file is damaged: "):
        read(path)


def test_a_missing_graph_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FilesError) as caught, open_graph_file(tmp_path / "x", Origin("run.yaml", 3, 1)):
        pass
    assert str(caught.value) == f"run.yaml:3:1: '{tmp_path}/x' cannot be read: No such file or directory"


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match="cannot be written: No such file or directory"):
        write_graph_file(tmp_path / "none" / "tasks.jsonl", LINES)


def test_a_failed_write_leaves_the_old_graph_file(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"a\n"
        raise GraphError("no")

    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"before\n")
    with pytest.raises(GraphError):
        write_graph_file(path, broken())
    assert read(path) == [b"before\n"]
    assert list(tmp_path.iterdir()) == [path]
