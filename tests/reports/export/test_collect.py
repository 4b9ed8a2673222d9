"""Exports of run directories: attempts in the order of jobs, damaged journals, and files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests.disk import room_for
from tests.written_run import WrittenRun, run_of, run_with_kept_results

from longshore.errors import FilesError, UsageError
from longshore.reports.export.formats import export_run, render_run


@pytest.fixture
def run(tmp_path: Path) -> WrittenRun:
    return run_of(tmp_path / "run")


def rows(run: WrittenRun) -> list[dict[str, str]]:
    text = b"".join(render_run(run.opened, "csv")).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_attempt_has_a_row_in_the_order_of_jobs(run: WrittenRun) -> None:
    found = [(each["job"], each["label"], each["attempt"], each["state"]) for each in rows(run)]
    assert found == [
        ("j0", "a", "1", "SUCCEEDED"),
        ("j1", "a", "1", "FAILED"),
        ("j1", "a", "2", "SUCCEEDED"),
        ("j2", "a", "1", "FAILED"),
        ("j3", "b", "1", "SUCCEEDED"),
        ("j4", "b", "1", "SUCCEEDED"),
    ]
    assert {each["log"] for each in rows(run) if each["job"] == "j1"} == {
        str(run.run.log_of(1, "j1", "a", attempt)) for attempt in (1, 2)
    }


def test_results_that_were_kept_have_rows_and_are_not_counted(tmp_path: Path) -> None:
    run = run_with_kept_results(tmp_path / "run")
    kept = [(each["job"], each["state"], each["reason"], each["run_s"]) for each in rows(run)]
    assert kept == [(job, "SUCCEEDED", "kept from run 'bryvbx'", "") for job in ("j0", "j1")]
    text = b"".join(render_run(run.opened, "openmetrics")).decode()
    assert 'longshore_attempts_total{run="k7f3aa",label="a"} 0' in text


def test_a_run_that_has_not_started_has_no_rows_but_metrics(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    assert rows(run) == []
    text = b"".join(render_run(run.opened, "openmetrics")).decode()
    assert 'longshore_jobs_expected{run="k7f3aa",label="a"} 3' in text


def test_attempts_before_a_damage_are_exported(run: WrittenRun) -> None:
    lines = run.journal.read_bytes().splitlines(keepends=True)
    lines[8] = lines[8].replace(b"ended", b"ENDED")
    run.journal.write_bytes(b"".join(lines))
    assert [each["job"] for each in rows(run)] == ["j0", "j1"]
    assert run.opened.damages


def test_a_full_disk_leaves_the_old_file(run: WrittenRun, tmp_path: Path) -> None:
    path = tmp_path / "out" / "a.csv"
    path.parent.mkdir()
    path.write_text("old", "utf-8")
    with room_for(100), pytest.raises(FilesError) as caught:
        export_run(run.opened, "csv", path)
    assert str(path) in caught.value.message
    assert path.read_text("utf-8") == "old"
    assert list(path.parent.iterdir()) == [path]


def test_an_unknown_format_names_the_known_ones(run: WrittenRun) -> None:
    with pytest.raises(UsageError, match="'xml'") as caught:
        render_run(run.opened, "xml")
    assert "'csv'" in caught.value.hint
