"""Runs in schedds, found, reported and cancelled by id, user or attributes, without their directories."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from longshore.contract.service import CancelOutcome, RemoteRuns, RunPaths, RunSearch, Unreachable
from longshore.errors import ServiceError, SubmissionRefusedError, UnreachableError, UsageError
from longshore.model.report import JobReport, RunReport
from longshore.model.states import JobState
from longshore.model.wording import format_moment
from longshore.services.htcondor.codes import JobStatusCode
from longshore.services.htcondor.schedd.client import CLOCKS_S, Ad, CondorClient, CondorId, format_id, parse_id, quoted

# A report from ClassAds of DAGMan and its jobs is as old as the ads: DAGMan updates its own from time to time. States
# that they do not give are UNKNOWN.


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


_DIRECTORY: Final = ("Iwd", "LongshorePath", "LongshoreRun")
_FORCE: Final = "-forcex"
"""Option that drops unreachable jobs from the queue."""
_DAY_S: Final = 86_400
_MIN_DAYS: Final = 2.0
"""Minimum of days of history to search for a run with a given id, as in BPS."""
_DAGMAN: Final = "JobUniverse == 7 && DAGManJobId =?= undefined"
"""Constraint for DAGMan jobs that no other DAGMan submitted."""
_RUNS: Final = f'{_DAGMAN} && (bps_isjob =?= "True" || LongshoreRun =!= undefined)'
"""Constraint for DAGMan jobs of runs: of Longshore, started or not, and of BPS."""


def find_directory(condor_id: CondorId, *, everywhere: bool) -> Path | None:
    """The directory of the run with this DAGMan job; ``None`` for another job, or another host's run.

    `everywhere` asks all schedds that the collector knows. Raises `ServiceError` if the schedd does not answer.
    """
    everywhere = everywhere and not condor_id.schedd
    return first_directory(_clients(condor_id.schedd, everywhere=everywhere), condor_id, skip_failures=everywhere)


def first_directory(clients: Iterable[CondorClient], condor_id: CondorId, *, skip_failures: bool) -> Path | None:
    """The same, from the first of the schedds that knows the job.

    `skip_failures` skips schedds that do not answer; otherwise `ServiceError` is raised.
    """
    constraint = f"{_id_constraint(condor_id)} && LongshoreRun =!= undefined"
    for client in clients:
        try:
            ads = _find_ads(client, constraint, condor_id)
        except ServiceError:
            if skip_failures:
                continue
            raise
        folders = (folder for ad in ads for folder in _folders(ad))
        if directory := next((folder for folder in folders if RunPaths(folder).card.is_file()), None):
            return directory
    return None


def _folders(ad: Ad) -> Iterator[Path]:
    """Folders that may be the directory of a run; DAGMan starts in a folder of it, or of one of its submissions."""
    if ad.get("Iwd"):
        yield Path(str(ad["Iwd"])).parent
    if ad.get("LongshorePath"):
        yield Path(str(ad["LongshorePath"]))


def _find_ads(client: CondorClient, constraint: str, condor_id: CondorId) -> list[Ad]:
    """Ads of a job, from the queue, else from the history."""
    answer = client.query_jobs(constraint, _DIRECTORY)
    if isinstance(answer, Unreachable):
        raise UnreachableError(f"the run of job '{condor_id.cluster}' cannot be looked up: {answer.why}")
    return answer or client.query_history(constraint, _DIRECTORY)


def query_runs(search: RunSearch) -> RemoteRuns:
    """Reports of the runs that match a search, from the queues and the histories of schedds.

    Raises `ServiceError` if HTCondor is not usable, or if the only schedd searched does not answer.
    """
    condor_id = parse_id(search.reference) if search.reference else None
    if search.reference and condor_id is None:
        return RemoteRuns()
    CondorClient().require_constraint(search.pass_thru)
    everywhere = search.everywhere and not (condor_id and condor_id.schedd)
    reports: list[RunReport] = []
    notes: list[str] = []
    for client in _clients(condor_id.schedd if condor_id else "", everywhere=everywhere):
        try:
            reports += _schedd_reports(client, search, condor_id)
        except (ServiceError, UnreachableError) as error:
            if not everywhere:
                raise
            notes.append(error.message)
    return RemoteRuns(reports=tuple(reports), notes=tuple(notes))


def cancel_run(search: RunSearch) -> CancelOutcome:
    """Remove the DAGMan job of a run with a given id.

    With ``-forcex`` the schedd forgets the job (``RemoveX``). Raises `SubmissionRefusedError` if no queued job matches.
    """
    condor_id = parse_id(search.reference)
    if condor_id is None:
        raise SubmissionRefusedError(f"'{search.reference}' is not an id of HTCondor")
    is_forced, also = parse_pass_thru(CondorClient(), search.pass_thru)
    constraint = f"{_search_constraint(search, condor_id)}{also}"
    everywhere = search.everywhere and not condor_id.schedd
    count = 0
    for client in _clients(condor_id.schedd, everywhere=everywhere):
        try:
            count += client.apply_action("RemoveX" if is_forced else "Remove", constraint, "longshore cancel")
        except UnreachableError:
            if not everywhere:
                raise
    if not count:
        raise SubmissionRefusedError(
            f"no job '{search.reference}' in a queue matches the request",
            hint="Check the id; --global searches all queues, and --skip-require-bps accepts jobs that are no runs.",
        )
    return CancelOutcome(ended=count, alive=("still alive: DAGMan is in the queue",))


def parse_pass_thru(client: CondorClient, text: str) -> tuple[bool, str]:
    """Parse ``--pass-thru`` of ``cancel`` as BPS does: whether to forget jobs, and an additional constraint."""
    words = text.split()
    rest = " ".join(word for word in words if word != _FORCE)
    if rest.startswith("-"):
        raise UsageError(
            f"'--pass-thru' has '{rest}', which removing a run from HTCondor does not know",
            hint=f"It knows {_FORCE} (HTCondor forgets jobs whose machines do not answer), and constraints.",
        )
    client.require_constraint(rest)
    return _FORCE in words, f" && ({rest})" if rest else ""


def _clients(schedd: str, *, everywhere: bool) -> Iterator[CondorClient]:
    if not everywhere:
        yield CondorClient(schedd=schedd)
        return
    yield from (CondorClient(schedd=name) for name in CondorClient().schedds())


def _schedd_reports(client: CondorClient, search: RunSearch, condor_id: CondorId | None) -> Iterator[RunReport]:
    constraint = _search_constraint(search, condor_id)
    answer = client.query_jobs(constraint, DAGMAN_ATTRIBUTES)
    if isinstance(answer, Unreachable):
        raise UnreachableError(answer.why)
    days = max(search.days, _MIN_DAYS) if condor_id else search.days
    ads = list(answer)
    if days and not (condor_id and ads):
        since = f"EnteredCurrentStatus < {int(time.time() - days * _DAY_S)}"
        ads += client.query_history(constraint, DAGMAN_ATTRIBUTES, most=1 if condor_id else -1, since=since)
    schedd = client.schedd().name
    for ad in ads:
        yield build_report(ad, schedd, _node_ads(client, ad) if condor_id else None)


def _node_ads(client: CondorClient, dagman: Ad) -> list[Ad]:
    """Ads of a DAGMan's jobs, in the queue and in the history."""
    constraint = f"DAGManJobId =?= {dagman['ClusterId']} && JobUniverse =!= 7"
    answer = client.query_jobs(constraint, JOB_ATTRIBUTES)
    if isinstance(answer, Unreachable):
        raise UnreachableError(answer.why)
    since = f"EnteredCurrentStatus < {int(dagman.get('QDate', 0)) - CLOCKS_S}"
    return [*answer, *client.query_history(constraint, JOB_ATTRIBUTES, most=-1, since=since)]


def _search_constraint(search: RunSearch, condor_id: CondorId | None) -> str:
    if condor_id:
        return f"{_id_constraint(condor_id)} && {_RUNS}" if search.runs_only else _id_constraint(condor_id)
    if search.pass_thru:
        return f"{_DAGMAN} && ({search.pass_thru})"
    if search.user:
        return f"{_RUNS} && (Owner == {quoted(search.user)} || bps_operator =?= {quoted(search.user)})"
    return _RUNS


def _id_constraint(condor_id: CondorId) -> str:
    return f"ClusterId == {condor_id.cluster}" + (
        f" && QDate == {condor_id.qdate}" if condor_id.qdate is not None else ""
    )
