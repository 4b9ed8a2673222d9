"""Checks of single records: a damaged checksum is never taken for a record of an older version without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.model.json_lines import SEED, add_checksum
from longshore.rundir.check_records import check_record, find_batch_damages

OLDER = b'{"tag":"k1-1-1","members":[[3,1],[4,1]],"id":29}'
RECORD = add_checksum(OLDER, SEED)[0]
PATH = Path("batches/k1-1-1.json")
TAG = "k1-1-1"
END = b'{"j":3,"a":1,"status":0,"run":1.05,"host":"n1","batch":"k1-1-1","again":{%b}}' % (
    b'"j":3,"a":1,"status":0,"run":1.05,"host":"n1","batch":"k1-1-1"'
)


def test_records_with_a_checksum_and_older_ones_are_intact() -> None:
    assert check_record(PATH, RECORD) == (True, [])
    assert check_record(PATH, OLDER) == (False, [])
    assert check_record(PATH, b"{}") == (False, [])


def test_every_changed_byte_of_a_record_with_a_checksum_is_told() -> None:
    number = 0
    for at in range(len(RECORD)):
        for byte in range(256):
            if byte != RECORD[at]:
                changed = RECORD[:at] + bytes([byte]) + RECORD[at + 1 :]
                assert check_record(PATH, changed)[1], changed
                number += 1
    assert number == 255 * len(RECORD)


def test_every_byte_too_much_or_missing_is_told() -> None:
    for at in range(len(RECORD)):
        assert check_record(PATH, RECORD[:at] + RECORD[at + 1 :])[1], at
        assert check_record(PATH, RECORD[:at])[1], at
        for byte in range(256):
            assert check_record(PATH, RECORD[:at] + bytes([byte]) + RECORD[at:])[1], (at, byte)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path)
    run.batches.mkdir()
    (run.ends / TAG).mkdir(parents=True)
    (run.batches / f"{TAG}.json").write_bytes(RECORD)
    (run.ends / TAG / "3.1").write_bytes(b"n1 77 /run/wms/longshore-job\n" + END + b"\n")
    (run.ends / TAG / "4.1.began").write_bytes(b"n1 78 /run/wms/longshore-job\n")
    return run


def test_intact_batch_records_and_end_records_have_no_damages(run: RunPaths) -> None:
    assert find_batch_damages(run) == ()


def test_an_end_record_that_is_being_written_has_no_damage(run: RunPaths) -> None:
    (run.ends / TAG / "4.1").write_bytes(END[:9])
    assert find_batch_damages(run) == ()
    (run.ends / TAG / "4.1.began").unlink()
    assert [damage.path for damage in find_batch_damages(run)] == [str(run.ends / TAG / "4.1")]


@pytest.mark.parametrize("name", [f"batches/{TAG}.json", f"ends/{TAG}/3.1"])
def test_a_flip_in_batch_records_and_end_records_is_told(run: RunPaths, name: str) -> None:
    path = run.root / name
    path.write_bytes(path.read_bytes().replace(b'"j":3' if name[0] == "e" else b"29", b'"j":2', 1))
    (damage,) = find_batch_damages(run)
    assert damage.path == str(path)
    assert damage.unknown


@pytest.mark.parametrize(
    ("lines", "what"), [(1, "it is not the record of this batch"), (2, "it does not fit its checksum")]
)
def test_intact_records_of_something_else_are_told(run: RunPaths, lines: int, what: str) -> None:
    content, crc = b"", SEED
    for _ in range(lines):
        line, crc = add_checksum(b'{"id":"k1"}', crc)
        content += line
    (run.batches / f"{TAG}.json").write_bytes(content)
    (damage,) = find_batch_damages(run)
    assert damage.what == what


@pytest.mark.parametrize("content", [b'{"id":"k1"}', b'{"tag":"k1-1-2"}', b"[]", b"1"])
def test_a_document_without_a_checksum_in_place_of_a_batch_record_is_told(run: RunPaths, content: bytes) -> None:
    path = run.batches / f"{TAG}.json"
    path.write_bytes(content)
    assert [damage.what for damage in find_batch_damages(run)] == ["it is not the record of this batch"]
    path.write_bytes(OLDER)
    assert find_batch_damages(run) == ()
