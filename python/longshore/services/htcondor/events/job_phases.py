"""Where every job of a DAG stands, in a few bytes per job that can be written down and taken up again."""

from __future__ import annotations

from array import array
from enum import IntEnum

import msgspec

from longshore.model.run.state import Cause
from longshore.services.htcondor.events.parse_record import Hold
from longshore.services.htcondor.events.provisioner import Provider


class Phase(IntEnum):
    """What is known of a job's newest attempt."""

    IDLE = 0
    """There is none in the queue."""
    PENDING = 1
    RUNNING = 2
    OUT = 3
    """It was taken from its machine, and nobody knows yet what comes next."""
    HELD = 4
    OVER = 5


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """All of it as it is written down; see `Standing`."""

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
    """Where every job stands.

    Parameters
    ----------
    size
        Number of jobs.

    Attributes
    ----------
    attempts
        Number of the newest attempt; 0 before the first.
    phase, since
        A `Phase`, and when it began.
    memory
        Memory that the newest attempt was given, in MiB; 0 is not known.
    cluster, first
        What HTCondor calls it, and how many attempts there were before those of that cluster.
    earlier
        The same of clusters before, for jobs that had several.
    jobs
        The job per cluster in the queue; -1 for what is none of ours.
    waited
        How long those waited that run.
    tries
        Bad ends of nodes that DAGMan itself submits again.
    holds
        Why those are held that are.
    causes
        Why the last attempt ended badly of those that nobody has decided about, or that are held.
    cancelled
        Whether the run was cancelled.
    told_ahead
        When that was ordered, where it was told before HTCondor was known to have taken it.
    failed
        Whether any job failed, or was removed, since the run was handed over.
    provider
        Where the job stands that starts machines.
    """

    def __init__(self, size: int) -> None:
        self.attempts = array("i", bytes(4 * size))
        self.phase = bytearray(size)
        self.since = array("d", bytes(8 * size))
        self.memory = array("i", bytes(4 * size))
        self.cluster = array("i", bytes(4 * size))
        self.first = array("i", bytes(4 * size))
        self.earlier: dict[int, list[tuple[int, int]]] = {}
        self.jobs: dict[int, int] = {}
        self.waited: dict[int, float] = {}
        self.tries: dict[int, int] = {}
        self.holds: dict[int, Hold] = {}
        self.causes: dict[int, Cause] = {}
        self.cancelled = False
        self.told_ahead = 0.0
        self.failed = False
        self.provider: Provider | None = None

    def kept(self) -> Kept:
        """All of it, to be written down."""
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
        """Go on from what was written down."""
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
        """What HTCondor calls the newest attempt."""
        return f"{self.cluster[job]}.0"

    def batch(self, job: int) -> str:
        """What tells the newest attempt from any other of the run."""
        return f"{self.cluster[job]}.0-{self.attempts[job]}"

    def submitted(self, job: int, cluster: int) -> None:
        """Take note that HTCondor calls the attempts to come by another number."""
        if self.cluster[job]:
            self.earlier.setdefault(job, []).append((self.first[job], self.cluster[job]))
        self.cluster[job] = cluster
        self.first[job] = self.attempts[job]

    def start_of(self, job: int, attempt: int) -> tuple[int, int]:
        """The cluster of an attempt, and which of that cluster's starts it was, counted from 1."""
        first, cluster = self.first[job], self.cluster[job]
        for before, earlier in reversed(self.earlier.get(job, ())):
            if attempt > first:
                break
            first, cluster = before, earlier
        return cluster, attempt - first
