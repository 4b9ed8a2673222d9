"""Records of a user log equal those of HTCondor's bindings, for text in any pieces."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.services.htcondor.events.log_records import LogPosition, Record, UserLog

DATA = Path(__file__).resolve().parents[3] / "data" / "htcondor"
LOGS = sorted(DATA.glob("*.log"))


def read(path: Path, place: LogPosition | None = None) -> tuple[list[Record], LogPosition]:
    log = UserLog(path, place)
    records = list(log.read_records())
    assert not log.invalid_records
    return records, log.position


def written(folder: Path, *texts: str) -> Path:
    path = folder / "run.dag.nodes.log"
    path.write_text("".join(f"{text}\n...\n" for text in texts), "utf-8")
    return path


@pytest.mark.skipif(find_spec("htcondor2") is None, reason="the Python package 'htcondor' is not installed")
@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_records_equal_those_of_the_bindings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")
    import htcondor2

    theirs = [
        (int(event.type), event.cluster, event.proc, event.timestamp)
        for event in htcondor2.JobEventLog(str(path)).events(stop_after=0)
    ]
    assert len(theirs) > 2
    assert [(each.event_type, each.cluster, each.proc, int(each.at)) for each in read(path)[0]] == theirs


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
@given(data=st.data())
def test_records_do_not_depend_on_pieces(
    path: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    text = path.read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    growing = tmp_path_factory.mktemp("log") / "growing.log"
    found: list[Record] = []
    place = LogPosition()
    for end in (*cuts, len(text)):
        before = growing.stat().st_size if growing.exists() else 0
        with growing.open("ab") as file:
            file.write(text[before:end])
        log = UserLog(growing, place)
        found += log.read_records()
        assert not log.is_replaced
        place = log.position
    assert found == list(UserLog(path).read_records())


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "none.log") == ([], LogPosition())


def test_an_incomplete_record_is_left_for_later(tmp_path: Path) -> None:
    path = written(tmp_path, "000 (001.000.000) 2026-11-22 06:32:15 Job submitted")
    whole = path.read_text("utf-8")
    path.write_text(whole + "001 (001.000.000) 2026-11-22 06:32:16 Job exec", "utf-8")
    records, place = read(path)
    assert [record.event_type for record in records] == [0]
    with path.open("a") as file:
        file.write("uting\n...\n")
    assert [record.event_type for record in read(path, place)[0]] == [1]


@pytest.mark.parametrize("how", ["another file", "shorter", "rewritten", "gone"])
def test_a_replaced_log_is_reported(tmp_path: Path, how: str) -> None:
    first = "000 (001.000.000) 2026-11-22 06:32:15 Job submitted"
    path = written(tmp_path, first, "001 (001.000.000) 2026-11-22 06:32:16 Job executing")
    _, place = read(path)
    if how == "another file":
        path.rename(tmp_path / "old.log")
        written(tmp_path, first.replace("001.", "007."))
    elif how == "shorter":
        os.truncate(path, 20)
    elif how == "rewritten":
        path.write_text(path.read_text("utf-8").replace("(001.", "(007."), "utf-8")
    else:
        path.unlink()
    log = UserLog(path, place)
    list(log.read_records())
    assert log.is_replaced


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("2026-11-22 06:32:15Z", 1795329135.0),
        ("2026-11-22T06:32:15.250Z", 1795329135.25),
        ("2026-11-22 08:32:15+02:00", 1795329135.0),
        ("2026-11-22 02:02:15.5-0430", 1795329135.5),
    ],
)
def test_moments_with_a_zone(tmp_path: Path, said: str, at: float) -> None:
    (record,), _ = read(written(tmp_path, f"005 (012.000.000) {said} Job terminated."))
    assert (record.at, record.body) == (at, b"Job terminated.")


def test_moments_without_a_zone_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC+3")
    time.tzset()
    try:
        path = written(tmp_path, "005 (012.000.000) 2026-11-22 06:32:15 a", "005 (012.000.000) 11/22 06:32:16 b")
        os.utime(path, (1795329135, 1795329135))
        records, _ = read(path)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [record.at for record in records] == [1795329135.0 + 3 * 3600, 1795329136.0 + 3 * 3600]


def test_invalid_records_are_counted(tmp_path: Path) -> None:
    good = "000 (001.000.000) 2026-11-22 06:32:15 Job submitted"
    path = written(tmp_path, good, good.replace("000 (", "abc ("), good.replace("001.", "x."), good)
    log = UserLog(path)
    assert [record.event_type for record in log.read_records()] == [0, 0]
    assert log.invalid_records == 2


@given(st.binary(max_size=300))
def test_any_text_is_parsed(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.mktemp("odd") / "odd.log"
    path.write_bytes(text)
    log = UserLog(path)
    assert len(list(log.read_records())) + log.invalid_records <= text.count(b"\n...\n")


@pytest.mark.parametrize(
    "header",
    [
        "000 (001.000.000) 2026-13-22 06:32:15",
        "000 (001.000.000) 0000-01-01 00:00:00Z",
        "000 (001.000.000) 2026-11-22 06:32:15+99:99",
        f"000 ({2**31}.000.000) 2026-11-22 06:32:15",
        f"000 ({'9' * 5000}.000.000) 2026-11-22 06:32:15",
    ],
    ids=["month", "year", "zone", "cluster", "digits"],
)
def test_a_record_with_an_impossible_time_or_number_is_none(tmp_path: Path, header: str) -> None:
    if "13-22" in header:
        header += "Z"  # local times are as the C library reads them
    good = "000 (001.000.000) 2026-11-22 06:32:15 Job submitted"
    log = UserLog(written(tmp_path, good, f"{header} Job submitted", f"{header} Job submitted", good))
    assert [record.cluster for record in log.read_records()] == [1, 1]
    assert log.invalid_records == 2
