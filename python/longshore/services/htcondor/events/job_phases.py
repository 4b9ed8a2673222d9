"""Phases of all jobs of a DAG, compact and serializable."""

from __future__ import annotations

from array import array
from enum import IntEnum

import msgspec

from longshore.model.run.state import Cause
from longshore.services.htcondor.events.parse_record import Hold
from longshore.services.htcondor.events.provisioner import Provider


class Phase(IntEnum):
    """State of a job's newest attempt."""

    IDLE = 0
    """No attempt is in the queue."""
    PENDING = 1
    RUNNING = 2
    OUT = 3
    """The attempt left its machine; the job's next step is not known yet."""
    HELD = 4
    OVER = 5


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Serialized form of `Standing`."""

    attempts: bytes
    phase: bytes
    since: bytes
    memory: bytes
    cluster: bytes
    first: bytes
    earlier: dict[int, list[tuple[int, int]]]
    jobs: dict[int, int]
    waited: dict[int, float]
    tries: dict[int, int]
    holds: dict[int, Hold]
    causes: dict[int, Cause]
    cancelled: bool
    told_ahead: float = 0.0
    failed: bool = False
    provider: Provider | None = None


class Standing:
    """Phases of all jobs, and what the log says of their newest attempts; arrays are indexed by job number."""

    def __init__(self, size: int) -> None:
        self.attempts = array("i", bytes(4 * size))
        """Number of the newest attempt; 0 before the first."""
        self.phase = bytearray(size)
        """A `Phase` per job."""
        self.since = array("d", bytes(8 * size))
        """Time at which the phase began."""
        self.memory = array("i", bytes(4 * size))
        """Memory granted to the newest attempt, in MiB; 0 if not known."""
        self.cluster = array("i", bytes(4 * size))
        """HTCondor's cluster number of the newest attempt."""
        self.first = array("i", bytes(4 * size))
        """Number of attempts before those of that cluster."""
        self.earlier: dict[int, list[tuple[int, int]]] = {}
        """Pairs of `first` and `cluster` for earlier clusters of a job."""
        self.jobs: dict[int, int] = {}
        """Job number per cluster in the queue; -1 for nodes that are no jobs of the run."""
        self.waited: dict[int, float] = {}
        """Seconds in the queue, for running jobs."""
        self.tries: dict[int, int] = {}
        """Failures of nodes that DAGMan itself retries."""
        self.holds: dict[int, Hold] = {}
        """Reasons of the jobs that are held."""
        self.causes: dict[int, Cause] = {}
        """Cause of the last failed attempt, for jobs that are held or not decided yet."""
        self.cancelled = False
        """Whether the run was cancelled."""
        self.told_ahead = 0.0
        """Time of a cancel that became an event before HTCondor's confirmation was recorded; 0 if none."""
        self.failed = False
        """Whether any job failed or was removed since the submission."""
        self.provider: Provider | None = None
        """State of the provisioning job."""

    def kept(self) -> Kept:
        """Serialize."""
        return Kept(
            attempts=self.attempts.tobytes(),
            phase=bytes(self.phase),
            since=self.since.tobytes(),
            memory=self.memory.tobytes(),
            cluster=self.cluster.tobytes(),
            first=self.first.tobytes(),
            earlier=self.earlier,
            jobs=self.jobs,
            waited=self.waited,
            tries=self.tries,
            holds=self.holds,
            causes=self.causes,
            cancelled=self.cancelled,
            told_ahead=self.told_ahead,
            failed=self.failed,
            provider=self.provider,
        )

    def take_up(self, kept: Kept) -> None:
        """Restore from the serialized form."""
        self.attempts = array("i", kept.attempts)
        self.phase = bytearray(kept.phase)
        self.since = array("d", kept.since)
        self.memory = array("i", kept.memory)
        self.cluster = array("i", kept.cluster)
        self.first, self.earlier = array("i", kept.first), kept.earlier
        self.jobs, self.waited, self.tries = kept.jobs, kept.waited, kept.tries
        self.holds, self.causes, self.cancelled = kept.holds, kept.causes, kept.cancelled
        self.told_ahead, self.failed, self.provider = kept.told_ahead, kept.failed, kept.provider

    def name(self, job: int) -> str:
        """HTCondor's id of the newest attempt."""
        return f"{self.cluster[job]}.0"

    def batch(self, job: int) -> str:
        """Identifier of the newest attempt, unique in the run."""
        return f"{self.cluster[job]}.0-{self.attempts[job]}"

    def submitted(self, job: int, cluster: int) -> None:
        """Record the new cluster of a job's next attempts."""
        if self.cluster[job]:
            self.earlier.setdefault(job, []).append((self.first[job], self.cluster[job]))
        self.cluster[job] = cluster
        self.first[job] = self.attempts[job]

    def start_of(self, job: int, attempt: int) -> tuple[int, int]:
        """Cluster of an attempt, and its start number in that cluster, counted from 1."""
        first, cluster = self.first[job], self.cluster[job]
        for before, earlier in reversed(self.earlier.get(job, ())):
            if attempt > first:
                break
            first, cluster = before, earlier
        return cluster, attempt - first
