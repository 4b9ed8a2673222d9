"""Tracks the state of the provisioning job, which starts machines, from its log records."""

from __future__ import annotations

from typing import Final

import msgspec

from longshore.model.run.moment import format_moment
from longshore.model.run.state import JobState
from longshore.services.htcondor.event_codes import Kind
from longshore.services.htcondor.events import parse_record
from longshore.services.htcondor.events.log_reader import Record
from longshore.services.htcondor.render.provisioning import LOG
from longshore.services.htcondor.schedd import ids

_OVER: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED})
_BY_DAGMAN: Final = "Removed by DAGMan"


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """State of the provisioning job."""

    cluster: int
    """HTCondor's cluster number."""
    state: JobState
    since: float
    """Time at which the state began."""
    why: str = ""
    """Reason of the hold, or of the end."""
    with_run: bool = False
    """Whether it was removed because the run is over."""


def submitted(record: Record) -> Provider:
    """State after the job was submitted."""
    return Provider(cluster=record.cluster, state=JobState.PENDING, since=record.at)


def after(before: Provider, record: Record) -> Provider | None:
    """State after a record of the job."""
    state, why = before.state, ""
    if before.state in _OVER:
        return before
    if record.kind == Kind.EXECUTE:
        state = JobState.RUNNING
    elif record.kind in (Kind.EVICTED, Kind.RELEASED, Kind.SHADOW_EXCEPTION):
        state = JobState.PENDING
    elif record.kind == Kind.HELD:
        state, why = JobState.HELD, parse_record.held(record.body).reason
    elif record.kind == Kind.TERMINATED:
        ending = parse_record.terminated(record.body)
        state = JobState.SUCCEEDED if ending.cause is None else JobState.FAILED
        why = ending.reason or ""
    elif record.kind == Kind.ABORTED:
        why = parse_record.words_of(record.body) or "it was removed"
        if why.startswith(_BY_DAGMAN) or parse_record.removed_with_dag(why):
            return with_run(before, record.at)
        state = JobState.DELETED
    else:
        return before
    return Provider(cluster=before.cluster, state=state, since=record.at, why=why)


def with_run(before: Provider | None, at: float) -> Provider | None:
    """State after the end of the run, which ends the job."""
    if before is None or before.state in _OVER:
        return before
    why = f"it was held: {before.why}" if before.state is JobState.HELD else ""
    return Provider(cluster=before.cluster, state=JobState.DELETED, since=at, why=why, with_run=True)


def words(found: Provider | None) -> str:
    """A line for reports."""
    if found is None:
        return "Provisioning: its job is not in the log of the run, so nothing has started machines"
    name = f"Provisioning: job {ids.shown(found.cluster)}"
    since, why = format_moment(found.since), f": {found.why}" if found.why else ""
    if found.with_run:
        return f"{name} was removed with the run, at {since}{why}"
    if found.state is JobState.HELD:
        return f"{name} is HELD since {since}{why}; it starts no machines until it is released (condor_release)"
    if found.state is JobState.FAILED:
        return f"{name} FAILED at {since}{why}; the run goes on with the machines there are (see 'wms/{LOG}')"
    if found.state is JobState.DELETED:
        return f"{name} was removed at {since}{why}; the run goes on with the machines there are"
    if found.state is JobState.SUCCEEDED:
        return f"{name} SUCCEEDED at {since}"
    return f"{name} is {found.state} since {since}"
