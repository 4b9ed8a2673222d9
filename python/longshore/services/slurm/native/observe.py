"""Observation of a native Slurm run with as few queries as possible; final answers are cached."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from longshore.contract.context import RunPaths, Unreachable
from longshore.engine.job_wrapper import EndRecord
from longshore.model.run.event import Ended, Lost
from longshore.model.workflow.request import Request
from longshore.services.slurm.arrays.classify_end import classify_end
from longshore.services.slurm.batch_records import BatchRecord, BatchRecords
from longshore.services.slurm.commands.client import SlurmClient
from longshore.services.slurm.commands.parse import AccountRow, QueueRow, TaskId, queue_rows, scontrol_row
from longshore.services.slurm.commands.states import QueuePhase, queue_phase
from longshore.services.slurm.native.derive_events import Seen
from longshore.world.files.atomic import read_record, write_atomically
from longshore.world.processes.query_cache import seconds_since_boot

_ENDS: Final = "native-ends.json"
_OLD_S: Final = 5.0
"""Accepted age of the queue's answer, in seconds."""
_LAG_S: Final = 30.0
"""Seconds accounting may lag behind the jobs' own records."""
_LOOKS: Final = 20
_LOOK_S: Final = 0.1
"""Seconds before each new look at an answer that another process is fetching."""
_SETTLE_S: Final = 10.0
"""A job that leaves the queue this soon after submission may not have been in it yet."""


class NativeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a native run, written once all of its jobs are in the queue.

    `at` is the time of submission. `accounting` says whether the cluster keeps accounts. `collector` is the job that
    comes last. `roots` are the jobs without parents: they are held until all others are submitted.
    """

    at: float
    accounting: bool
    collector: int | None = None
    roots: tuple[int, ...] = ()


class FinalEnds(msgspec.Struct, kw_only=True):
    """Cache of final answers from Slurm.

    `ends` holds the ends of jobs by index. `asked` is when accounting was last queried, by batch tag.
    """

    ends: dict[int, Ended | Lost] = msgspec.field(default_factory=dict)
    asked: dict[str, float] = msgspec.field(default_factory=dict)


class NativeObserver:
    """One observation of a native run."""

    def __init__(self, run: RunPaths, client: SlurmClient, native: NativeRecord) -> None:
        self._run = run
        self._client = client
        self._native = native
        self._records = BatchRecords(run)

    def seen(self, requests: Sequence[Request]) -> dict[int, Seen] | Unreachable:
        """Return the state of each job, given the jobs' requests."""
        rows = self.queue()
        if isinstance(rows, Unreachable):
            return rows
        found: dict[int, Seen] = {}
        settled = self._settled()
        for book in self._records.all():
            records, begun = self._records.files(book.tag).read_ends(set(book.members))
            accounts = self._accounts(book, rows, records, settled)
            if isinstance(accounts, Unreachable):
                return accounts
            for position, (job, attempt) in enumerate(book.members):
                task = book.task(position)
                assert task is not None
                row, record = rows.get(task), records.get((job, attempt))
                end = settled.ends.get(job) or self._end(
                    book, (job, attempt), task, row=row, record=record, accounts=accounts
                )
                if isinstance(end, Unreachable):
                    return end
                if end is not None and _is_settled(record, accounts, task, keeps=self._native.accounting):
                    settled.ends[job] = end
                running = row is not None and queue_phase(row.state) is QueuePhase.RUNNING
                found[job] = Seen(
                    tag=book.tag,
                    id=str(task),
                    at=book.at,
                    request=requests[job],
                    began=running or (job, attempt) in begun,
                    end=end,
                )
        self._keep(settled)
        return found

    def _settled(self) -> FinalEnds:
        """Read the cache; it can be rebuilt, so losing it does no harm."""
        return read_record(self._run.cache / _ENDS, FinalEnds) or FinalEnds()

    def _keep(self, settled: FinalEnds) -> None:
        text = msgspec.json.encode(settled)
        path = self._run.cache / _ENDS
        with suppress(OSError):
            if path.exists() and path.read_bytes() == text:
                return
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, text)

    def _end(
        self,
        book: BatchRecord,
        attempt: tuple[int, int],
        task: TaskId,
        *,
        row: QueueRow | None,
        record: EndRecord | None,
        accounts: Mapping[TaskId, AccountRow] | None,
    ) -> Ended | Lost | Unreachable | None:
        """Determine how a job ended; ``None`` while it is in the queue."""
        account = (accounts or {}).get(task)
        over = row is None or queue_phase(row.state) is QueuePhase.OVER
        if record is None:
            if not over or accounts is None or (row is None and time.time() - book.at < _SETTLE_S):
                return None
            if account is None:
                shown = self._client.show_job(task)
                if isinstance(shown, Unreachable):
                    return shown
                account = scontrol_row(task, shown) if shown is not None else None
            if account is None or queue_phase(account.state) is not QueuePhase.OVER:
                why = f"job {task} is gone from Slurm, and left no record of its end"
                return Lost(j=attempt[0], a=attempt[1], why=why, t=time.time())
        state = row.state if row is not None and over else ""
        found = classify_end(attempt, record=record, state=state, account=account, memory_b=book.memory_b)
        return msgspec.structs.replace(found, t=found.end or book.at)

    def _accounts(
        self,
        book: BatchRecord,
        rows: Mapping[TaskId, QueueRow],
        records: Mapping[tuple[int, int], EndRecord],
        settled: FinalEnds,
    ) -> dict[TaskId, AccountRow] | Unreachable | None:
        """Query accounting where the jobs' own records are incomplete; ``None`` when it was queried just now."""
        if not self._native.accounting or book.id is None:
            return {}
        wanted = [
            attempt
            for position, attempt in enumerate(book.members)
            if attempt[0] not in settled.ends
            if (record := records.get(attempt)) is None or record.status
            if (row := rows.get(book.task(position) or TaskId(0))) is None or queue_phase(row.state) is QueuePhase.OVER
        ]
        if not wanted:
            return {}
        if 0 <= time.time() - settled.asked.get(book.tag, 0.0) < _OLD_S:
            return None
        settled.asked[book.tag] = time.time()
        return self._client.query_accounting([TaskId(book.id)])

    def queue(self) -> dict[TaskId, QueueRow] | Unreachable:
        """Return the queue's rows, queried by one process of this host for all."""
        handed_over = seconds_since_boot() - max(0.0, time.time() - self._native.at)
        told = self._client.queue(max_age_s=_OLD_S, not_before=handed_over)
        for _ in range(_LOOKS):
            if told is not None:
                break
            time.sleep(_LOOK_S)
            told = self._client.queue(max_age_s=_OLD_S, not_before=handed_over)
        if told is None or told.text is None:
            return Unreachable(why=told.why if told else "somebody else is asking Slurm at this moment")
        return {row.id: row for row in queue_rows(told.text)}


def _is_settled(
    record: EndRecord | None, accounts: Mapping[TaskId, AccountRow] | None, task: TaskId, *, keeps: bool
) -> bool:
    """Whether an end is final: accounting may lag behind, but not for long."""
    if record is None or not record.status or not keeps:
        return True
    return task in (accounts or {}) or time.time() - record.end > _LAG_S
