"""Tracks the state of the provisioning job, which starts machines, from its log records."""

from __future__ import annotations

from typing import Final

import msgspec

from longshore.model.states import JobState
from longshore.model.wording import format_moment
from longshore.services.htcondor.event_codes import EventType
from longshore.services.htcondor.events import parse_record
from longshore.services.htcondor.events.log_reader import Record
from longshore.services.htcondor.render.provisioning import LOG
from longshore.services.htcondor.schedd import ids

_OVER: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED})
_BY_DAGMAN: Final = "Removed by DAGMan"


class ProvisionerState(
    msgspec.Struct, frozen=True, kw_only=True, rename={"reason": "why", "is_removed_with_run": "with_run"}
):
    """State of the provisioning job."""

    cluster: int
    """HTCondor's cluster number."""
    state: JobState
    since: float
    """Time at which the state began."""
    reason: str = ""
    """Reason of the hold, or of the end."""
    is_removed_with_run: bool = False
    """Whether it was removed because the run is over."""


def submitted_state(record: Record) -> ProvisionerState:
    """State after the job was submitted."""
    return ProvisionerState(cluster=record.cluster, state=JobState.PENDING, since=record.at)


def next_state(before: ProvisionerState, record: Record) -> ProvisionerState | None:
    """State after a record of the job."""
    state, why = before.state, ""
    if before.state in _OVER:
        return before
    if record.event_type == EventType.EXECUTE:
        state = JobState.RUNNING
    elif record.event_type in (EventType.EVICTED, EventType.RELEASED, EventType.SHADOW_EXCEPTION):
        state = JobState.PENDING
    elif record.event_type == EventType.HELD:
        state, why = JobState.HELD, parse_record.parse_hold(record.body).reason
    elif record.event_type == EventType.TERMINATED:
        ending = parse_record.parse_termination(record.body)
        state = JobState.SUCCEEDED if ending.cause is None else JobState.FAILED
        why = ending.reason or ""
    elif record.event_type == EventType.ABORTED:
        why = parse_record.parse_reason(record.body) or "it was removed"
        if why.startswith(_BY_DAGMAN) or parse_record.is_removed_with_dag(why):
            return end_with_run(before, record.at)
        state = JobState.DELETED
    else:
        return before
    return ProvisionerState(cluster=before.cluster, state=state, since=record.at, reason=why)


def end_with_run(before: ProvisionerState | None, at: float) -> ProvisionerState | None:
    """State after the end of the run, which ends the job."""
    if before is None or before.state in _OVER:
        return before
    why = f"it was held: {before.reason}" if before.state is JobState.HELD else ""
    return ProvisionerState(
        cluster=before.cluster, state=JobState.DELETED, since=at, reason=why, is_removed_with_run=True
    )


def status_line(state: ProvisionerState | None, folder: str = "wms") -> str:
    """A line for reports; `folder` is that of the DAG, relative to the run directory."""
    if state is None:
        return "Provisioning: its job is not in the log of the run, so nothing has started machines"
    name = f"Provisioning: job {ids.format_id(state.cluster)}"
    since, why = format_moment(state.since), f": {state.reason}" if state.reason else ""
    if state.is_removed_with_run:
        return f"{name} was removed with the run, at {since}{why}"
    if state.state is JobState.HELD:
        return f"{name} is HELD since {since}{why}; it starts no machines until it is released (condor_release)"
    if state.state is JobState.FAILED:
        return f"{name} FAILED at {since}{why}; the run goes on with the machines there are (see '{folder}/{LOG}')"
    if state.state is JobState.DELETED:
        return f"{name} was removed at {since}{why}; the run goes on with the machines there are"
    if state.state is JobState.SUCCEEDED:
        return f"{name} SUCCEEDED at {since}"
    return f"{name} is {state.state} since {since}"
