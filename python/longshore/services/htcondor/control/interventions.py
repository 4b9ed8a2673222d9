"""Interventions in a live run through the schedd and DAGMan: carried out, recorded, and which jobs they miss."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Final

from longshore.contract.service import CancelOutcome, Intervention, JobSelection, RunPaths, Unreachable
from longshore.errors import LongshoreError, SubmissionRefusedError, UnreachableError
from longshore.model.event import Steer
from longshore.rundir.job_table import JobTable, read_header
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode
from longshore.services.htcondor.codes import BPS_FINAL_NODE, CANCEL_REASON, FINAL_NODE
from longshore.services.htcondor.events.event_source import LogEventSource
from longshore.services.htcondor.schedd.client import CondorClient, quoted
from longshore.services.htcondor.schedd.query import parse_pass_thru
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    RecordedIntervention,
    SubmissionRecord,
    read_submissions,
    update_interventions,
)
from longshore.system.host import user_name

_DAGMAN_UNIVERSE = 7


def final_node(submission: DagSubmission) -> str:
    """Return the node of the final job."""
    return BPS_FINAL_NODE if submission.dag else FINAL_NODE


def jobs_below(client: CondorClient, submission: DagSubmission) -> str:
    """Return the constraint of all jobs below DAGMan; groups of BPS have DAGMan jobs of their own."""
    own = f"DAGManJobId =?= {submission.cluster}"
    if not submission.dag or len(submission.logs) < 2:
        return own
    found = client.query_jobs(f"{own} && JobUniverse == {_DAGMAN_UNIVERSE}", ("ClusterId",))
    if isinstance(found, Unreachable) or not found:
        return own
    groups = ", ".join(str(ad["ClusterId"]) for ad in found)
    return f"({own} || member(DAGManJobId, {{{groups}}}))"


def of_all_jobs(client: CondorClient, submission: DagSubmission) -> str:
    """Return the constraint of the jobs of the workflow, without DAGMan jobs and services."""
    of_node = f"JobUniverse != {_DAGMAN_UNIVERSE}" if submission.dag else "LongshoreJob =!= undefined"
    return f"{jobs_below(client, submission)} && {of_node}"


def of_jobs(run: RunPaths, client: CondorClient, submission: DagSubmission, jobs: Iterable[int]) -> str:
    """Return the constraint of some jobs, by number."""
    if submission.dag:
        names = ", ".join(quoted(name) for name in JobTable(run).names_of(jobs).values())
        return f"{jobs_below(client, submission)} && member(DAGNodeName, {{{names}}})"
    return f"DAGManJobId =?= {submission.cluster} && member(LongshoreJob, {{{', '.join(map(str, jobs))}}})"


# An intervention misses selected jobs that DAGMan has yet to submit.


_UNSUBMITTED: Final = (JobCode.UNREADY, JobCode.READY, JobCode.UNDECIDED)
_IN_QUEUE: Final = (JobCode.PENDING, JobCode.RUNNING, JobCode.HELD)


def notes_on_unsubmitted(run: RunPaths, selected: Collection[int], act: str) -> tuple[str, ...]:
    """Notes on selected jobs that an intervention such as ``hold`` did not reach; empty if it reached all."""
    try:
        count = len(unsubmitted_jobs(run, selected))
    except (LongshoreError, OSError) as error:
        return (f"whether DAGMan has yet to submit some of these jobs is not known: {error}",)
    if not count:
        return ()
    jobs_are, pronoun = ("1 of these jobs is", "it") if count == 1 else (f"{count} of these jobs are", "them")
    alternative = "pause the whole run" if act == "hold" else f"{act} the whole run"
    note = (
        f"{jobs_are} not in HTCondor's queue yet, and DAGMan will submit {pronoun}: "
        f"{act} {pronoun} once there, or {alternative}"
    )
    return (note,)


def unsubmitted_jobs(run: RunPaths, selected: Collection[int]) -> set[int]:
    """Selected jobs that DAGMan is yet to submit, without descendants of jobs that were reached.

    Raises `RunUnreadableError` if the events cannot be read.
    """
    jobs = JobTable(run, "parents")
    # The caller knows that the run is in the queue.
    state = replay(jobs, LogEventSource(run, read_submissions(run), lambda: False).events()[0])
    code, selected_jobs = state.code, set(selected)
    # Their removal may not be in the log yet.
    reached = {job for job in selected_jobs if code[job] in _IN_QUEUE}
    missed = set()
    for job, parents in enumerate(jobs.parents):
        if job in reached or code[job] not in _UNSUBMITTED:
            continue
        if job != state.final and any(parent in reached for parent in parents):
            reached.add(job)
        elif job in selected_jobs:
            missed.add(job)
    return missed


_GONE_S: Final = 20.0
"""Seconds to wait for removed jobs to leave the queue; a final job is not waited for."""
_POLL_S: Final = 0.1
_START_S: Final = 15.0
_REASON: Final = CANCEL_REASON


def cancel_run(
    run: RunPaths, client: CondorClient, record: SubmissionRecord, selection: JobSelection, dagman: str
) -> CancelOutcome:
    """Remove DAGMan and its jobs; DAGMan then starts the final job, unless that is skipped.

    If only the final job is left, the cancel is only recorded: removing DAGMan would remove that job too. `selection`
    says whether to skip the final job, and whether HTCondor is to forget the jobs (``-forcex``). `dagman` is a
    constraint for DAGMan's job. Raises `UnreachableError` if the schedd does not answer; then nothing was cancelled.
    """
    forced, also = parse_pass_thru(client, selection.pass_thru)
    last = record.last_submission
    assert last is not None
    below = jobs_below(client, last)
    active = client.query_jobs(below, ("ClusterId", "DAGNodeName"))
    if isinstance(active, Unreachable):
        raise UnreachableError(
            f"'{run.root}' cannot be cancelled: {active.why}",
            hint="Nothing was cancelled. Cancel it again when the schedd answers.",
        )
    skips_final = selection.final_too or forced
    steer = Steer(who=user_name(), act="cancel", set={"final": "no"} if skips_final else {}, t=time.time())
    final = final_node(last)
    if active and all(ad.get("DAGNodeName") == final for ad in active) and not skips_final:
        _record(run, steer)
        return CancelOutcome(ended=0)
    # Recorded first, so that the author is known even if this process is killed right after the removal. A full disk
    # does not prevent the removal, which the log also records.
    with suppress(OSError):
        _record(run, steer, is_accepted=False)
    try:
        removed = _remove_dagman(client, dagman, also)
        if skips_final:
            # DAGMan would start the final job now.
            removed += client.apply_action("RemoveX", dagman, _REASON)
            removed += client.apply_action("RemoveX" if forced else "Remove", below, _REASON)
    except BaseException:
        with suppress(OSError):
            _withdraw(run, steer)
        raise
    if removed:
        with suppress(OSError):
            _confirm(run, steer)
    return CancelOutcome(ended=len(active), alive=_wait_until_gone(client, below, dagman, final=final))


def _remove_dagman(client: CondorClient, dagman: str, also: str) -> int:
    removed = client.apply_action("Remove", f"{dagman}{also}", _REASON)
    if not removed and also:
        raise SubmissionRefusedError(
            "the run is not cancelled: it does not meet the constraint of '--pass-thru'",
            hint="Leave '--pass-thru' out.",
        )
    return removed


def cancel_jobs(run: RunPaths, client: CondorClient, last: DagSubmission, selection: JobSelection) -> CancelOutcome:
    """Remove some jobs of the newest submission; their descendants never run.

    Raises `SubmissionRefusedError` if none is in the queue: DAGMan cannot skip jobs that it has not submitted.
    """
    selected = selected_jobs(run, selection)
    forced, also = parse_pass_thru(client, selection.pass_thru)
    here = f"{of_jobs(run, client, last, selected)}{also}"
    count = client.apply_action("RemoveX" if forced else "Remove", here, _REASON)
    if not count and selected:
        raise SubmissionRefusedError(
            "none of these jobs is in HTCondor's queue: they are over, or DAGMan has not submitted them yet, and will",
            hint="'report' says which. Cancel them when they are in the queue, or the whole run.",
        )
    alive = _wait_until_gone(client, here)
    return CancelOutcome(ended=count, alive=(*alive, *notes_on_unsubmitted(run, selected, "cancel")))


def intervene(run: RunPaths, client: CondorClient, record: SubmissionRecord, intervention: Intervention) -> bool:
    """Hold, release, pause or throttle.

    Raises `SubmissionRefusedError` if HTCondor has no such operation.
    """
    last = record.last_submission
    assert last is not None
    selection, act = intervention.selection, intervention.act
    who, now = user_name(), time.time()
    if act in {"hold", "release"}:
        constraint = (
            of_all_jobs(client, last)
            if selection.everything
            else of_jobs(run, client, last, selected_jobs(run, selection))
        )
        why = f"longshore {act}" + (f": {intervention.set['why']}" if intervention.set.get("why") else "")
        if not client.apply_action(act.capitalize(), constraint, why):
            raise SubmissionRefusedError(
                f"there is nothing to {act}: none of these jobs is in HTCondor's queue"
                + (" and not held" if act == "hold" else " and held"),
                hint="Jobs that DAGMan has not submitted yet can only be paused with the whole run: longshore pause.",
            )
        return True
    if act in {"pause", "unpause"} and selection.everything:
        why = intervention.set.get("why") or f"paused by {who}"
        _retry_until_accepted(lambda: client.pause_dag(last.cluster, halt=why if act == "pause" else None))
        _record(run, Steer(who=who, act=act, set=intervention.set, t=now))
        return True
    if act == "throttle" and selection.everything:
        most = int(intervention.set.get("max", 0))
        _retry_until_accepted(lambda: client.throttle_dag(last.cluster, most))
        _record(run, Steer(who=who, act=act, set=intervention.set, t=now))
        return True
    raise _unsupported_error(act)


def unreached_notes(run: RunPaths, intervention: Intervention) -> tuple[str, ...]:
    """Notes on jobs that a hold did not reach; jobs that are not submitted yet need no release."""
    if intervention.act != "hold":
        return ()
    if not intervention.selection.everything:
        return notes_on_unsubmitted(run, selected_jobs(run, intervention.selection), "hold")
    header = read_header(run)
    # The final job runs after the held ones.
    return notes_on_unsubmitted(run, range(header.jobs - header.final), "hold")


def _unsupported_error(act: str) -> SubmissionRefusedError:
    if act == "set":
        return SubmissionRefusedError(
            "jobs on HTCondor cannot be changed before the run is over: DAGMan has their submit descriptions already",
            hint="'restart --set' changes the requests of jobs that run again, once it is over or cancelled.",
        )
    return SubmissionRefusedError(
        f"DAGMan cannot {act} single labels or jobs of a run",
        hint=f"Without --label and --job, '{act}' is for the whole run; 'category' and 'htcondor.maxJobs' of the site "
        "narrow some of its jobs from the beginning.",
    )


def _retry_until_accepted(order: Callable[[], None]) -> None:
    """Repeat a command until DAGMan accepts it, which takes some seconds after its submission."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            return order()
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def selected_jobs(run: RunPaths, selection: JobSelection) -> list[int]:
    """Numbers of the selected jobs."""
    return JobTable(run).select(names=selection.jobs, labels=selection.labels)


