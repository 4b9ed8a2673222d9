"""The table of attempts: any text survives, no text is a formula, and the columns stay."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import Attempt, StagedFiles
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.reports.export.formats import COLUMNS, AttemptRow, render_attempts

NASTY = ["<script>", "a\nb", "a\r\nb", 'a"b', "a,b", "=1+1", "'x", "\udcff", "\0", "-2", "@sum", "\t", "ü"]
TEXTS = st.text(st.characters(), min_size=1) | st.sampled_from(NASTY)


def table(*rows: AttemptRow, run: str = "k7f3aa") -> list[dict[str, str]]:
    text = b"".join(render_attempts(run, rows)).decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def row(name: str = "j", attempt: Attempt | None = None) -> AttemptRow:
    return AttemptRow(
        attempt=attempt or Attempt(job=0, number=1),
        job=name,
        label="a",
        request=Request(cpus=2, memory_b=1000),
        data_id={"visit": 3},
        log="logs/j.1.log",
    )


def test_columns_stay() -> None:
    assert ",".join(COLUMNS) == (
        "run,job,label,attempt,state,cause,reason,exit_code,signal,host,wms_id,submitted_at,started_at,ended_at,"
        "wait_s,run_s,cpu_s,peak_memory_b,requested_cpus,requested_memory_b,requested_disk_b,requested_walltime_s,"
        "granted_cpus,granted_memory_b,staged_in_b,staged_in_s,staged_out_b,staged_out_s,data_id,log"
    )


def test_values_stand_in_their_columns() -> None:
    ended = Attempt(
        job=0,
        number=2,
        host="h",
        wms_id="7.0",
        granted=Request(cpus=3, memory_b=2000),
        submitted_at=1.0,
        started_at=2.5,
        ended_at=4.0,
        queue_s=1.25,
        run_s=1.5,
        cpu_s=0.5,
        peak_memory_b=400,
        exit_code=3,
        cause=Cause.EXIT,
        reason="exit code 3",
        staged=StagedFiles(bytes_in=5, in_s=0.5, bytes_out=6, out_s=0.25),
    )
    (found,) = table(row(attempt=ended))
    assert {key: value for key, value in found.items() if value} == {
        "run": "k7f3aa",
        "job": "j",
        "label": "a",
        "attempt": "2",
        "state": "FAILED",
        "cause": "EXIT",
        "reason": "exit code 3",
        "exit_code": "3",
        "host": "h",
        "wms_id": "7.0",
        "wait_s": "1.25",
        "run_s": "1.5",
        "submitted_at": "1970-01-01T00:00:01.000Z",
        "started_at": "1970-01-01T00:00:02.500Z",
        "ended_at": "1970-01-01T00:00:04.000Z",
        "cpu_s": "0.5",
        "peak_memory_b": "400",
        "requested_cpus": "2",
        "requested_memory_b": "1000",
        "granted_cpus": "3",
        "granted_memory_b": "2000",
        "staged_in_b": "5",
        "staged_in_s": "0.5",
        "staged_out_b": "6",
        "staged_out_s": "0.25",
        "data_id": '{"visit":3}',
        "log": "logs/j.1.log",
    }


def test_what_is_unknown_is_empty() -> None:
    (found,) = table(row(attempt=Attempt(job=0, number=1)))
    assert found["state"] == "PENDING"
    assert all(
        found[name] == "" for name in ("exit_code", "host", "started_at", "run_s", "granted_cpus", "staged_in_b")
    )


@given(TEXTS, TEXTS)
def test_any_text_comes_back_and_is_no_formula(name: str, reason: str) -> None:
    attempt = Attempt(job=0, number=1, reason=reason, ended_at=1.0, cause=Cause.EXIT)
    found, other = table(row(name, attempt), row())
    for cell, text in ((found["job"], name), (found["reason"], reason)):
        assert cell[0] not in "=+-@\t\r"
        readable = text.encode("utf-8", "backslashreplace").decode()
        assert cell == (f"'{readable}" if text[0] in "'=+-@\t\r" else readable)
    assert other["job"] == "j"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\ta", "\ra", "'a"])
def test_the_first_apostrophe_is_the_one_that_was_added(text: str) -> None:
    (found,) = table(row(text))
    assert found["job"] == f"'{text}"


def test_many_rows_come_in_parts_and_twice_alike() -> None:
    rows = [row(f"j{number}") for number in range(5000)]
    parts = list(render_attempts("r", rows))
    assert len(parts) > 2
    assert b"".join(parts).count(b"\n") == 5001
    assert parts == list(render_attempts("r", rows))
