"""Text for people: BPS's tables to the character, and nothing in a name that a terminal obeys.

The pages in ``tests/golden/report`` are compared exactly. ``REGENERATE_GOLDEN=1`` in the environment writes Longshore's
own ones anew; those whose names begin with ``bps_`` were captured from BPS and stay.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.cli.checks import ping_text
from longshore.cli.error_text import error_text
from longshore.cli.report_text import exit_codes_table, fields_table, report_text, run_summary_lines, summary_table
from longshore.contract.service import PingReport
from longshore.errors import ConfigError, ErrorDetail, LongshoreError, Origin, RequestError, RunNotFoundError
from longshore.model.report import (
    Badput,
    ExitCodes,
    Failure,
    RunningJob,
    RunReport,
    RunSummary,
    escape_controls,
    failure_text,
    format_duration,
    outcome_line,
)
from longshore.model.states import Cause, JobState

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "report"
NOON = 1763640000.0
"""2025-11-20, noon in UTC."""


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("REGENERATE_GOLDEN"):
        path.write_text(text + "\n", "utf-8")
    assert text + "\n" == path.read_text("utf-8")


def captured(name: str) -> str:
    return (GOLDEN / name).read_text("utf-8").removesuffix("\n")


def run(
    labels: Mapping[str, Mapping[JobState, int]], *, state: JobState = JobState.RUNNING, run_id: str = "k7f3a"
) -> RunReport:
    counts = {each: sum(label.get(each, 0) for label in labels.values()) for each in JobState}
    return RunReport(
        id=run_id,
        name="u_ada_DM-1_20251120T120000Z",
        path="/data/submit/u/ada/DM-1/20251120T120000Z",
        service="local",
        state=state,
        expected=sum(counts.values()),
        counts=counts,
        labels=labels,
        expected_labels={label: sum(counts.values()) for label, counts in labels.items()},
        global_id=f"{run_id}-31171df3",
        operator="ada",
        project="dev",
        campaign="quick",
        payload="ci_hsc",
        site="here",
        user="ada",
    )


def ran(*states: JobState, state: JobState = JobState.RUNNING, run_id: str = "k7f3a") -> RunReport:
    return run({"isr": {each: states.count(each) for each in states}}, state=state, run_id=run_id)


LABELS = {
    "pipetaskInit": {JobState.SUCCEEDED: 1},
    "isr": {JobState.SUCCEEDED: 12, JobState.FAILED: 2, JobState.RUNNING: 1},
    "calibrateImage": {JobState.UNREADY: 3, JobState.PRUNED: 2, JobState.HELD: 1, JobState.READY: 123456789},
    "finalJob": {JobState.UNREADY: 1},
}
RUNS = [
    run(LABELS, run_id="9.0"),
    ran(run_id="k7f3a", state=JobState.SUCCEEDED),
    msgspec.structs.replace(ran(JobState.SUCCEEDED, JobState.FAILED, run_id="8.0"), operator="", payload="x", name="n"),
]


def cells(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[2:]]


def test_the_summary_is_that_of_bps() -> None:
    assert summary_table(RUNS) == captured("bps_summary.txt")


def test_the_table_of_labels_is_that_of_bps() -> None:
    assert captured("bps_labels.txt") in report_text(RUNS[0])


def test_a_summary_of_nothing_is_the_header() -> None:
    header, rule = summary_table([]).splitlines()
    assert header.split() == ["X", "STATE", "%S", "ID", "OPERATOR", "PROJECT", "CAMPAIGN", "PAYLOAD", "RUN"]
    assert set(rule) == {"-", " "}


@pytest.mark.parametrize(
    ("states", "flag"),
    [
        ([JobState.HELD, JobState.DELETED, JobState.FAILED], "H"),
        ([JobState.DELETED, JobState.FAILED], "D"),
        ([JobState.FAILED], "F"),
        ([JobState.PRUNED, JobState.SUCCEEDED], " "),
    ],
)
def test_a_running_run_that_needs_a_person_has_a_flag(states: list[JobState], flag: str) -> None:
    assert summary_table([ran(*states)]).splitlines()[2][:4] == f"  {flag} "


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_only_a_running_run_has_a_flag(state: JobState) -> None:
    report = ran(JobState.HELD, JobState.DELETED, JobState.FAILED, state=state)
    assert summary_table([report]).splitlines()[2][:4] == "    "


@pytest.mark.parametrize(
    ("report", "percent"),
    [
        (ran(JobState.SUCCEEDED, JobState.FAILED, JobState.FAILED), "33"),
        (ran(), "UNK"),
        (ran(JobState.SUCCEEDED), "100"),
        (ran(*[JobState.SUCCEEDED] * 29, *[JobState.FAILED] * 71), "29"),
    ],
)
def test_percent_succeeded(report: RunReport, percent: str) -> None:
    """29 of 100 is 28 in BPS, by the rounding of its floats."""
    assert cells(summary_table([report]))[0][-7] == percent


def test_ids_are_sorted_as_numbers_where_they_are() -> None:
    ids = ["k7f3b", "10.0", "100.0", "9.0", "9.10", "9.9", "29", "7a", "k7f3a", "9" * 5000]
    table = summary_table([ran(state=JobState.HELD, run_id=each) for each in ids])
    assert [row[2] for row in cells(table)] == [
        *["9.0", "9.9", "9.10", "10.0", "29", "100.0"],
        *["7a", "9" * 5000, "k7f3a", "k7f3b"],
    ]


def test_a_wide_name_is_not_cut() -> None:
    report = msgspec.structs.replace(run({"l" * 300: {JobState.READY: 1}}), name="n" * 500)
    assert "n" * 500 in summary_table([report])
    assert "l" * 300 in report_text(report)


def test_a_run_that_runs() -> None:
    golden("running.txt", report_text(msgspec.structs.replace(RUNS[0], submitted_at=NOON, started_at=NOON + 1.5)))


def failures() -> tuple[Failure, ...]:
    return (
        Failure(
            label="isr",
            cause=Cause.EXIT,
            exit_code=3,
            message="ValueError: cannot reshape array of size <n>",
            count=6,
            unread=4000,
            job="isr_1",
            host="here",
            attempt=1,
            log="/data/logs/isr/00/isr_1.1.log",
            tail=("Traceback (most recent call last):", "ValueError: cannot \x1b[2Jreshape array of size 12"),
            by_hand="/data/wms/run-job isr_1",
        ),
        Failure(
            label="isr",
            cause=Cause.OOM,
            signal=9,
            count=3,
            job="isr_4",
            attempt=2,
            reason="used 2.1 GiB of 2 GiB",
            log="/data/logs/isr/00/isr_4.2.log",
        ),
        Failure(label="isr", cause=Cause.SIGNAL, signal=11, count=1, job="isr_2", attempt=3),
        Failure(label="isr", cause=Cause.SIGNAL, signal=99, count=1, job="isr_3", attempt=3),
        Failure(label="isr", cause=Cause.OUTPUT, exit_code=0, message="'a.fits' is not there", count=1, job="isr_5"),
        Failure(label="isr", cause=Cause.LOST, count=1, job="isr_6", attempt=1),
        Failure(label="isr", count=1, job="isr_7"),
    )


def failed_run() -> RunReport:
    report = run({"isr": {JobState.FAILED: 13}, "calibrate": {JobState.PRUNED: 1}}, state=JobState.FAILED)
    return msgspec.structs.replace(
        report,
        summary=RunSummary(
            elapsed_s=3725.0,
            failures=failures(),
            badput={
                Cause.EXIT: Badput(attempts=7, seconds=70.25, exit_codes={1: 2, 5: 4}, signals={9: 1}),
                Cause.LOST: Badput(attempts=1, seconds=0.0),
                Cause.OOM: Badput(attempts=2, seconds=1.0, signals={9: 2}),
            },
        ),
        submitted_at=NOON,
        started_at=NOON + 1,
        finished_at=NOON + 3726,
        notes=("Two engines took part: 'a' and 'b'.", "The request of 'isr' was lowered to 4 cpus."),
        specifics=("Submissions: 2",),
    )


def test_a_run_that_failed() -> None:
    golden("failed.txt", report_text(failed_run()))


def test_causes_precede_log_excerpts() -> None:
    lines = report_text(failed_run()).splitlines()
    first_log = next(number for number, line in enumerate(lines) if line.startswith("  | "))
    headlines = [number for number, line in enumerate(lines) if re.match(r"  \d\. ", line)]
    assert len(headlines) == 5
    assert max(headlines) < first_log


@pytest.mark.parametrize(("number", "words"), [(1, "1 job can never start"), (3, "3 jobs can never start")])
def test_a_run_with_jobs_that_can_never_start_has_no_end(number: int, words: str) -> None:
    lines = run_summary_lines(RunSummary(elapsed_s=60.0, hopeless_jobs=number), now=NOON)
    assert f"Elapsed: 1 min 0 s, left: never, as {words}" in lines
    assert run_summary_lines(RunSummary(hopeless_jobs=number)) == ["", f"left: never, as {words}"]


def test_running_and_waiting_jobs() -> None:
    insight = RunSummary(
        elapsed_s=60.0,
        left_s=(61.0, 7200.0),
        running=(
            RunningJob(name="a\n", label="isr", host="h", started_at=NOON - 30),
            RunningJob(name="b", label="isr"),
        ),
        waits=("3 jobs are held",),
    )
    assert run_summary_lines(insight, now=NOON) == [
        "",
        "Elapsed: 1 min 0 s, left: about 1 min 1 s to 2 h 0 min",
        "Longest running: a\\n for 30.0 s on h, b",
        "Waiting: 3 jobs are held",
    ]
    assert run_summary_lines(RunSummary()) == []


def test_signals_are_named() -> None:
    for number in signal.Signals:
        assert failure_text(None, None, number.value) == f"signal {number.name}"


def test_an_uncounted_label_has_minus_one_in_each_column() -> None:
    report = run({"isr": {JobState.SUCCEEDED: 2}})
    report = msgspec.structs.replace(report, expected_labels={"isr": 2, "bar": 3}, expected=5)
    (row,) = [line.split() for line in report_text(report).splitlines() if line.startswith("bar")]
    assert row == ["bar", *["-1"] * len(JobState), "3"]


def test_uncounted_jobs_count_as_unready() -> None:
    report = msgspec.structs.replace(run({"isr": {JobState.SUCCEEDED: 2}}), expected_labels={"isr": 5})
    (row,) = [line.split() for line in report_text(report).splitlines() if line.startswith("isr")]
    names = [*(state.value for state in JobState), "EXPECTED"]
    numbers = dict(zip(names, row[1:], strict=True))
    assert {name: number for name, number in numbers.items() if number != "0"} == {
        "SUCCEEDED": "2",
        "UNREADY": "3",
        "EXPECTED": "5",
    }


def test_labels_of_no_known_order_are_sorted() -> None:
    report = run({"isr": {JobState.SUCCEEDED: 2}, "bar": {JobState.FAILED: 1}})
    text = report_text(msgspec.structs.replace(report, expected_labels=None))
    rows = [line.split() for line in text.splitlines()]
    assert [row[0] for row in rows if row and row[0] in {"isr", "bar"}] == ["bar", "isr"]
    assert [row[-1] for row in rows if row and row[0] in {"isr", "bar"}] == ["-1", "-1"]
    assert "WARNING: Could not determine order of pipeline, instead sorted alphabetically." in text


def test_a_report_without_label_counts_has_only_totals() -> None:
    text = report_text(msgspec.structs.replace(run({}), labels={}, expected_labels=None))
    assert "WARNING: Job summary for run 'k7f3a' not available, report may be incomplete." in text


def test_chosen_fields_as_table_and_for_programs() -> None:
    fields = ("id", "%s", "finished")
    assert fields_table(RUNS, fields).splitlines()[0].split() == ["ID", "%S", "FINISHED"]
    assert fields_table(RUNS, fields, tsv=True) == "ID\t%S\tFINISHED\n8.0\t50\tUNK\n9.0\t0\tUNK\nk7f3a\tUNK\tUNK"
    assert fields_table(RUNS, ("id",), header=False, tsv=True) == "8.0\n9.0\nk7f3a"
    assert fields_table(RUNS, ("id",), header=False) == "  8.0\n  9.0\nk7f3a"
    odd = msgspec.structs.replace(RUNS[0], name="a\tb\n")
    assert fields_table([odd], ("run", "id"), header=False, tsv=True) == "a\\tb\\n\t9.0"


def test_global_shows_global_ids() -> None:
    assert cells(summary_table([RUNS[0]], global_ids=True))[0][3] == "9.0-31171df3"


def test_a_time_no_calendar_has_is_left_out() -> None:
    assert "Submitted" not in report_text(msgspec.structs.replace(RUNS[0], submitted_at=1e20))


def test_outcome() -> None:
    succeeded = msgspec.structs.replace(
        ran(*[JobState.SUCCEEDED] * 3, state=JobState.SUCCEEDED), started_at=NOON, finished_at=NOON + 12.34
    )
    assert outcome_line(succeeded) == "3 jobs, succeeded 3/3, failed 0/3, wall time 12.3 s"
    assert outcome_line(failed_run()) == "14 jobs, succeeded 0/14, failed 13/14, pruned 1/14, wall time 1 h 2 min"
    deleted = ran(JobState.DELETED, state=JobState.DELETED)
    assert outcome_line(deleted) == "1 job, succeeded 0/1, failed 0/1, deleted 1/1"


def test_a_clock_set_back_makes_no_negative_time() -> None:
    report = msgspec.structs.replace(failed_run(), started_at=NOON, finished_at=NOON - 5)
    assert outcome_line(report).endswith("wall time 0.0 s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (-3, "0.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (245.9, "4 min 5 s"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (7380, "2 h 3 min"),
        (86399, "23 h 59 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_errors() -> None:
    located = ConfigError("'requestCpus' must be a number, not 'many'", origin=Origin("run.yaml", 12, 16, "user"))
    hinted = RunNotFoundError("no run 'k7'", hint="Did you mean 'k7f3a'?")
    on_the_command_line = ConfigError("'a' has no value", origin=Origin("--set"), hint="Write a=VALUE.")
    long = LongshoreError("first\nsecond \x1b[2J", hint="one\ntwo")
    golden("errors.txt", "\n".join(map(error_text, [located, hinted, on_the_command_line, long])))


def test_pings() -> None:
    here = PingReport(
        service="local",
        ok=True,
        message="ready",
        details={"state": "/home/ada/.local/state", "engine": "detached by setsid"},
        capacity={"cpus": 8, "memory": 33_500_000_000, "disk": 2**40, "gpus": 0},
    )
    gone = PingReport(service="slurm", ok=False, message="'squeue' does not answer")
    golden("pings.txt", "\n".join(map(ping_text, [here, gone])))


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (1023, "1023"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**64, "16384 PiB")]
)
def test_bytes(size: int, text: str) -> None:
    assert ping_text(PingReport(service="s", ok=True, message="m", capacity={"disk": size})).endswith(f"disk {text}")


def test_control_characters_are_escaped() -> None:
    assert (
        escape_controls("a\x1b[31m\n\t\x9b\x00\u202e\udcff é 日本 \\")
        == "a\\x1b[31m\\n\\t\\x9b\\x00\\u202e\\udcff é 日本 \\"
    )


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_gets_through_to_the_terminal(odd: str) -> None:
    failure = Failure(label=odd, message=odd, count=1, job=odd, host=odd, reason=odd, log=odd, tail=(odd,), by_hand=odd)
    insight = RunSummary(running=(RunningJob(name=odd, label=odd, host=odd),), waits=(odd,), failures=(failure,))
    report = RunReport(
        id=odd,
        name=odd,
        path=odd,
        service=odd,
        state=JobState.FAILED,
        expected=1,
        counts={JobState.FAILED: 1},
        labels={odd: {JobState.FAILED: 1}},
        operator=odd,
        notes=(odd,),
        specifics=(odd,),
        global_id=odd,
        summary=insight,
    )
    error = ConfigError(odd, origin=Origin(odd, 1, 1), hint=odd)
    ping = PingReport(service=odd, ok=False, message=odd, details={odd: odd}, capacity={odd: 1})
    for text in (report_text(report), error_text(error), ping_text(ping)):
        assert text.replace("\n", "").isprintable()
        text.encode()
    assert len(summary_table([report]).splitlines()) == 3
    assert all(line.startswith("  ") for line in error_text(error).splitlines()[1:])


def test_rows_73_and_74_exit_codes_are_those_of_the_payload_or_others() -> None:
    codes = {
        "foo": ExitCodes(codes={1: 1, 2: 2, 3: 1, 4: 1, 9: 1}),
        "bar": ExitCodes(unknown=1),
        "baz": ExitCodes(),
    }
    report = run({label: dict.fromkeys(JobState, 0) for label in codes})
    lines = exit_codes_table(msgspec.structs.replace(report, summary=RunSummary(exit_codes=codes))).splitlines()
    assert "PAYLOAD ERROR COUNT" in lines[0]
    assert [line.split() for line in lines[2:5]] == [
        ["foo", "3", "1,", "2", "3", "3,", "4,", "9"],
        ["bar", "0", "None", "0", "None"],
        ["baz", "0", "None", "0", "None"],
    ]
    assert lines[5] == "WARNING: exit codes not available for job labels: bar"


def test_an_error_of_many_problems_shows_some_and_counts_all() -> None:
    error = RequestError("first (and 41 more)")
    error.details = tuple(ErrorDetail("request", f"number {n}", Origin("a.yaml", n, 1), "Do so.") for n in range(1, 43))
    lines = error_text(error).splitlines()
    assert lines[:2] == ["longshore: error: a.yaml:1:1: number 1", "longshore: error: a.yaml:2:1: number 2"]
    assert lines.count("  Do so.") == 1
    assert lines[-1] == "longshore: error: 42 problems in all, 2 of which are not shown; --json gives all"
    assert len(lines) == 40 + 1 + 1
    error.details = error.details[:2]
    assert error_text(error).splitlines()[-1] == "longshore: error: 2 problems in all"
