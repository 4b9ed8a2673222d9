"""Records of HTCondor's log, and the run that they describe."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.model.event import Event
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JOB_STATES, RunState
from longshore.services.htcondor.events.dag_jobs import DagNodes, NodeRetries
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.events.log_records import Record
from longshore.services.htcondor.events.to_events import EventBuilder

REQUEUED = b"Job was evicted.\n\t(0) Job terminated and was requeued\n\t(1) Normal termination (return value 3)"
OOM = b"Job was evicted. JobCode 21 Subcode 102\n\t(0) CPU times\n\tReason: Error from slot1: memory usage exceeded"
ENDED = b"Job terminated.\n\t(1) Normal termination (return value 0)"
HELD = b"Job was held.\n\tthe tape is full (by user u)\n\tCode 1 Subcode 0"
BY_RULE = b"Job was aborted.\n\tThe job attribute PeriodicRemove expression 'x' evaluated to TRUE"
BY_HAND = b"Job was aborted.\n\tvia condor_rm (by user u)"
WITH_DAG = b"Job was aborted.\n\tDAG Removed: User removed scheduler job from queue. (by user u)"


class RecordedRun:
    """A run of some jobs, a chain unless told otherwise, as records tell it."""

    def __init__(
        self, size: int = 2, *, final: bool = False, chain: bool = True, retries: int = 0, removals: int = 0
    ) -> None:
        self.phases = JobPhases(size)
        self.builder = EventBuilder(
            self.phases,
            nodes=DagNodes(size, final=final),
            retries=NodeRetries(
                failures=dict.fromkeys(range(size), retries) if retries else {},
                removals=dict.fromkeys(range(size), removals) if removals else {},
            ),
        )
        last = size - 1 if final else size
        parents = [(job - 1,) if chain and 0 < job < last else () for job in range(size)]
        self.state = RunState(parents, [0] * size, final=final)
        self.events: list[Event] = []
        self.at = 100.0

    def take(self, kind: int, cluster: int, body: bytes = b"") -> RecordedRun:
        self.at += 1
        self.apply(self.builder.convert(Record(kind, cluster, 0, self.at, body)))
        return self

    def apply(self, events: Iterable[Event]) -> None:
        for event in events:
            self.events.append(event)
            apply_event(self.state, event)

    def submit(self, node: str, cluster: int) -> RecordedRun:
        return self.take(0, cluster, f'Job submitted\n    [ DAGNodeName = "{node}" ]'.encode())

    def start(self, cluster: int, memory: int = 100) -> RecordedRun:
        return self.take(1, cluster, f"Job executing\n\tSlotName: slot1_1@node7\n\tMemory = {memory}".encode())

    def end(self, cluster: int, exit_code: int = 0) -> RecordedRun:
        return self.take(5, cluster, f"Job terminated.\n\t(1) Normal termination (return value {exit_code})".encode())

    def finish(self, *, is_removed: bool = False, failures: dict[int, str] | None = None) -> RecordedRun:
        self.apply(self.builder.end_run(self.at, is_removed=is_removed, submit_failures=failures or {}))
        return self

    @property
    def shown(self) -> str:
        return " ".join(JOB_STATES[code].value for code in self.state.code)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]
