"""Turns the events of a run into its state: pure, the same for the engine and for every report.

The state is one mutable packed object with a few bytes per job, because a run may have a million. Nothing in here
decides: what an event means is fixed for ever, and every decision is an event of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any

from longshore.model.event import (
    Deleted,
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.request import Request
from longshore.model.state import Cause, JobState


class Code(IntEnum):
    """State of a job in one byte."""

    UNREADY = 0
    READY = 1
    PENDING = 2
    RUNNING = 3
    UNDECIDED = 4
    """Its attempt ended badly and nobody has said yet whether it is tried again."""
    HELD = 5
    SUCCEEDED = 6
    FAILED = 7
    DELETED = 8
    PRUNED = 9


SHOWN: dict[int, JobState] = {code: JobState.READY if code == Code.UNDECIDED else JobState[code.name] for code in Code}
"""The state users see, per code."""

_ACTIVE = (Code.PENDING, Code.RUNNING)
_OVER = (Code.SUCCEEDED, Code.FAILED, Code.DELETED, Code.PRUNED)


class RunState:
    """Where every job of a run stands.

    Parameters
    ----------
    parents
        Indices of the parents per job; a job's parents come before it.
    labels
        Index of the label per job.
    final
        Whether the last job is the final job: it waits for all others to be over, however they ended.
    """

    def __init__(self, parents: Sequence[Sequence[int]], labels: Sequence[int], *, final: bool = False) -> None:
        size = len(parents)
        self.size = size
        self.final = size - 1 if final else -1
        self.labels = labels
        self.parents = parents
        self.children: list[list[int]] = _children(parents)
        self.code = bytearray(size)
        self.waiting = array("l", map(len, parents))
        """Parents that have not succeeded."""
        self.attempts = array("l", bytes(size * array("l").itemsize))
        """Number of the newest attempt; 0 before the first."""
        self.tries = array("l", bytes(size * array("l").itemsize))
        """Attempts that ended badly since the job was last given a fresh budget."""
        self.lost = array("l", bytes(size * array("l").itemsize))
        """How many of them were lost."""
        self.batches: dict[str, Submitting] = {}
        """Intents that nobody has answered."""
        self.active: dict[int, str] = {}
        """Batch of every job that is handed over or running."""
        self.dying: set[int] = set()
        """Those of them that somebody cancelled."""
        self.undecided: dict[int, Ended | Lost] = {}
        self.requests: dict[int, Request] = {}
        """Requests that a retry changed."""
        self.not_before: dict[int, float] = {}
        self.freed: list[int] = []
        """Jobs that became ready since somebody last took this list."""
        self.counts: list[list[int]] = [[0] * len(Code) for _ in range(max(labels, default=-1) + 1)]
        """Number of jobs per label and code."""
        self.open = size - (1 if final else 0)
        """Jobs, without the final one, that are not over."""
        self.cancelled = False
        self.life: Life | None = None
        self.finished: Finished | None = None
        self.last_end: float | None = None
        for label in labels:
            self.counts[label][Code.UNREADY] += 1
        for job in range(size):
            if not self.waiting[job] and job != self.final:
                self._become(job, Code.READY)
        self._release_final()

    def apply(self, event: Event) -> None:
        """Take one event in."""
        _APPLY[type(event)](self, event)

    def expects(self, job: int, attempt: int) -> bool:
        """Whether this attempt is handed over or running, so that news of it mean something."""
        return 0 <= job < self.size and self.code[job] in _ACTIVE and self.attempts[job] == attempt

    @property
    def over(self) -> bool:
        """Whether every job is over."""
        return not self.open and (self.final < 0 or self.code[self.final] in _OVER)

    def totals(self) -> dict[JobState, int]:
        """Number of jobs per state users see."""
        return shown_counts([sum(column) for column in zip(*self.counts, strict=True)] if self.counts else [])

    def not_succeeded(self) -> list[int]:
        """Every job that is over and did not succeed."""
        return [job for job in range(self.size) if self.code[job] in (Code.FAILED, Code.DELETED, Code.PRUNED)]

    def _become(self, job: int, code: int) -> None:
        before = self.code[job]
        if before == code:
            return
        row = self.counts[self.labels[job]]
        row[before] -= 1
        row[code] += 1
        self.code[job] = code
        if job != self.final:
            self.open += (before in _OVER) - (code in _OVER)
        if code == Code.READY:
            self.freed.append(job)

    def _release_final(self) -> None:
        if self.final >= 0 and not self.open and self.code[self.final] == Code.UNREADY:
            self._become(self.final, Code.READY)

    def _life(self, event: Life) -> None:
        self.life = event
        self.finished = None

    def _submitting(self, event: Submitting) -> None:
        self.batches[event.b] = event
        for job, attempt in event.jobs:
            self._become(job, Code.PENDING)
            self.attempts[job] = attempt
            self.active[job] = event.b
            self.not_before.pop(job, None)

    def _submitted(self, event: Submitted) -> None:
        self.batches.pop(event.b, None)

    def _refused(self, event: Refused) -> None:
        batch = self.batches.pop(event.b, None)
        for job, attempt in event.jobs if event.jobs is not None else batch.jobs if batch else ():
            if self.active.get(job) != event.b or not self.expects(job, attempt):
                continue
            del self.active[job]
            if event.spent:
                self._end_badly(job, Ended(t=event.t, j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why))
            else:
                self.attempts[job] -= 1
                self._take_back(job)
        self._release_final()

    def _take_back(self, job: int) -> None:
        if job in self.dying:
            self.dying.discard(job)
            self._become(job, Code.DELETED)
            self._prune_below(job)
        else:
            self._become(job, Code.READY)

    def _started(self, event: Started) -> None:
        if self.expects(event.j, event.a):
            self._become(event.j, Code.RUNNING)

    def _ended(self, event: Ended) -> None:
        if not self.expects(event.j, event.a):
            return
        self.active.pop(event.j, None)
        self.last_end = event.t
        if event.cause is None:
            self.dying.discard(event.j)
            self._succeed(event.j)
        else:
            self._end_badly(event.j, event)
        self._release_final()

    def _lost(self, event: Lost) -> None:
        if self.expects(event.j, event.a):
            self.active.pop(event.j, None)
            self.lost[event.j] += 1
            self.last_end = event.t
            self._end_badly(event.j, event)
            self._release_final()

    def _end_badly(self, job: int, event: Ended | Lost) -> None:
        self.tries[job] += 1
        if job in self.dying:
            self.dying.discard(job)
            self._become(job, Code.DELETED)
            self._prune_below(job)
        else:
            self.undecided[job] = event
            self._become(job, Code.UNDECIDED)

    def _succeed(self, job: int) -> None:
        self._become(job, Code.SUCCEEDED)
        self.requests.pop(job, None)
        for child in self.children[job]:
            self.waiting[child] -= 1
            if not self.waiting[child] and self.code[child] == Code.UNREADY:
                self._become(child, Code.READY)

    def _retry(self, event: Retry) -> None:
        if self.undecided.pop(event.j, None) is None:
            return
        if event.request is not None:
            self.requests[event.j] = event.request
        if event.not_before is not None:
            self.not_before[event.j] = event.not_before
        self._become(event.j, Code.READY)

    def _failed(self, event: Failed) -> None:
        if self.undecided.pop(event.j, None) is not None:
            self._become(event.j, Code.FAILED)
            self._prune_below(event.j)
            self._release_final()

    def _prune_below(self, job: int) -> None:
        stack = list(self.children[job])
        while stack:
            below = stack.pop()
            if self.code[below] in (Code.UNREADY, Code.READY):
                self._become(below, Code.PRUNED)
                stack.extend(self.children[below])

    def _steer(self, event: Steer) -> None:
        if event.act == "cancel" and not event.select:
            self.cancelled = True
            keep = self.final if event.set.get("final") != "no" else -1
            for job in range(self.size):
                if job != keep:
                    self._delete(job)
            self._release_final()

    def _deleted(self, event: Deleted) -> None:
        for job in event.jobs:
            if self._delete(job):
                self._prune_below(job)
        self._release_final()

    def _delete(self, job: int) -> bool:
        """Cancel a job; whether it is gone at once, because it was not handed over."""
        if self.code[job] in _ACTIVE:
            self.dying.add(job)
        elif self.code[job] not in _OVER:
            self.undecided.pop(job, None)
            self._become(job, Code.DELETED)
            return True
        return False

    def _restarted(self, event: Restarted) -> None:
        self.cancelled = False
        self.finished = None
        for job in event.jobs:
            self.tries[job] = self.lost[job] = 0
            self.not_before.pop(job, None)
            self._become(job, Code.UNREADY)
        for job in event.jobs:
            if not self.waiting[job] and job != self.final:
                self._become(job, Code.READY)
        self._release_final()

    def _finished(self, event: Finished) -> None:
        self.finished = event


def shown_counts(codes: Iterable[int]) -> dict[JobState, int]:
    """Numbers per code as numbers per state users see, all states named."""
    counts = dict.fromkeys(JobState, 0)
    for code, number in enumerate(codes):
        counts[SHOWN[code]] += number
    return counts


def _children(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    # Most jobs of a wide run have no children; they all share one list, which nobody changes.
    nobody: list[int] = []
    children: list[list[int]] = [nobody] * len(parents)
    for child, these in enumerate(parents):
        for parent in these:
            if children[parent] is nobody:
                children[parent] = []
            children[parent].append(child)
    return children


_APPLY: dict[type, Callable[[RunState, Any], None]] = {
    Life: RunState._life,
    Submitting: RunState._submitting,
    Submitted: RunState._submitted,
    Refused: RunState._refused,
    Started: RunState._started,
    Ended: RunState._ended,
    Lost: RunState._lost,
    Retry: RunState._retry,
    Failed: RunState._failed,
    Steer: RunState._steer,
    Deleted: RunState._deleted,
    Restarted: RunState._restarted,
    Finished: RunState._finished,
}
