"""Events of a native run, from observations of its jobs with as few queries as possible; final answers are cached."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import DECODE_ERRORS
from longshore.model.event import Deleted, Ended, Event, Failed, Lost, Started, Steer, Submitted, Submitting
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.rundir.batch_records import EndRecord
from longshore.rundir.run_directory import read_cached, write_cached
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.ends import classify_end
from longshore.services.batch.jobs import AccountRow, QueuePhase, QueueRow, TaskId, find_row
from longshore.services.batch.records import BatchRecord, BatchRecords
from longshore.system.sharing import seconds_since_boot

# Events of observed jobs.


class ObservedJob(msgspec.Struct, frozen=True, kw_only=True):
    """Observed state of one job.

    `tag` is its batch's, `id` is the workload manager's. `at` is the time of submission, in seconds since the
    epoch. `began` says whether it runs or ran, and `started_at` since when it runs, where that is known. `end` is
    ``None`` while it has not ended, or its end is unknown.
    """

    tag: str
    id: str
    at: float
    request: Request
    began: bool = False
    started_at: float | None = None
    end: Ended | Lost | None = None


class Cancellation(msgspec.Struct, frozen=True, kw_only=True):
    """A user's cancellation of the run: ``wms/native-cancelled.json``."""

    who: str
    at: float
    final_too: bool = False


def derive_events(
    parents: Sequence[Sequence[int]],
    final: int,
    observed_jobs: Mapping[int, ObservedJob],
    cancelled: Cancellation | None,
) -> Iterator[Event]:
    """Derive the events of a run, parents before children.

    A job counts as dispatched once all its parents have succeeded: until then it waits in the queue for nothing but
    these. Descendants of a failed job are never started, because the workload manager cancels them.

    `parents` holds the indices of each job's parents, which come before it. `final` is the index of the final job; -1
    without one.
    """
    succeeded: set[int] = set()
    closed: set[int] = set()
    """Jobs that are over, or can never start."""
    cancelled_ends: list[Event] = []
    for job, parents_of_job in enumerate(parents):
        if job == final:
            ready = len(closed) == job and not (cancelled and cancelled.final_too)
        else:
            ready = succeeded.issuperset(parents_of_job)
        if not ready:
            if job != final and any(each in closed and each not in succeeded for each in parents_of_job):
                closed.add(job)
            continue
        observed = observed_jobs[job]
        yield from _submission_events(job, observed)
        if observed.end is None:
            continue
        closed.add(job)
        if cancelled and _was_cancelled(observed.end):
            cancelled_ends.append(observed.end)
            continue
        yield observed.end
        if isinstance(observed.end, Ended) and observed.end.cause is None:
            succeeded.add(job)
        elif isinstance(observed.end, Ended) and observed.end.cause is Cause.CANCELLED:
            why = observed.end.reason or "a person removed it"
            yield Deleted(jobs=(job,), why=why, t=observed.end.t)
        else:
            yield Failed(j=job, why=_failure_reason(observed.end), t=observed.end.t)
    if cancelled:
        to_final = {"final": "no"} if cancelled.final_too else {}
        yield Steer(who=cancelled.who, act="cancel", set=to_final, t=cancelled.at)
        yield from cancelled_ends


def _submission_events(job: int, observed: ObservedJob) -> Iterator[Event]:
    batch = f"{observed.tag}.{job}"
    yield Submitting(b=batch, tag=observed.tag, jobs=((job, 1),), request=observed.request, t=observed.at)
    yield Submitted(b=batch, id=observed.id, t=observed.at)
    end = observed.end
    ran = isinstance(end, Ended) and (end.exit is not None or end.signal is not None)
    if observed.began or ran:
        host, at = (end.host, end.start) if isinstance(end, Ended) else (None, observed.started_at)
        yield Started(j=job, a=1, host=host, at=at, t=at or observed.at)


def _was_cancelled(end: Ended | Lost) -> bool:
    return isinstance(end, Lost) or end.cause in (Cause.CANCELLED, Cause.SIGNAL)


def _failure_reason(end: Ended | Lost) -> str:
    if isinstance(end, Lost):
        return end.why
    reply = end.reason or (f"exit code {end.exit}" if end.exit is not None else f"signal {end.signal}")
    return f"{reply}; jobs of a native run are not tried again"


