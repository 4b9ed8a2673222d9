"""Rows of jobs from what ``oarstat`` and ``oarnodes`` print in JSON, and OAR's states."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from longshore.model.states import Cause
from longshore.services.batch.jobs import AccountRow, QueuePhase, QueueRow, StateTable, TaskId
from longshore_oar.script import INDEX

HELD = "held"
ENDS = ("WALLTIME", "BESTEFFORT_KILL", "FRAG_JOB_REQUEST")
"""Events that tell why OAR ended a job, the one that counts first. Each is a state here, in place of ``Error``."""
STATES = StateTable(
    waiting=("Waiting", "Hold", "toAckReservation", "toLaunch", "Launching", "toError", "Suspended", "Resuming"),
    running=("Running", "Finishing"),
    causes={
        "Terminated": None,
        "FRAG_JOB_REQUEST": Cause.CANCELLED,
        "WALLTIME": Cause.WALLTIME,
        "BESTEFFORT_KILL": Cause.PREEMPTED,
        "Error": Cause.LOST,
    },
    ordinary=frozenset({"Terminated"}),
    suspended=frozenset({"Suspended", "Resuming"}),
    held_reasons=frozenset({HELD}),
)


def read_jobs(output: str) -> list[Mapping[str, Any]]:
    """Return the jobs that ``oarstat -J`` printed; it prints nothing for none."""
    jobs = json.loads(output) if output.strip() else {}
    return list(jobs.values())


def task_of(job: Mapping[str, Any]) -> TaskId:
    """Return the id of a job: that of its array, and its position there, from 0. OAR has no array of one job."""
    is_member = INDEX in (job["command"] or "")
    return TaskId(int(job["array_id"]), int(job["array_index"]) - 1 if is_member else None)


def queue_rows(output: str) -> Iterator[QueueRow]:
    """Return a row per job of the queue."""
    for job in read_jobs(output):
        state = job["state"]
        yield QueueRow(
            id=task_of(job),
            raw_id=str(job["Job_Id"]),
            state=state,
            reason=_reason(state, job["message"] or ""),
            started_at=_moment(job["startTime"]) if STATES.phase(state) is QueuePhase.RUNNING else None,
            node=_node(job),
            name=job["name"] or "",
        )


def account_rows(output: str) -> Iterator[AccountRow]:
    """Return a row per job in the full listing."""
    for job in read_jobs(output):
        status = job["exit_code"]
        started, ended = _moment(job["startTime"]), _moment(job["stopTime"])
        state = _end_state(job)
        yield AccountRow(
            id=task_of(job),
            raw_id=str(job["Job_Id"]),
            state=state,
            state_text=f"{job['state']}, {state}" if state in ENDS else job["state"],
            exit=None if status is None else int(status) >> 8,
            signal=0 if status is None else int(status) & 127,
            started_at=started,
            ended_at=ended,
            run_s=ended - started if started and ended else None,
            node=_node(job),
            reason=job["message"] or "",
            queue_s=max(0.0, started - float(job["submissionTime"])) if started else None,
        )


def cores_per_machine(output: str) -> Mapping[str, int] | None:
    """Return the cores of the largest machine, from ``oarnodes -J``; ``None`` for no machine."""
    nodes = json.loads(output) if output.strip() else {}
    usable = [each for each in nodes.values() if each["state"] != "Dead" and each["type"] == "default"]
    counts = Counter(each["network_address"] for each in usable)
    return {"cpus": max(counts.values())} if counts else None


def _end_state(job: Mapping[str, Any]) -> str:
    events = {event["type"] for event in job.get("events") or ()}
    if job["state"] != "Error":
        return str(job["state"])
    return next((end for end in ENDS if end in events), "Error")


def _reason(state: str, message: str) -> str:
    if state == "Hold":
        return HELD
    # While nothing is wrong, the message repeats the request: "R=1,W=0:5:0,J=B".
    return "" if message.startswith("R=") else message


def _node(job: Mapping[str, Any]) -> str:
    return next(iter(job.get("assigned_network_address") or ()), "")


def _moment(value: object) -> float | None:
    return float(str(value)) if value else None
