"""A batch of three members under watch, and a cluster that answers as a test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.services.scripts import member as batch_member

from longshore.contract.executor import MemberEvent
from longshore.model.event import Ended, Lost
from longshore.services.batch.client import AccountingAnswer, PollSchedule
from longshore.services.batch.executor.copies import CopyWatch
from longshore.services.batch.executor.ends import EndGatherer
from longshore.services.batch.executor.monitor import BatchMonitor
from longshore.services.batch.jobs import AccountRow, ClusterFacts, TaskId
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.services.slurm.dialect import SlurmDialect
from longshore.system.sharing import SharedBatch

TAG = "k1-1-1"
DIALECT = SlurmDialect({})


def book(**fields: Any) -> BatchRecord:
    return BatchRecord(tag=TAG, name=TAG, members=((3, 1), (4, 1), (5, 2)), at=1000.0, id=29, **fields)


def watching(records: BatchRecords, **fields: Any) -> BatchMonitor:
    monitor = BatchMonitor(DIALECT, records, PollSchedule())
    made = book(**fields)
    records.write(made, [batch_member(job, attempt=attempt) for job, attempt in made.members])
    monitor.add_batch(made, 10.0)
    return monitor


def read_queue(monitor: BatchMonitor, *rows: str, at: float = 100.0) -> list[MemberEvent]:
    return list(monitor.read_queue(DIALECT.parse_queue("".join(row + "\n" for row in rows)), at))


def row(task: str, state: str, reason: str = "None", node: str = "") -> str:
    return f"{task}|40|{state}|{reason}|N/A|{node}|{TAG}"


def leave_record(records: BatchRecords, name: str, status: int) -> None:
    folder = records.files(TAG).ends
    (folder / f"{name}.began").touch()
    job, attempt = name.split(".")
    text = f'{{"j":{job},"a":{attempt},"status":{status},"run":2.5,"host":"n1"}}'
    (folder / name).write_text(text, "utf-8")


class AnsweringCluster:
    """Answers like Slurm's programs, as a test has it."""

    dialect = DIALECT

    def __init__(self, accounts: Any = None, shown: Any = None) -> None:
        self._accounts = accounts if accounts is not None else {}
        self._shown = shown
        self.to_query: list[list[TaskId]] = []

    def accounting_share(self, purpose: str) -> Any:
        return SharedBatch(Path("/nonexistent"), purpose)

    def ask_accounting(self, share: Any, wanted: Mapping[TaskId, float], *, min_interval_s: float) -> AccountingAnswer:
        self.to_query.append(list(wanted))
        return AccountingAnswer(frozenset(wanted), self._accounts)

    def show_jobs(self, tasks: Iterable[TaskId]) -> Any:
        return dict.fromkeys(tasks, self._shown)


def ends_of(cluster: AnsweringCluster, records: BatchRecords, *, accounting: bool = True) -> EndGatherer:
    facts = ClusterFacts(accounting=accounting)
    copies = CopyWatch(records.files(TAG).run, fence=False, now=0.0)
    return EndGatherer(cluster, records, facts, schedule=PollSchedule(), copies=copies)  # type: ignore[arg-type]


def account(state: str, **fields: Any) -> AccountRow:
    return AccountRow(id=TaskId(29, 0), state=state, state_text=state, exit=0, signal=0, **fields)


def ends_at(ends: EndGatherer, monitor: BatchMonitor, now: float) -> list[Ended | Lost]:
    return list(ends.of(monitor.find_ended(now).to_query, now))
