"""Text for people: BPS's tables to the character, and nothing in a name that a terminal obeys.

The pages in ``tests/golden/report`` are compared exactly. ``REGENERATE_GOLDEN=1`` in the environment writes Longshore's
own ones anew; those whose names begin with ``bps_`` were captured from BPS and stay.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.cli.show_text import (
    detailed,
    duration,
    error_text,
    exit_codes,
    outcome_line,
    ping_text,
    summary_table,
    timestamp,
    visible,
)
from longshore.contract.context import PingReport
from longshore.errors import ConfigError, LongshoreError, RunNotFoundError
from longshore.model.report import JobReport, RunReport
from longshore.model.state import Cause, JobState
from longshore.origin import Origin

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
    assert captured("bps_labels.txt") in detailed(RUNS[0])


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
    """BPS's row 68."""
    assert summary_table([ran(*states)]).splitlines()[2][:4] == f"  {flag} "


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_only_a_running_run_has_a_flag(state: JobState) -> None:
    """BPS's row 68."""
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
    """BPS's row 69; 29 of 100 is 28 there, by the rounding of its floats."""
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
    assert "l" * 300 in detailed(report)


def test_a_run_that_runs() -> None:
    golden("running.txt", detailed(msgspec.structs.replace(RUNS[0], submitted_at=NOON, started_at=NOON + 1.5)))


def failures() -> tuple[JobReport, ...]:
    known = [
        JobReport(name="isr_1", label="isr", state=JobState.FAILED, cause=Cause.EXIT, exit_code=3, attempts=1),
        JobReport(name="isr_2", label="isr", state=JobState.FAILED, cause=Cause.SIGNAL, signal=11, attempts=3),
        JobReport(name="isr_3", label="isr", state=JobState.FAILED, cause=Cause.SIGNAL, signal=99, attempts=3),
        JobReport(
            name="isr_4",
            label="isr",
            state=JobState.FAILED,
            cause=Cause.OOM,
            signal=9,
            attempts=2,
            reason="used 2.1 GiB of 2 GiB",
            log="logs/isr/00/isr_4.2.log",
        ),
        JobReport(
            name="isr_5",
            label="isr",
            state=JobState.FAILED,
            cause=Cause.OUTPUT,
            exit_code=0,
            attempts=1,
            reason="'a.fits' is not there",
            log="/scratch/logs/isr_5.1.log",
        ),
        JobReport(name="isr_6", label="isr", state=JobState.FAILED, cause=Cause.LOST, attempts=1),
        JobReport(name="isr_7", label="isr", state=JobState.FAILED),
    ]
    more = [msgspec.structs.replace(known[0], name=f"isr_{number}") for number in range(8, 14)]
    return (*known, *more)


def failed_run() -> RunReport:
    jobs = (*failures(), JobReport(name="calibrate_1", label="calibrate", state=JobState.PRUNED))
    report = run({"isr": {JobState.FAILED: 13}, "calibrate": {JobState.PRUNED: 1}}, state=JobState.FAILED)
    return msgspec.structs.replace(
        report,
        jobs=jobs,
        submitted_at=NOON,
        started_at=NOON + 1,
        finished_at=NOON + 3726,
        notes=("Two engines took part: 'a' and 'b'.", "The request of 'isr' was lowered to 4 cpus."),
    )


def test_a_run_that_failed() -> None:
    golden("failed.txt", detailed(failed_run()))


def test_ten_failures_are_all_named() -> None:
    report = msgspec.structs.replace(failed_run(), jobs=failures()[:10])
    assert "isr_10: exit code 3" in detailed(report)
    assert "more" not in detailed(report)


def test_failures_are_not_listed_where_jobs_were_not_asked_for() -> None:
    assert "Failed:" not in detailed(msgspec.structs.replace(failed_run(), jobs=None))


def test_signals_are_named() -> None:
    for number in signal.Signals:
        job = JobReport(name="j", label="isr", state=JobState.FAILED, signal=number.value)
        assert f"signal {number.name}, 0 attempts" in detailed(msgspec.structs.replace(failed_run(), jobs=(job,)))


def test_a_time_no_calendar_has_is_left_out() -> None:
    assert timestamp(1e20) is None
    assert "Submitted" not in detailed(msgspec.structs.replace(RUNS[0], submitted_at=1e20))


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
    assert duration(seconds) == text


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


def test_what_a_terminal_obeys_is_spelled_out() -> None:
    assert (
        visible("a\x1b[31m\n\t\x9b\x00\u202e\udcff é 日本 \\") == "a\\x1b[31m\\n\\t\\x9b\\x00\\u202e\\udcff é 日本 \\"
    )


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_gets_through_to_the_terminal(odd: str) -> None:
    job = JobReport(name=odd, label=odd, state=JobState.FAILED, reason=odd, log=f"logs/{odd}")
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
        jobs=(job,),
    )
    error = ConfigError(odd, origin=Origin(odd, 1, 1), hint=odd)
    ping = PingReport(service=odd, ok=False, message=odd, details={odd: odd}, capacity={odd: 1})
    for text in (detailed(report), error_text(error), ping_text(ping)):
        assert text.replace("\n", "").isprintable()
        text.encode()
    assert len(summary_table([report]).splitlines()) == 3
    assert all(line.startswith("  ") for line in error_text(error).splitlines()[1:])


def test_rows_73_and_74_exit_codes_are_those_of_the_payload_or_others() -> None:
    codes = (1, 2, 3, 4, 2)
    failed = [JobReport(name=str(code), label="foo", state=JobState.FAILED, exit_code=code) for code in codes]
    killed = JobReport(name="k", label="foo", state=JobState.FAILED, signal=9)
    lost = JobReport(name="l", label="bar", state=JobState.FAILED, cause=Cause.LOST)
    fine = JobReport(name="g", label="baz", state=JobState.SUCCEEDED, exit_code=0)
    report = run({label: dict.fromkeys(JobState, 0) for label in ("foo", "bar", "baz")})
    lines = exit_codes(msgspec.structs.replace(report, jobs=(*failed, killed, lost, fine))).splitlines()
    assert "PAYLOAD ERROR COUNT" in lines[0]
    assert [line.split() for line in lines[2:5]] == [
        ["foo", "3", "1,", "2", "3", "3,", "4,", "9"],
        ["bar", "0", "None", "0", "None"],
        ["baz", "0", "None", "0", "None"],
    ]
    assert lines[5] == "WARNING: exit codes not available for job labels: bar"