def group_arrays(
    keys: Sequence[tuple[int, tuple[int, ...]]], can_join: Sequence[bool], max_array: int
) -> list[list[int]]:
    """Group jobs into arrays, parents before children.

    These are jobs of one profile with the same parents, and jobs of one profile each of which waits for the jobs at its
    own place in other arrays.

    `keys` holds the profile and parents of each job, which come before it. `can_join` says whether a job may be in an
    array; `max_array` is the largest size of an array.
    """
    counts = Counter(keys)
    found: list[list[int]] = []
    placements: list[tuple[int, int]] = []
    """Array of each job, and its place in that array."""
    cached_answer: dict[tuple[int, tuple[int, ...]] | tuple[int, tuple[int, ...], str], int] = {}
    for job, key in enumerate(keys):
        profile, parents = key
        parents_of_job, at = (
            [placements[parent][0] for parent in parents],
            {placements[parent][1] for parent in parents},
        )
        name: tuple[int, tuple[int, ...]] | tuple[int, tuple[int, ...], str] = key
        aligned_key = (profile, tuple(parents_of_job), "beside")
        is_alone = counts[key] == 1 and len(at) == 1 and len(set(parents_of_job)) == len(parents_of_job)
        if is_alone and all(len(found[each]) > 1 for each in parents_of_job):
            array = found[cached_answer[aligned_key]] if aligned_key in cached_answer else []
            name = aligned_key if at == {len(array)} and len(array) < max_array else key
        group = cached_answer.get(name)
        if group is None or len(found[group]) >= max_array or not can_join[job]:
            group = len(found)
            found.append([])
            if can_join[job]:
                cached_answer[name] = group
        placements.append((group, len(found[group])))
        found[group].append(job)
    return found


# Queries.


_ENDS: Final = "native-ends.json"
_MAX_AGE_S: Final = 5.0
"""Accepted age of the queue's answer, in seconds."""
_LAG_S: Final = 30.0
"""Seconds accounting may lag behind the jobs' own records."""
_CACHE_READS: Final = 20
_CACHE_READ_PAUSE_S: Final = 0.1
"""Seconds before each new look at an answer that another process is fetching."""
_APPEARANCE_S: Final = 10.0
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
    """Cache of final answers.

    `ends` holds the ends of jobs by index. `asked` is when accounting was last queried, by batch tag.
    """

    ends: dict[int, Ended | Lost] = msgspec.field(default_factory=dict)
    asked: dict[str, float] = msgspec.field(default_factory=dict)


