"""Files of checked lines: a reader takes what is intact, and looks again for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.services.batch.pilots.pilot_link import CheckedReader, CheckedWriter
from longshore.system.files import files


def test_lines_are_read_as_they_are_written(tmp_path: Path) -> None:
    writer = CheckedWriter(tmp_path / "orders.1", below=tmp_path)
    reader = CheckedReader(writer.path)
    assert reader.read() == b""
    for number in range(3):
        writer.add(b'{"n":%d}' % number)
    assert reader.read() == b""
    writer.flush()
    assert reader.read().count(b"\n") == 3
    writer.add(b'{"n":3}')
    writer.flush()
    assert reader.read().startswith(b'{"n":3,"c":')
    assert reader.offset == writer.size == writer.path.stat().st_size


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    CheckedWriter(tmp_path / "orders.1", below=tmp_path)
    with pytest.raises(FileExistsError):
        CheckedWriter(tmp_path / "orders.1", below=tmp_path)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_what_is_not_visible_yet_is_read_later(tmp_path: Path, cut: int) -> None:
    writer = CheckedWriter(tmp_path / "whole", below=tmp_path)
    writer.add(b'{"n":1}')
    writer.add(b'{"n":2}')
    writer.flush()
    whole = writer.path.read_bytes()
    shown = tmp_path / "shown"
    reader = CheckedReader(shown)
    for content in (whole[:-cut], whole[:-cut] + bytes(cut), whole[: -cut - 1] + bytes(cut) + b"\n"):
        shown.write_bytes(content)
        reader.read()
    assert reader.is_damaged
    assert reader.offset == len(whole) // 2
    shown.write_bytes(whole)
    assert reader.read() == whole[len(whole) // 2 :]
    assert not reader.is_damaged


def test_an_unsynced_tail_is_written_again_at_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = CheckedWriter(tmp_path / "orders.1", below=tmp_path)
    writer.add(b'{"n":1}')

    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            writer.flush()
    assert writer.is_unwritten
    writer.add(b'{"n":2}')
    writer.flush()
    assert CheckedReader(writer.path).read().count(b"\n") == 2
