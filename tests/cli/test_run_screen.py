"""Reports and live views on a terminal: they fit its width, tell what matters, and hide what a terminal obeys.

``REGENERATE_GOLDEN=1`` in the environment writes the frames in ``tests/golden/report`` anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from longshore.cli.report_screen import MAX_LABELS, bar_spans, frame_lines, label_lines, report_screen, run_list_screen
from longshore.cli.terminal import Terminal
from longshore.model.report import JobFailure, LabelSummary, RunningJob, RunReport, RunSummary
from longshore.model.states import Cause, JobState
from longshore.reports.styled import Line, Span, cut, cut_line, cut_name, line_text, plain, width_of

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "report"
NOON = 1763640000.0
MIB = 1024 * 1024

Labels = Mapping[str, Mapping[JobState, int]]
LABELS: Labels = {
    "observe": {JobState.SUCCEEDED: 24},
    "calibrate": {JobState.SUCCEEDED: 11, JobState.RUNNING: 2, JobState.FAILED: 1, JobState.READY: 10},
    "stack": {JobState.UNREADY: 3, JobState.PRUNED: 1},
    "join": {JobState.UNREADY: 1},
}
SUMMARY = RunSummary(
    elapsed_s=132.3,
    left_s=(68.0, 125.0),
    running=(
        RunningJob(
            name="calibrate_of_the_exposure_with_a_long_name_11", label="calibrate", host="n17", started_at=NOON - 72
        ),
        RunningJob(name="calibrate_12", label="calibrate", started_at=NOON - 2),
    ),
    waits=("10 jobs are ready, waiting for room",),
    last_failures=(
        JobFailure(name="calibrate_4", label="calibrate", cause=Cause.EXIT, exit_code=3, reason="no\nflat"),
    ),
    labels={
        "observe": LabelSummary(median_s=0.4, p95_s=0.9, peak_memory_b=14 * MIB, requested_memory_b=100 * MIB),
        "calibrate": LabelSummary(median_s=72.0, p95_s=125.0, peak_memory_b=95 * MIB, requested_memory_b=2048 * MIB),
    },
)


def run(labels: Labels = LABELS, *, state: JobState = JobState.RUNNING, paused: bool = False) -> RunReport:
    counts = {each: sum(label.get(each, 0) for label in labels.values()) for each in JobState}
    return RunReport(
        id="k7f3aa",
        name="u_ada_mosaic_20251120T120000Z",
        path="/data/submit/u/ada/mosaic/20251120T120000Z",
        service="local",
        state=state,
        expected=sum(counts.values()),
        counts=counts,
        labels=labels,
        expected_labels={label: sum(each.values()) for label, each in labels.items()},
        operator="ada",
        payload="mosaic",
        paused=paused,
        notes=("PAUSED: the archive is down; no job starts; to continue it: longshore unpause k7f3aa",)
        if paused
        else (),
        summary=SUMMARY,
    )


def table(report: RunReport, width: int = 250) -> list[str]:
    return list(map(plain, label_lines(report, width, has_unicode=True)))


@pytest.mark.parametrize("width", [40, 80, 120, 250])
def test_a_frame_of_the_live_view(width: int) -> None:
    frame = frame_lines(run(paused=True), Terminal(width=width, height=40), now=NOON)
    text = "\n".join(map(plain, frame)) + "\n"
    path = GOLDEN / f"frame_{width}.txt"
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
    assert max(map(len, text.splitlines())) <= width


def test_columns_of_zeros_are_left_out() -> None:
    header, *rows = table(run())
    assert header.split() == [
        *("LABEL", "UNREADY", "READY", "RUNNING", "SUCCEEDED", "FAILED", "PRUNED", "JOBS", "MEDIAN", "P95", "MEMORY")
    ]
    assert [row.split()[0] for row in rows] == ["TOTAL", *LABELS]
    done = run({"observe": {JobState.SUCCEEDED: 24}}, state=JobState.SUCCEEDED)
    assert table(replace(done, summary=None))[0].split() == ["LABEL", "SUCCEEDED", "JOBS"]


def test_a_label_has_a_bar_its_run_times_and_its_memory() -> None:
    rows = {row.split()[0]: row for row in table(run())}
    assert re.search(r"█{16} .* 0\.4 s +0\.9 s +14 of 100 MiB$", rows["observe"])
    assert re.search(r"█+▓+▒+░+ .* 1 min 12 s +2 min 5 s +95 MiB of 2 GiB$", rows["calibrate"])


def test_memory_near_the_request_stands_out() -> None:
    summary = LabelSummary(peak_memory_b=95 * MIB, requested_memory_b=100 * MIB)
    report = replace(run(), summary=RunSummary(labels={"observe": summary}))
    spans = [span for line in label_lines(report, 250, has_unicode=True) for span in line]
    assert Span("95 of 100 MiB", "warning") in spans


def many(number: int) -> dict[str, dict[JobState, int]]:
    return {f"task{each:02}": {JobState.SUCCEEDED: 2} for each in range(number)}


def test_twenty_labels_are_not_folded() -> None:
    assert [row.split()[0] for row in table(run(many(20)))[2:]] == list(many(20))


def test_many_labels_are_folded_with_what_failed_first() -> None:
    labels = many(58)
    labels["task40"] = {JobState.FAILED: 1, JobState.SUCCEEDED: 1}
    labels["task30"] = {JobState.PRUNED: 2}
    labels["task50"] = {JobState.RUNNING: 2}
    rows = table(run(labels))[2:]
    assert len(rows) == MAX_LABELS
    assert [row.split()[0] for row in rows[:4]] == ["task40", "task30", "task50", "task00"]
    last = rows[-1].split()
    assert last[:3] == ["...", "39", "more"]
    assert "78" in last, "the folded row has the sum of the rest"


def test_labels_without_order_or_counts_are_told() -> None:
    unordered = replace(run({"b": {JobState.SUCCEEDED: 1}, "a": {JobState.SUCCEEDED: 1}}), expected_labels=None)
    assert [row.split()[0] for row in table(unordered)[1:]] == ["TOTAL", "a", "b"]
    assert "instead sorted alphabetically" in report_screen(unordered, Terminal())
    uncounted = replace(run({"a": {JobState.SUCCEEDED: 1}}), expected_labels={"a": 1, "b": 3}, expected=4)
    header, *_, last = table(uncounted)
    assert dict(zip(header.split()[1:4], last.split()[2:5], strict=True))["UNKNOWN"] == "3"
    nothing = replace(run({}), expected_labels=None)
    assert "Job summary for run 'k7f3aa' not available" in report_screen(nothing, Terminal())


def test_a_paused_run_says_so() -> None:
    terminal = Terminal(width=100, height=50)
    assert "k7f3aa PAUSED" in plain(frame_lines(run(paused=True), terminal, now=NOON)[0])
    assert "k7f3aa PAUSED" in report_screen(run(paused=True), terminal)
    assert run_list_screen([run(paused=True)], terminal).splitlines()[1].split()[1] == "PAUSED"
    assert "PAUSED" not in report_screen(run(paused=True, state=JobState.SUCCEEDED), terminal).splitlines()[0]


def test_a_report_has_each_path_whole() -> None:
    text = report_screen(run(), Terminal(width=40))
    assert "Path: /data/submit/u/ada/mosaic/20251120T120000Z" in text.splitlines()


def test_a_list_of_runs_leaves_out_empty_columns() -> None:
    wide, narrow = (run_list_screen([run()], Terminal(width=width)).splitlines() for width in (120, 40))
    assert wide[0].split() == ["X", "STATE", "%S", "ID", "OPERATOR", "PAYLOAD", "RUN"]
    assert narrow[0].split() == ["X", "STATE", "%S", "ID", "PAYLOAD"]
    assert run_list_screen([], Terminal()).split() == ["STATE", "ID"]


def test_characters_that_a_locale_lacks_are_replaced() -> None:
    terminal = Terminal(width=60, height=50, has_unicode=False)
    frame = "".join(plain(line) for line in frame_lines(run(), terminal, now=NOON))
    assert frame.isascii()
    assert "#" in frame
    assert "..." in frame


def test_colors_are_written_where_a_terminal_has_them() -> None:
    line: Line = (Span("a "), Span("bad", "bad"))
    assert line_text(line, color=True) == "a \x1b[31mbad\x1b[0m"
    assert line_text(line, color=False) == "a bad"
    assert "\x1b" not in report_screen(run(), Terminal())
    assert "\x1b[32m" in report_screen(run(), Terminal(has_color=True))


@pytest.mark.parametrize("width", [8, 19, 30])
def test_names_are_cut_in_the_middle_so_that_numbered_ones_differ(width: int) -> None:
    names = [f"very_long_label_of_a_pipeline_task_number_{number}" for number in range(10, 36)]
    shown = [cut_name(name, width) for name in names]
    assert len(set(shown)) == len(names)
    assert {width_of(name) for name in shown} == {width}
    assert shown[0].startswith("ver")
    assert cut_name("isr", width) == "isr"


def test_a_name_of_wide_characters_is_cut_in_the_middle() -> None:
    assert cut_name("日本語日本語", 7) == "日…本語"
    assert cut_name("abc", 2, "...") == ".."


def test_wide_characters_take_two_columns() -> None:
    assert width_of("日本") == 4
    assert cut("日本語", 5) == "日本…"
    assert cut("abc", 2, "...") == ".."
    assert plain(cut_line((Span("ab"), Span("日本")), 5)) == "ab日…"


@given(st.lists(st.integers(0, 10**7), min_size=3, max_size=3), st.integers(1, 60))
def test_a_bar_has_its_width_and_hides_no_failure(numbers: list[int], width: int) -> None:
    counts = dict(zip((JobState.SUCCEEDED, JobState.FAILED, JobState.UNREADY), numbers, strict=True))
    spans = bar_spans(counts, width, has_unicode=True)
    assert sum(len(span.text) for span in spans) == width
    if width >= 3 and counts[JobState.FAILED]:
        assert any(span.style == "bad" for span in spans)


texts = st.text(st.characters(exclude_categories=[]), max_size=90)
label_counts = st.dictionaries(st.sampled_from(list(JobState)), st.integers(0, 10**9), max_size=11)
summaries = st.builds(
    LabelSummary,
    median_s=st.none() | st.floats(0, 1e7),
    p95_s=st.none() | st.floats(0, 1e7),
    peak_memory_b=st.none() | st.integers(1, 2**50),
    requested_memory_b=st.none() | st.integers(1, 2**50),
)


@given(
    st.dictionaries(texts, label_counts, max_size=30),
    texts,
    summaries,
    st.builds(Terminal, width=st.integers(1, 250), height=st.integers(2, 60), has_unicode=st.booleans()),
    st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(
    labels: dict[str, dict[JobState, int]], odd: str, label: LabelSummary, terminal: Terminal, is_last: bool
) -> None:
    report = replace(
        run(labels),
        id=odd,
        name=odd,
        payload=odd,
        notes=(odd,),
        summary=RunSummary(
            elapsed_s=1e6,
            left_s=(1.0, 1e6),
            running=(RunningJob(name=odd, label=odd, host=odd, started_at=NOON),),
            last_failures=(JobFailure(name=odd, label=odd, reason=odd),),
            waits=(odd,),
            labels=dict.fromkeys(labels, label),
        ),
    )
    frame = frame_lines(report, terminal, now=NOON, is_last=is_last)
    assert is_last or len(frame) < terminal.height
    for text in map(plain, frame):
        assert width_of(text) <= terminal.width
        assert text.isprintable()
    for text in report_screen(report, terminal).splitlines()[:2]:
        assert width_of(text) <= terminal.width
    assert run_list_screen([report], terminal).replace("\n", "").isprintable()
