"""Tables of statistics fit the terminal, show what is unknown, and set several runs side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.written_run import WrittenRun

from longshore.model.event import Attempt
from longshore.model.report import format_brief_duration, format_core_time
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.reports.documents.statistics import stats_document
from longshore.reports.statistics import RunStatistics, summarize_attempts
from longshore.reports.statistics_text import statistics_lines, write_csv
from longshore.reports.styled import plain, width_of

REQUEST = Request(cpus=2, memory_b=4 << 30)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> WrittenRun:
    return WrittenRun(tmp_path_factory.mktemp("run") / "run")


def statistics_of(written: WrittenRun, attempts: Sequence[Attempt]) -> RunStatistics:
    grouped = summarize_attempts(
        (attempt.measures for attempt in attempts),
        lambda _: REQUEST,
        labels=("a", "a rather long label of a task"),
        label_of=(0, 0, 0, 1, 1, 1),
        jobs_of_labels=(3, 3),
    )
    return RunStatistics(opened=written.opened, grouped=grouped, requests={"a": REQUEST})


def attempt(job: int, number: int = 1, *, cause: Cause | None = None, host: str = "n1") -> Attempt:
    return Attempt(
        job=job,
        number=number,
        host=host,
        started_at=5.0,
        ended_at=3605.0,
        queue_s=65.0,
        run_s=3600.0,
        cpu_s=3600.0,
        peak_memory_b=3900 << 20,
        cause=cause,
    )


ATTEMPTS = [attempt(0, cause=Cause.OOM), attempt(0, 2), attempt(1), attempt(3, host="n2")]


def text(*runs: RunStatistics, width: int = 200) -> str:
    lines = list(map(plain, statistics_lines(runs, width)))
    assert max(map(width_of, lines)) <= width
    return "\n".join(lines)


def total_of(run: RunStatistics) -> dict[str, str]:
    """Return the row of the whole run, from its table as CSV."""
    file = io.StringIO()
    write_csv([run], file)
    return next(csv.DictReader(io.StringIO(file.getvalue())))


def test_a_run_is_shown_by_label_and_host(written: WrittenRun) -> None:
    shown = text(statistics_of(written, ATTEMPTS))
    assert "6 jobs, 4 attempts, 1 of them a retry; 8.0h of core time, 2.0h of it badput (25.0%)" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["LABEL", "JOBS", "ATTEMPTS", "RETRIES", "BADPUT", "BADPUT", "TIME", "CORE", "TIME", "CPU", "TIME"] in rows
    assert "LOST" not in shown, "that is an attempt whose end cannot be known"
    assert ["a", "3", "3", "1", "1", "2.0h", "6.0h", "3.0h"] in rows
    assert ["a", *["1m05s"] * 4, *["1h00m"] * 4, *["50%"] * 4, *["3.8", "GiB"] * 4, "4", "GiB"] in rows
    assert ["n1", "2", "3", "1", "1", "2.0h", "6.0h", "3.0h", "1h00m", "1h00m", "50%"] in rows


def test_measures_go_below_each_other_on_a_narrow_terminal(written: WrittenRun) -> None:
    shown = text(statistics_of(written, ATTEMPTS), width=100)
    assert shown.count("\nLABEL") > text(statistics_of(written, ATTEMPTS)).count("\nLABEL") == 2


@pytest.mark.parametrize("width", [40, 50, 60, 79, 80, 120])
def test_tables_fit_any_terminal_and_no_column_is_lost(written: WrittenRun, width: int) -> None:
    lines = list(map(plain, statistics_lines([statistics_of(written, ATTEMPTS)], width)))
    tables = lines[lines.index("") :]
    assert max(map(width_of, tables)) <= width
    heads = [line for line in tables if line.startswith(("LABEL", "HOST"))]
    words = " ".join(heads).split()
    for title in ("JOBS", "ATTEMPTS", "RETRIES"):
        assert words.count(title) == 2, "of labels and of hosts"
    assert sum(line.count("P95") for line in heads) == 5
    assert "REQUEST" in words
    assert all(line.split()[1] not in {"P50", "P95", "MAX"} for line in heads), "each names its measure"


def test_what_is_unknown_is_said_to_be(written: WrittenRun) -> None:
    ended = Attempt(job=0, number=1, started_at=1.0, ended_at=2.0)
    shown = text(statistics_of(written, [ended, attempt(1), Attempt(job=2, number=1)]))
    assert "Unknown: wait in the queue (1 attempt), run time (1 attempt), processor time (1 attempt)" in shown
    assert "Without an end: 1 attempt" in shown
    assert "Core time lacks 1 attempt of unknown run time" in shown
    alone = text(statistics_of(written, [ended]))
    assert "unknown" in next(line for line in alone.splitlines() if line.startswith("a  "))
    assert any(line for line in alone.splitlines() if line.startswith("a rather") and " - " in line)


def test_core_time_that_is_unknown_is_not_zero(written: WrittenRun) -> None:
    lost = Attempt(job=1, number=1, started_at=1.0, ended_at=2.0, cause=Cause.LOST)
    run = statistics_of(written, [Attempt(job=0, number=1, started_at=1.0, ended_at=2.0), lost])
    shown = text(run)
    assert "2 attempts, 0 of them retries; unknown core time\n" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["a", "3", "2", "0", "1", "unknown", "unknown", "unknown"] in rows
    assert "lacks" not in shown
    total = total_of(run)
    assert [total[name] for name in ("badput_s", "badput_core_s", "core_s", "unknown_run")] == ["", "", "", "2"]
    entry = stats_document([run], (), as_of=0.0).runs[0].total
    assert (entry.core_s, entry.unknown_run, entry.badput.run_s, entry.badput.core_s) == (None, 2, None, None)


def test_processor_time_of_failures_that_nothing_measured_is_unknown(written: WrittenRun) -> None:
    failed = Attempt(job=0, number=1, started_at=1.0, ended_at=3601.0, run_s=3600.0, cause=Cause.EXIT)
    run = statistics_of(written, [failed])
    assert ["a", "3", "1", "0", "1", "2.0h", "2.0h", "unknown"] in [line.split() for line in text(run).splitlines()]
    assert total_of(run)["cpu_s"] == ""
    assert stats_document([run], (), as_of=0.0).runs[0].total.cpu_s is None


def test_processor_time_of_lost_attempts_is_unknown(written: WrittenRun) -> None:
    lost = Attempt(job=1, number=1, started_at=1.0, ended_at=2.0, cause=Cause.LOST)
    assert total_of(statistics_of(written, [lost]))["cpu_s"] == ""


def test_processor_time_below_what_a_manager_measures_is_zero(written: WrittenRun) -> None:
    short = Attempt(job=0, number=1, started_at=1.0, ended_at=3601.0, run_s=3600.0, cpu_s=0.0)
    run = statistics_of(written, [short])
    assert ["a", "3", "1", "0", "0", "0s", "2.0h", "0s"] in [line.split() for line in text(run).splitlines()]
    assert total_of(run)["cpu_s"] == "0.0"


def test_an_attempt_that_was_never_started_took_no_time(written: WrittenRun) -> None:
    refused = Attempt(job=0, number=1, ended_at=2.0, cause=Cause.SUBMIT)
    assert "0s of core time, 0s of it badput" in text(statistics_of(written, [refused]))


def test_core_time_is_in_hours_from_one_on() -> None:
    assert [format_core_time(each) for each in (None, 65.0, 7200.0)] == ["unknown", "1 min 5 s", "2.0 h"]
    assert [format_core_time(each, is_brief=True) for each in (65.0, 7200.0)] == ["1m05s", "2.0h"]


def test_runs_stand_below_each_other_in_one_table(written: WrittenRun) -> None:
    one = statistics_of(written, ATTEMPTS)
    shown = text(one, statistics_of(written, ATTEMPTS[1:]))
    rows = [line.split() for line in shown.splitlines()]
    at = rows.index(["a", "k7f3aa", "3", "3", "1", "1", "2.0h", "6.0h", "3.0h"])
    assert rows[at + 1] == ["k7f3aa", "3", "2", "1", "0", "0s", "4.0h", "2.0h"]


def test_csv_has_a_row_per_run_label_and_host(written: WrittenRun) -> None:
    file = io.StringIO()
    write_csv([statistics_of(written, [*ATTEMPTS, Attempt(job=4, number=1, started_at=1.0, ended_at=2.0)])], file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    groups = [(row["group"], row["key"]) for row in rows]
    assert groups == [
        ("run", ""),
        ("label", "a"),
        ("label", "a rather long label of a task"),
        ("host", "n1"),
        ("host", "n2"),
        ("host", ""),
    ]
    assert (rows[0]["badput_core_s"], rows[1]["requested_memory_b"], rows[1]["run_s_p95"]) == (
        "7200.0",
        str(4 << 30),
        "3600.0",
    )
    assert (rows[5]["run_s_unknown"], rows[5]["run_s_p50"]) == ("1", "")


@given(st.floats(0.0, 1e8))
def test_durations_are_short(seconds: float) -> None:
    assert len(format_brief_duration(seconds)) <= 8


def test_durations_have_two_units() -> None:
    shown = [format_brief_duration(each) for each in (0.0, 0.25, 9.96, 59.6, 185.0, 3599.9, 14820.0, 183600.0)]
    assert shown == ["0s", "0.25s", "10.0s", "1m00s", "3m05s", "1h00m", "4h07m", "2d03h"]
