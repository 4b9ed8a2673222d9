"""Phases of all jobs of a DAG, compact and serializable."""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import Any, Final

import msgspec

from longshore.model.states import Cause, JobState
from longshore.model.wording import format_moment
from longshore.services.htcondor.codes import EventType
from longshore.services.htcondor.events import log_records
from longshore.services.htcondor.events.log_records import Hold, Record
from longshore.services.htcondor.render.service_nodes import PROVISIONER_LOG
from longshore.services.htcondor.schedd import client

# The provisioning job, which starts machines.


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
        state, why = JobState.HELD, log_records.parse_hold(record.body).reason
    elif record.event_type == EventType.TERMINATED:
        ending = log_records.parse_termination(record.body)
        state = JobState.SUCCEEDED if ending.cause is None else JobState.FAILED
        why = ending.reason or ""
    elif record.event_type == EventType.ABORTED:
        why = log_records.parse_reason(record.body) or "it was removed"
        if why.startswith(_BY_DAGMAN) or log_records.is_removed_with_dag(why):
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
    name = f"Provisioning: job {client.format_id(state.cluster)}"
    since, why = format_moment(state.since), f": {state.reason}" if state.reason else ""
    if state.is_removed_with_run:
        return f"{name} was removed with the run, at {since}{why}"
    if state.state is JobState.HELD:
        return f"{name} is HELD since {since}{why}; it starts no machines until it is released (condor_release)"
    if state.state is JobState.FAILED:
        log = f"{folder}/{PROVISIONER_LOG}"
        return f"{name} FAILED at {since}{why}; the run goes on with the machines there are (see '{log}')"
    if state.state is JobState.DELETED:
        return f"{name} was removed at {since}{why}; the run goes on with the machines there are"
    if state.state is JobState.SUCCEEDED:
        return f"{name} SUCCEEDED at {since}"
    return f"{name} is {state.state} since {since}"


class JobPhase(IntEnum):
    """State of a job's newest attempt."""

    IDLE = 0
    """No attempt is in the queue."""
    PENDING = 1
    RUNNING = 2
    UNDECIDED = 3
    """The attempt left its machine; the job's next step is not known yet."""
    HELD = 4
    OVER = 5


class SavedJobPhases(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "attempts_before": "first",
        "earlier_clusters": "earlier",
        "job_of_cluster": "jobs",
        "queue_seconds": "waited",
        "node_failures": "tries",
        "is_cancelled": "cancelled",
        "early_cancel_at": "told_ahead",
        "has_failures": "failed",
        "provisioner": "provider",
    },
):
    """Serialized form of `JobPhases`: equal names, arrays as bytes."""

    attempts: bytes
    phase: bytes
    since: bytes
    memory: bytes
    cluster: bytes
    attempts_before: bytes
    earlier_clusters: dict[int, list[tuple[int, int]]]
    job_of_cluster: dict[int, int]
    queue_seconds: dict[int, float]
    node_failures: dict[int, int]
    holds: dict[int, Hold]
    causes: dict[int, Cause]
    is_cancelled: bool
    early_cancel_at: float = 0.0
    has_failures: bool = False
    provisioner: ProvisionerState | None = None


class JobPhases:
    """Phases of all jobs, and what the log says of their newest attempts; arrays are indexed by job number."""

    def __init__(self, size: int) -> None:
        self.attempts = array("i", bytes(4 * size))
        """Number of the newest attempt; 0 before the first."""
        self.phase = bytearray(size)
        """A `JobPhase` per job."""
        self.since = array("d", bytes(8 * size))
        """Time at which the phase began."""
        self.memory = array("i", bytes(4 * size))
        """Memory granted to the newest attempt, in MiB; 0 if not known."""
        self.cluster = array("i", bytes(4 * size))
        """HTCondor's cluster number of the newest attempt."""
        self.attempts_before = array("i", bytes(4 * size))
        """Number of attempts before those of that cluster."""
        self.earlier_clusters: dict[int, list[tuple[int, int]]] = {}
        """Pairs of `attempts_before` and `cluster` for earlier clusters of a job."""
        self.job_of_cluster: dict[int, int] = {}
        """Job number per cluster in the queue; -1 for nodes that are no jobs of the run."""
        self.queue_seconds: dict[int, float] = {}
        """Seconds in the queue, for running jobs."""
        self.node_failures: dict[int, int] = {}
        """Failures of nodes that DAGMan itself retries."""
        self.holds: dict[int, Hold] = {}
        """Reasons of the jobs that are held."""
        self.causes: dict[int, Cause] = {}
        """Cause of the last failed attempt, for jobs that are held or not decided yet."""
        self.is_cancelled = False
        """Whether the run was cancelled."""
        self.early_cancel_at = 0.0
        """Time of a cancel that became an event before HTCondor's confirmation was recorded; 0 if none."""
        self.has_failures = False
        """Whether any job failed or was removed since the submission."""
        self.provisioner: ProvisionerState | None = None
        """State of the provisioning job."""

    def save(self) -> SavedJobPhases:
        """Serialize."""
        values: dict[str, Any] = {
            name: bytes(value) if isinstance(value, array | bytearray) else value for name, value in vars(self).items()
        }
        return SavedJobPhases(**values)

    def restore(self, saved: SavedJobPhases) -> None:
        """Restore from the serialized form."""
        for name, value in vars(self).items():
            read = getattr(saved, name)
            if isinstance(value, array):
                read = array(value.typecode, read)
            elif isinstance(value, bytearray):
                read = bytearray(read)
            setattr(self, name, read)

    def job_id(self, job: int) -> str:
        """HTCondor's id of the newest attempt."""
        return f"{self.cluster[job]}.0"

    def batch_id(self, job: int) -> str:
        """Identifier of the newest attempt, unique in the run."""
        return f"{self.cluster[job]}.0-{self.attempts[job]}"

    def add_cluster(self, job: int, cluster: int) -> None:
        """Record the new cluster of a job's next attempts."""
        if self.cluster[job]:
            self.earlier_clusters.setdefault(job, []).append((self.attempts_before[job], self.cluster[job]))
        self.cluster[job] = cluster
        self.attempts_before[job] = self.attempts[job]

    def cluster_and_start(self, job: int, attempt: int) -> tuple[int, int]:
        """Cluster of an attempt, and its start number in that cluster, counted from 1."""
        before, cluster = self.attempts_before[job], self.cluster[job]
        for earlier_before, earlier_cluster in reversed(self.earlier_clusters.get(job, ())):
            if attempt > before:
                break
            before, cluster = earlier_before, earlier_cluster
        return cluster, attempt - before
