"""Phases of all jobs of a DAG, compact and serializable."""

from __future__ import annotations

from array import array
from enum import IntEnum
from typing import Any

import msgspec

from longshore.model.states import Cause
from longshore.services.htcondor.events.parse_record import Hold
from longshore.services.htcondor.events.provisioner import ProvisionerState


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