class NativeObserver:
    """One observation of a native run."""

    def __init__(self, run: RunPaths, client: BatchClient, native: NativeRecord) -> None:
        self._run = run
        self._client = client
        self._states = client.dialect.states
        self._native = native
        self._records = BatchRecords(run)

    def observe_jobs(self, requests: Sequence[Request]) -> dict[int, ObservedJob] | Unreachable:
        """Return the state of each job, given the jobs' requests."""
        rows = self.queue()
        if isinstance(rows, Unreachable):
            return rows
        if damaged := self._records.damaged():
            return Unreachable(why=f"which jobs it has is not known, because '{damaged[0]}' is damaged")
        found: dict[int, ObservedJob] = {}
        cache = self._read_cache()
        for batch_record in self._records.all():
            records, started = self._records.files(batch_record.tag).read_ends(set(batch_record.members))
            accounts = self._accounts(batch_record, rows, records, cache)
            if isinstance(accounts, Unreachable):
                return accounts
            for position, (job, attempt) in enumerate(batch_record.members):
                task = batch_record.task(position)
                assert task is not None
                record = records.get((job, attempt))
                never_started = record is None and (job, attempt) not in started
                row = find_row(rows, task, self._states) if never_started else rows.get(task)
                end = cache.ends.get(job) or self._end(
                    batch_record,
                    (job, attempt),
                    task,
                    row=row,
                    record=record,
                    began=not never_started,
                    accounts=accounts,
                )
                if isinstance(end, Unreachable):
                    return end
                if end is not None and _is_settled(record, accounts, task, has_accounting=self._native.accounting):
                    cache.ends[job] = end
                running = row is not None and self._states.phase(row.state) is QueuePhase.RUNNING
                found[job] = ObservedJob(
                    tag=batch_record.tag,
                    id=str(task),
                    at=batch_record.at,
                    request=requests[job],
                    began=running or (job, attempt) in started,
                    # Of a job that waits, the queue has the start that it expects.
                    started_at=row.started_at if row is not None and running else None,
                    end=end,
                )
        self._write_cache(cache)
        return found

    def _read_cache(self) -> FinalEnds:
        """Read the cache; it can be rebuilt, so losing it does no harm."""
        try:
            return msgspec.json.decode(read_cached(self._run, _ENDS), type=FinalEnds)
        except DECODE_ERRORS:
            return FinalEnds()

    def _write_cache(self, cache: FinalEnds) -> None:
        text = msgspec.json.encode(cache)
        with suppress(OSError):
            if read_cached(self._run, _ENDS) == text:
                return
            write_cached(self._run, _ENDS, text)

    def _end(
        self,
        batch_record: BatchRecord,
        attempt: tuple[int, int],
        task: TaskId,
        *,
        row: QueueRow | None,
        record: EndRecord | None,
        began: bool,
        accounts: Mapping[TaskId, AccountRow] | None,
    ) -> Ended | Lost | Unreachable | None:
        """Determine how a job ended; ``None`` while it is in the queue."""
        known = accounts or {}
        account = known.get(task) if record is not None else find_row(known, task, self._states)
        is_over = row is None or self._states.phase(row.state) is QueuePhase.OVER
        state = row.state if row is not None and is_over else ""
        if record is None:
            if not is_over or accounts is None or (row is None and time.time() - batch_record.at < _APPEARANCE_S):
                return None
            if account is None:
                shown = self._client.show_job(task)
                if isinstance(shown, Unreachable):
                    return shown
                account = shown
            if account is None and not began and self._client.dialect.forgets_unstarted:
                state = self._states.cancelled
            elif account is None or self._states.phase(account.state) is not QueuePhase.OVER:
                why = f"job {task} is gone from {self._client.dialect.title}, and left no record of its end"
                return Lost(j=attempt[0], a=attempt[1], why=why, t=time.time())
        found = classify_end(
            attempt,
            self._client.dialect,
            record=record,
            state=state,
            account=account,
            memory_b=batch_record.memory_b,
        )
        return msgspec.structs.replace(found, t=found.end or batch_record.at)

    def _accounts(
        self,
        batch_record: BatchRecord,
        rows: Mapping[TaskId, QueueRow],
        records: Mapping[tuple[int, int], EndRecord],
        cache: FinalEnds,
    ) -> dict[TaskId, AccountRow] | Unreachable | None:
        """Query accounting where the jobs' own records are incomplete; ``None`` when it was queried just now."""
        if not self._native.accounting or batch_record.id is None:
            return {}
        to_query = [
            attempt
            for position, attempt in enumerate(batch_record.members)
            if attempt[0] not in cache.ends
            if (record := records.get(attempt)) is None or record.status
            if (row := rows.get(batch_record.task(position) or TaskId(0))) is None
            or self._states.phase(row.state) is QueuePhase.OVER
        ]
        if not to_query:
            return {}
        if 0 <= time.time() - cache.asked.get(batch_record.tag, 0.0) < _MAX_AGE_S:
            return None
        cache.asked[batch_record.tag] = time.time()
        return self._client.query_accounting([TaskId(batch_record.id)])

    def queue(self) -> dict[TaskId, QueueRow] | Unreachable:
        """Return the queue's rows, queried by one process of this host for all."""
        submitted_at = seconds_since_boot() - max(0.0, time.time() - self._native.at)
        answer = self._client.queue(max_age_s=_MAX_AGE_S, not_before=submitted_at)
        for _ in range(_CACHE_READS):
            if answer is not None:
                break
            time.sleep(_CACHE_READ_PAUSE_S)
            answer = self._client.queue(max_age_s=_MAX_AGE_S, not_before=submitted_at)
        if answer is None or answer.text is None:
            return Unreachable(why=answer.why if answer else "another process is querying the queue")
        return {row.id: row for row in self._client.rows(answer)}


def _is_settled(
    record: EndRecord | None, accounts: Mapping[TaskId, AccountRow] | None, task: TaskId, *, has_accounting: bool
) -> bool:
    """Whether an end is final: accounting may lag behind, but not for long."""
    if record is None or not record.status or not has_accounting:
        return True
    return task in (accounts or {}) or time.time() - record.end > _LAG_S