def _wait_until_gone(
    client: CondorClient, below: str, dagman: str = "false", *, final: str = FINAL_NODE
) -> tuple[str, ...]:
    """Notes on jobs still in the queue after a wait, except a running final job."""
    deadline = time.monotonic() + _GONE_S
    while True:
        found = client.query_jobs(
            f"({below}) || ({dagman})", ("ClusterId", "ProcId", "JobStatus", "DAGNodeName", "JobUniverse")
        )
        if isinstance(found, Unreachable):
            raise UnreachableError(f"whether the jobs are gone is not known: {found.why}")
        jobs = [ad for ad in found if "DAGNodeName" in ad]
        if not found or (jobs and all(ad["DAGNodeName"] == final for ad in jobs)):
            return ()
        if time.monotonic() > deadline:
            return tuple(f"job {ad['ClusterId']}.{ad.get('ProcId', 0)} is still in the queue" for ad in found)
        time.sleep(_POLL_S)


def _record(run: RunPaths, steer: Steer, *, is_accepted: bool = True) -> None:
    update_interventions(
        run,
        lambda record: (
            *record.interventions,
            RecordedIntervention(steer=steer, life=len(record.submissions), is_accepted=is_accepted),
        ),
    )


def _confirm(run: RunPaths, steer: Steer) -> None:
    """Mark an intervention as accepted, and move it behind those accepted before, which may be events already."""

    def change(record: SubmissionRecord) -> tuple[RecordedIntervention, ...]:
        noted = [order for order in record.interventions if not order.is_accepted and order.steer == steer]
        life = noted[0].life if noted else len(record.submissions)
        return (
            *(order for order in record.interventions if order not in noted),
            RecordedIntervention(steer=steer, life=life),
        )

    update_interventions(run, change)


def _withdraw(run: RunPaths, steer: Steer) -> None:
    """Delete the record of an intervention that failed."""
    update_interventions(
        run, lambda record: tuple(order for order in record.interventions if order.is_accepted or order.steer != steer)
    )
