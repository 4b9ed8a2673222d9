"""Builds the report of a run from ClassAds of its DAGMan and jobs, without its directory; no side effects.

It is as old as the ads: DAGMan updates its own from time to time. States that they do not give are UNKNOWN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from longshore.model.report import JobReport, RunReport
from longshore.model.states import JobState
from longshore.model.wording import format_moment
from longshore.services.htcondor.event_codes import JobStatusCode
from longshore.services.htcondor.schedd.client import Ad
from longshore.services.htcondor.schedd.ids import format_id

_MAX_DIGITS: Final = 18
"""Digits of the largest number of jobs: Python converts no number of thousands of digits."""
_RUN: Final = ("LongshoreRun", "LongshoreName", "LongshorePath", "JobBatchName", "Iwd", "Owner")
_BPS: Final = tuple(
    f"bps_{word}" for word in ("operator", "project", "campaign", "payload", "run", "runsite", "job_summary")
)
_NODES: Final[Mapping[str, JobState]] = {
    "DAG_NodesDone": JobState.SUCCEEDED,
    "DAG_NodesFailed": JobState.FAILED,
    "DAG_NodesFutile": JobState.PRUNED,
    "DAG_NodesUnready": JobState.UNREADY,
    "DAG_NodesReady": JobState.READY,
    "DAG_JobsIdle": JobState.PENDING,
    "DAG_JobsRunning": JobState.RUNNING,
    "DAG_JobsHeld": JobState.HELD,
}
"""Job states of the counters in DAGMan's ad."""
_LIFE: Final = ("QDate", "JobStartDate", "CompletionDate", "EnteredCurrentStatus", "HoldReason", "RemoveReason")
_STATUS: Final = (
    "ClusterId",
    "ProcId",
    "GlobalJobId",
    "JobStatus",
    "ExitCode",
    "DAG_Status",
    "DAG_NodesTotal",
    "DAG_AdUpdateTime",
)
DAGMAN_ATTRIBUTES: Final = (*_STATUS, *_LIFE, *_RUN, *_BPS, *_NODES)
"""Attributes of DAGMan's job to query."""
JOB_ATTRIBUTES: Final = (
    *("ClusterId", "JobStatus", "ExitCode", "ExitBySignal", "ExitSignal", "bps_job_name", "bps_job_label"),
    *("NumJobStarts", "HoldReason", "RemoveReason", "RemoteHost", "LastRemoteHost", "JobStartDate", "CompletionDate"),
)
"""Attributes of its jobs to query."""

_JOB_STATES: Final[Mapping[int, JobState]] = {
    JobStatusCode.IDLE: JobState.PENDING,
    JobStatusCode.RUNNING: JobState.RUNNING,
    JobStatusCode.REMOVED: JobState.DELETED,
    JobStatusCode.HELD: JobState.HELD,
    JobStatusCode.TRANSFERRING_OUTPUT: JobState.RUNNING,
    JobStatusCode.SUSPENDED: JobState.RUNNING,
}
"""State by ``JobStatus``; for a completed job, its exit decides."""
_DAG_REMOVED: Final = 4
"""``DAG_Status`` of a removed DAG."""
_OVER: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED})
_MOVING: Final = frozenset({JobState.UNREADY, JobState.READY, JobState.PENDING, JobState.RUNNING, JobState.HELD})


def build_report(ad: Ad, schedd: str, jobs: Iterable[Ad] | None) -> RunReport:
    """The report of a run, from the ad of its DAGMan; `jobs` is ``None`` if they were not queried."""
    state = state_of(ad)
    summary = _summary(str(ad.get("bps_job_summary") or ""))
    labels: dict[str, Counter[JobState]] = {}
    reports = None if jobs is None else _newest(jobs)
    if reports is not None:
        labels = _by_label(reports, summary, state)
        expected = sum(map(Counter.total, labels.values()))
        counts: Counter[JobState] = sum(labels.values(), Counter())
    else:
        counts = _counted(ad, state)
        expected = max(int(ad.get("DAG_NodesTotal") or 0), counts.total(), sum(summary.values()))
        counts[JobState.UNKNOWN] += expected - counts.total()
    return RunReport(
        id=format_id(int(ad["ClusterId"])),
        name=str(ad.get("LongshoreName") or ad.get("bps_run") or ad.get("JobBatchName") or ""),
        path=str(ad.get("LongshorePath") or _folder(ad)),
        service="htcondor",
        state=state,
        expected=expected,
        counts={each: counts[each] for each in JobState},
        labels={label: {each: row[each] for each in JobState} for label, row in labels.items()},
        expected_labels=summary or None,
        global_id=str(ad.get("GlobalJobId") or ""),
        specifics=tuple(_specifics(ad, schedd)),
        operator=str(ad.get("bps_operator") or ad.get("Owner") or ""),
        project=str(ad.get("bps_project") or ""),
        campaign=str(ad.get("bps_campaign") or ""),
        payload=str(ad.get("bps_payload") or ""),
        site=str(ad.get("bps_runsite") or ""),
        user=str(ad.get("Owner") or ""),
        submitted_at=_moment(ad.get("QDate")),
        started_at=_moment(ad.get("JobStartDate")),
        finished_at=_moment(ad.get("CompletionDate") or ad.get("EnteredCurrentStatus")) if state in _OVER else None,
        notes=("its directory is not here: the report is from HTCondor's queue and history",),
        jobs=reports,
    )


