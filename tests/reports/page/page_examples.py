"""Pages of runs that tests render: an ordinary one, and texts that foreign files may hold."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from longshore.model.event import Attempt
from longshore.model.measurements import distribution_of
from longshore.model.report import (
    Drawing,
    DrawingEdge,
    DrawingNode,
    Failure,
    JobFailure,
    JobReport,
    Removals,
    RemovedJob,
    Retries,
    RunningJob,
    RunReport,
    RunSummary,
)
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request
from longshore.reports.page.content import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    ConfigurationRow,
    LabelRow,
    RunPage,
    Spans,
    find_advice,
)
from longshore.reports.rerun_commands import RerunCommand
from longshore.reports.statistics import AttemptStatistics, BadputSum
from longshore.reports.suggested_requests import RequestAdvice, Usage, suggest_requests

NOW = 1_795_000_000.0
MIB = 1024 * 1024
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "</style><style>body{display:none}",
    "]]>&lt;b&gt;<!--",
    "\x00\x1b[31m\ud800\u202e",
)

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
"""Texts of a log, a label or a host."""


def spans(rows: Sequence[tuple[float, float, int, int, int, int]], hosts: Sequence[str]) -> Spans:
    """Attempts from start, end, label, host, job and outcome."""
    started, ended, labels, of_hosts, jobs, outcomes = zip(*rows, strict=True) if rows else ((),) * 6
    return Spans(
        started=array("d", started),
        ended=array("d", ended),
        label_of=array("l", labels),
        host_of=array("l", of_hosts),
        job_of=array("l", jobs),
        outcome=bytearray(outcomes),
        hosts=list(hosts),
    )


def example_page(words: str = "warp", log: Sequence[str] = ("Segmentation fault",)) -> RunPage:
    """A run with labels that fail, waste memory and wait; `words` are wherever foreign text is."""
    counts = {JobState.SUCCEEDED: 20, JobState.FAILED: 2, JobState.RUNNING: 1, JobState.UNREADY: 4}
    labels = {"isr": {JobState.SUCCEEDED: 20}, words: {JobState.FAILED: 2, JobState.RUNNING: 1}}
    labels[f"{words}'"] = {JobState.UNREADY: 4}
    failure = Failure(
        label=words,
        cause=Cause.SIGNAL,
        signal=11,
        message=words,
        count=2,
        job=words,
        host=words,
        attempt=3,
        reason=words,
        log=f"/run/{words}.log",
        tail=tuple(log),
        by_hand=f"run-job {words}",
        not_retried=f"no attempt is left: {words}",
    )
    report = RunReport(
        id="k7f3aa",
        name=words,
        path=f"/run/{words}",
        service="local",
        state=JobState.RUNNING,
        expected=27,
        counts=counts,
        labels=labels,
        expected_labels={name: sum(row.values()) for name, row in labels.items()},
        payload=words,
        submitted_at=NOW - 100,
        started_at=NOW - 90,
        notes=(words,),
        summary=RunSummary(
            elapsed_s=90.0, left_s=(30.0, 60.0), failures=(failure,), waits=(words,), **live_members(words)
        ),
    )
    times = [1.0 + number / 10 for number in range(20)]
    peaks = [60.0 * MIB + number * MIB for number in range(20)]
    isr = AttemptStatistics(
        jobs=20,
        attempts=20,
        succeeded=20,
        run_s=distribution_of(times),
        peak_memory_b=distribution_of(peaks),
        cpu_efficiency=distribution_of([0.5] * 20),
        core_s=sum(times),
    )
    lost = BadputSum(attempts=6, run_s=12.0, core_s=12.0)
    warp = AttemptStatistics(
        jobs=3, attempts=7, unfinished=1, retries=4, badput=lost, badput_causes={Cause.SIGNAL: lost}, core_s=12.0
    )
    rows = [(NOW - 90 + number, NOW - 90 + number + times[number], 0, 0, number, SUCCEEDED) for number in range(20)]
    rows += [(NOW - 50 + number, NOW - 48 + number, 1, 1, 20 + number % 2, FAILED) for number in range(6)]
    rows += [(NOW - 10, NOW, 1, 1, 22, RUNNING)]
    jobs = [JobReport(name=f"isr_{number}", label="isr", state=JobState.SUCCEEDED, attempts=1) for number in range(20)]
    jobs.append(JobReport(name=words, label=words, state=JobState.FAILED, signal=11, host=words, reason=words))
    page = RunPage(
        report=report,
        as_of=NOW,
        version="1.0",
        total=AttemptStatistics(jobs=27, attempts=27, succeeded=20, retries=4, badput=lost, core_s=sum(times) + 12),
        hosts={"node1": isr, words: warp},
        labels=(
            LabelRow(
                name="isr",
                expected=20,
                counts=labels["isr"],
                statistics=isr,
                run_s=times,
                memory_b=peaks,
                requested_memory_b=3000 * MIB,
            ),
            LabelRow(name=words, expected=3, counts=labels[words], statistics=warp),
            LabelRow(name=f"{words}'", expected=4, counts=labels[f"{words}'"]),
        ),
        spans=spans(rows, ["node1", words]),
        names={job: f"{words}_{job}" for job in range(23)},
        drawing=Drawing(
            title=words,
            boxes=tuple(
                DrawingNode(name=name, label=name, jobs=sum(row.values()), counts=row) for name, row in labels.items()
            ),
            arrows=(DrawingEdge(start=0, end=1), DrawingEdge(start=1, end=2), DrawingEdge(start=0, end=2)),
        ),
        jobs=tuple(jobs),
        configuration=(
            ConfigurationRow(key=words, value=words, place=f"{words}:3:1", layer="file", is_own=True),
            ConfigurationRow(key="maxTasks", value="100", place="defaults.yaml:41:11", layer="defaults", is_own=False),
        ),
        commands=(RerunCommand(purpose="Run it again", command=f"longshore restart {words}"),),
        notes=(words,),
    )
    return msgspec.structs.replace(page, advice=find_advice(page, requests_of(times, peaks, words)))


def live_members(words: str) -> dict[str, Any]:
    """Parts of the summary of a run that is not over."""
    failed = JobFailure(name=words, label=words, cause=Cause.EXIT, exit_code=3, message=words)
    return {
        "running": (RunningJob(name=words, label=words, host=words, started_at=NOW - 10),),
        "retries": Retries(jobs=1, newest=(failed,)),
        "removals": Removals(jobs=2, newest=(RemovedJob(name=words, label=words, reason=words),)),
    }


def requests_of(times: Sequence[float], peaks: Sequence[float], words: str) -> RequestAdvice:
    """Suggested requests: less memory for a label whose attempts took some time and memory; none for another."""
    request = Request(memory_b=3000 * MIB)
    usages = [
        Usage(
            0,
            Attempt(job=job, number=1, started_at=NOW, ended_at=NOW + run_s, run_s=run_s, peak_memory_b=round(peak)),
            request,
        )
        for job, (run_s, peak) in enumerate(zip(times, peaks, strict=True))
    ]
    return RequestAdvice(
        runs=[],
        margin=1.2,
        suggestions=[suggest_requests("isr", usages, [request]), suggest_requests(words, [], [Request()])],
        sections={"isr": "pipetask", words: "pipetask"},
        written={},
    )