def state_of(ad: Ad) -> JobState:
    """State of a run by DAGMan's ad alone."""
    status = ad.get("JobStatus")
    if status != JobStatusCode.COMPLETED:
        return _JOB_STATES.get(int(status), JobState.UNKNOWN) if status is not None else JobState.UNKNOWN
    if ad.get("DAG_Status") == _DAG_REMOVED:
        return JobState.DELETED
    code = ad.get("ExitCode")
    if code is None:
        return JobState.UNKNOWN
    # After a successful final job DAGMan exits with 0, even if other jobs failed.
    return JobState.FAILED if code or ad.get("DAG_NodesFailed") else JobState.SUCCEEDED


def _counted(ad: Ad, state: JobState) -> Counter[JobState]:
    counts: Counter[JobState] = Counter()
    for name, meant in _NODES.items():
        over = state in _OVER and meant in _MOVING
        # Active jobs are gone after DAGMan's end, despite its last counts.
        counts[(JobState.DELETED if state is JobState.DELETED else JobState.UNKNOWN) if over else meant] += int(
            ad.get(name) or 0
        )
    return counts


def _newest(jobs: Iterable[Ad]) -> list[JobReport]:
    """Report of each job, from the newest submission of its node."""
    newest: dict[str, Ad] = {}
    for ad in sorted(jobs, key=lambda ad: int(ad["ClusterId"])):
        if name := str(ad.get("bps_job_name") or ""):
            newest[name] = ad
    return [_job(name, ad) for name, ad in newest.items()]


def _job(name: str, ad: Ad) -> JobReport:
    status, code = int(ad.get("JobStatus") or 0), ad.get("ExitCode")
    state = _JOB_STATES.get(status, JobState.UNKNOWN)
    if status == JobStatusCode.COMPLETED:
        badly = bool(code) or bool(ad.get("ExitBySignal"))
        state = JobState.UNKNOWN if code is None and not badly else JobState.FAILED if badly else JobState.SUCCEEDED
    reason = {JobState.HELD: "HoldReason", JobState.DELETED: "RemoveReason"}.get(state, "")
    host = ad.get("RemoteHost") or ad.get("LastRemoteHost")
    return JobReport(
        name=name,
        label=str(ad.get("bps_job_label") or ""),
        state=state,
        reason=str(ad[reason]) if ad.get(reason) else None,
        attempts=int(ad.get("NumJobStarts") or 0),
        exit_code=int(code) if code is not None and not ad.get("ExitBySignal") else None,
        signal=int(ad["ExitSignal"]) if ad.get("ExitBySignal") and ad.get("ExitSignal") is not None else None,
        host=str(host) if host else None,
        started_at=_moment(ad.get("JobStartDate")),
        finished_at=_moment(ad.get("CompletionDate")),
    )


def _by_label(jobs: Iterable[JobReport], summary: Mapping[str, int], state: JobState) -> dict[str, Counter[JobState]]:
    """Numbers of jobs per label and state; jobs without an ad were never in the queue, or are old."""
    labels: dict[str, Counter[JobState]] = {label: Counter() for label in summary}
    for job in jobs:
        labels.setdefault(job.label, Counter())[job.state] += 1
    unseen = JobState.UNKNOWN if state in _OVER else JobState.UNREADY
    for label, count in summary.items():
        labels[label][unseen] += max(0, count - labels[label].total())
    return labels


def _summary(text: str) -> dict[str, int]:
    """Numbers of jobs per label, from ``label:number;label:number``."""
    found: dict[str, int] = {}
    for part in text.split(";"):
        label, colon, number = part.rpartition(":")
        number = number.strip()
        if colon and number.isdecimal() and len(number) <= _MAX_DIGITS:
            found[label.strip()] = int(number)
    return found


def _folder(ad: Ad) -> str:
    """Directory of a run: DAGMan starts in a folder of a Longshore run, in a BPS run itself."""
    iwd = str(ad.get("Iwd") or "")
    return str(PurePosixPath(iwd).parent) if ad.get("LongshoreRun") and iwd else iwd


def _specifics(ad: Ad, schedd: str) -> Iterable[str]:
    yield f"DAGMan: job {format_id(int(ad['ClusterId']))} of the schedd '{schedd}'"
    if ad.get("DAG_AdUpdateTime"):
        yield f"DAGMan last updated its counts {format_moment(float(ad['DAG_AdUpdateTime']))}"
    if ad.get("JobStatus") == JobStatusCode.HELD:
        yield f"DAGMan itself is held: {ad.get('HoldReason') or 'no reason is given'}"
    if ad.get("JobStatus") == JobStatusCode.REMOVED and ad.get("RemoveReason"):
        yield f"DAGMan was removed: {ad['RemoveReason']}"


def _moment(value: str | float | None) -> float | None:
    return float(value) if value else None
