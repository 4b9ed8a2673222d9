"""Turns the events of a run into its state: pure, the same for the engine and for every report.

The state is one mutable packed object with a few bytes per job, because a run may have a million. Nothing in here
decides: what an event means is fixed for ever, and every decision is an event of its own. It is one file because what
one event does to a job, another takes back.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from longshore.engine.barriers import Barriers
from longshore.engine.codes import ACTIVE, MOVING, OVER, SHOWN, Code, shown_counts
from longshore.engine.policy import COUNTED_APART
from longshore.engine.steering import Steered, apply_steer, ask
from longshore.model.dag import sparse_children
from longshore.model.event import (
    Deleted,
    Ended,
    Failed,
    Finished,
    Life,
    Lost,
    News,
    Passed,
    Refused,
    Restarted,
    Retry,
    Sealed,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.ordering import Barrier
from longshore.model.request import Request
from longshore.model.state import Cause, JobState, run_state

__all__ = ["SHOWN", "Code", "RunState"]

_ENDED_BADLY = (Code.FAILED, Code.DELETED, Code.PRUNED)

# What is done several times per job is done with plain numbers: comparing members of an enumeration takes most of the
# time of a fold otherwise.
_IS_ACTIVE: Final = bytes(code in ACTIVE for code in Code)
_IS_OVER: Final = bytes(code in OVER for code in Code)
_UNREADY: Final = int(Code.UNREADY)
_READY: Final = int(Code.READY)
_PENDING: Final = int(Code.PENDING)
_RUNNING: Final = int(Code.RUNNING)
_SUCCEEDED: Final = int(Code.SUCCEEDED)


class RunState(Steered):
    """Where every job of a run stands.

    Parameters
    ----------
    parents
        Indices of the parents per job; a job's parents come before it.
    labels
        Index of the label per job.
    final
        Whether the last job is the final job: it waits for all others to be over, however they ended.
    barriers
        What stands between groups of jobs that run one after another.
    """

    def __init__(
        self,
        parents: Sequence[Sequence[int]],
        labels: Sequence[int],
        *,
        final: bool = False,
        barriers: Sequence[Barrier] = (),
    ) -> None:
        super().__init__()
        size = len(parents)
        self.size = size
        self.final = size - 1 if final else -1
        self.labels = labels
        self.parents = parents
        self.children: list[list[int]] = sparse_children(parents)
        self.code = bytearray(size)
        self.waiting = array("l", map(len, parents))
        """Parents that have not succeeded, and barriers that are not open."""
        self.attempts = array("l", bytes(size * array("l").itemsize))
        """Number of the newest attempt; 0 before the first."""
        self.tries = array("l", bytes(size * array("l").itemsize))
        """Attempts that ended badly since the job was last given a fresh budget."""
        self.lost = array("l", bytes(size * array("l").itemsize))
        """How many of them were lost."""
        self.apart: dict[tuple[int, Cause], int] = {}
        """Bad ends per job and cause, for the causes with a rule of their own."""
        self.batches: dict[str, Submitting] = {}
        """Intents that nobody has answered."""
        self.active: dict[int, str] = {}
        """Batch of every job that is handed over or running."""
        self.dying: set[int] = set()
        """Those of them that somebody cancelled."""
        self.identities: dict[int, Mapping[str, tuple[str, ...]]] = {}
        """Which members of each resource the newest attempt of a job was given, such as which GPUs."""
        self.undecided: dict[int, Ended | Lost] = {}
        self.requests: dict[int, Request] = {}
        """Requests that a retry changed."""
        self.not_before: dict[int, float] = {}
        self.delays: dict[int, float] = {}
        """How long each of these waits, should the time of day not be what it was."""
        self.freed: list[int] = []
        """Jobs that became ready since somebody last took this list."""
        self.left: list[tuple[int, float | None]] | None = None
        """Jobs that ceased to be active since somebody last took this list, with the run time of those that ran to
        their end; nobody has asked for it while it is ``None``."""
        self.counts: list[list[int]] = [[0] * len(Code) for _ in range(max(labels, default=-1) + 1)]
        """Number of jobs per label and code."""
        self.open = size - (1 if final else 0)
        """Jobs, without the final one, that are not over."""
        self.cancelled = False
        self.life: Life | None = None
        self.finished: Finished | None = None
        self.last_end: float | None = None
        self.barriers = Barriers(barriers)
        for job, these in self.barriers.before.items():
            self.waiting[job] += len(these)
        for label in labels:
            self.counts[label][Code.UNREADY] += 1
        for job, waiting in enumerate(self.waiting):
            if not waiting and job != self.final:
                self._ready(job)
        self._release_final()

    def apply(self, event: News) -> None:
        """Take one event in."""
        _APPLY[type(event)](self, event)
        if self.barriers.crossed:
            self._pass_barriers()

    def _pass_barriers(self) -> None:
        """See what the jobs that are over by now let go on, or shut out."""
        crossed = self.barriers.crossed
        # Not by recursion: what is shut out is over as well, and there may be thousands of groups.
        while crossed:
            job = crossed.pop()
            for barrier, opens in self.barriers.passed(job, self.code[job]):
                for below in barrier.before:
                    if not opens:
                        self._prune(below)
                        continue
                    self.waiting[below] -= 1
                    if not self.waiting[below] and self.code[below] == _UNREADY:
                        self._ready(below)
        self._release_final()

    def expects(self, job: int, attempt: int) -> bool:
        """Whether this attempt is handed over or running, so that news of it mean something."""
        return 0 <= job < self.size and self.attempts[job] == attempt and _IS_ACTIVE[self.code[job]] == 1

    @property
    def over(self) -> bool:
        """Whether every job is over."""
        return not self.open and (self.final < 0 or self.code[self.final] in OVER)

    @property
    def stuck(self) -> bool:
        """Whether all that is left is held, or waits for what is."""
        return not self.over and not any(row[code] for row in self.counts for code in MOVING)

    def overall(self) -> JobState:
        """The state of the run."""
        if self.stuck and not self.cancelled:
            return JobState.HELD
        return run_state(self.totals(), expected=self.size, cancelled=self.cancelled)

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
        if code == _READY:
            self.freed.append(job)
        if _IS_OVER[code] or _IS_OVER[before]:  # once per job, and all else several times
            self.open += (job != self.final) * (_IS_OVER[before] - _IS_OVER[code])
            if _IS_OVER[code] and job in self.barriers.behind:
                self.barriers.crossed.append(job)

    def _ready(self, job: int) -> None:
        for event in self.set_later.pop(job, ()):
            ask(self, job, event)
        self._become(job, Code.HELD if job in self.held else Code.READY)

    def hold(self, job: int) -> None:
        """Keep a job from starting, now or again; one that is over stays over."""
        if self.code[job] not in OVER:
            self.held.add(job)
            if self.code[job] in (Code.UNREADY, Code.READY):
                self._become(job, Code.HELD)

    def release(self, job: int) -> None:
        """Let a job go on that somebody held."""
        self.held.discard(job)
        if self.code[job] == Code.HELD:
            self._become(job, Code.UNREADY)
            if not self.waiting[job] and job != self.final:
                self._become(job, Code.READY)
            self._release_final()

    def _release_final(self) -> None:
        if self.final >= 0 and not self.open and self.code[self.final] == _UNREADY:
            self._ready(self.final)

    def _life(self, event: Life) -> None:
        self.life = event
        self.finished = None

    def _sealed(self, event: Sealed) -> None:
        """What it says is about files, and obeyed by whoever reads them."""

    def _submitting(self, event: Submitting) -> None:
        self.batches[event.b] = event
        attempts, active, batch = self.attempts, self.active, event.b
        for job, attempt in event.jobs:
            self._become(job, _PENDING)
            attempts[job] = attempt
            active[job] = batch
        if self.not_before:
            for job, _ in event.jobs:
                self.not_before.pop(job, None)
        if event.ids or self.identities:
            for job, _ in event.jobs:
                self.identities.pop(job, None)
            self.identities.update(event.ids)

    def _submitted(self, event: Submitted) -> None:
        self.batches.pop(event.b, None)

    def _refused(self, event: Refused) -> None:
        batch = self.batches.pop(event.b, None)
        for job, attempt in event.jobs if event.jobs is not None else batch.jobs if batch else ():
            if self.active.get(job) != event.b or not self.expects(job, attempt):
                continue
            self._leave(job)
            if event.spent:
                end = Ended(t=event.t, j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why, hopeless=event.hopeless)
                self._end_badly(job, end)
            else:
                self.attempts[job] -= 1
                self._take_back(job)
        self._release_final()

    def _leave(self, job: int, run_s: float | None = None) -> None:
        self.active.pop(job, None)
        if self.left is not None:
            self.left.append((job, run_s))

    def _take_back(self, job: int) -> None:
        if job in self.dying:
            self.dying.discard(job)
            self._become(job, Code.DELETED)
            self._prune_below(job)
        else:
            self._ready(job)

    def _started(self, event: Started) -> None:
        if self.expects(event.j, event.a):
            self._become(event.j, _RUNNING)

    def _ended(self, event: Ended) -> None:
        if not self.expects(event.j, event.a):
            return
        # One that failed says nothing of how long others take, and must not have more of its kind started ahead.
        self._leave(event.j, event.run_s if event.cause is None else None)
        self.last_end = event.t
        if event.cause is None:
            self.dying.discard(event.j)
            self._succeed(event.j)
        else:
            self._end_badly(event.j, event)
        self._release_final()

    def _passed(self, event: Passed) -> None:
        """Take in what comes to the same as its submission, its start and its end."""
        job = event.j
        self.attempts[job] = event.a
        self.not_before.pop(job, None)
        self.identities.pop(job, None)
        self.dying.discard(job)
        self._leave(job, event.run_s)
        self.last_end = event.t
        self._succeed(job)
        self._release_final()

    def _lost(self, event: Lost) -> None:
        if self.expects(event.j, event.a):
            self._leave(event.j)
            self.lost[event.j] += 1
            self.last_end = event.t
            self._end_badly(event.j, event)
            self._release_final()

    def _end_badly(self, job: int, event: Ended | Lost) -> None:
        self.tries[job] += 1
        if isinstance(event, Ended) and event.cause in COUNTED_APART:
            self.apart[job, event.cause] = self.apart.get((job, event.cause), 0) + 1
        if job in self.dying:
            self.dying.discard(job)
            self._become(job, Code.DELETED)
            self._prune_below(job)
        else:
            self.undecided[job] = event
            self._become(job, Code.UNDECIDED)

    def _succeed(self, job: int) -> None:
        self._become(job, _SUCCEEDED)
        self.requests.pop(job, None)
        waiting, code = self.waiting, self.code
        for child in self.children[job]:
            waiting[child] = left = waiting[child] - 1
            if not left and code[child] == _UNREADY:
                self._ready(child)

    def _retry(self, event: Retry) -> None:
        if self.undecided.pop(event.j, None) is None:
            return
        if event.request is not None:
            self.requests[event.j] = event.request
        if event.not_before is not None:
            self.not_before[event.j] = event.not_before
            if event.t:
                self.delays[event.j] = max(0.0, event.not_before - event.t)
        self._ready(event.j)

    def _failed(self, event: Failed) -> None:
        # A manager that holds jobs may give up on one that it was to try again.
        given_up = 0 <= event.j < self.size and self.code[event.j] == Code.HELD
        if self.undecided.pop(event.j, None) is not None or given_up:
            self.held.discard(event.j)
            self._become(event.j, Code.FAILED)
            self._prune_below(event.j)
            if event.aborts:
                self.paused = ""
                for job in range(self.size):
                    if job != self.final:
                        self._delete(job)
            self._release_final()

    def _prune(self, job: int) -> None:
        """Give a job up that waits for what has failed, and all that waits for it."""
        if self.code[job] in (Code.UNREADY, Code.READY, Code.HELD):
            self._become(job, Code.PRUNED)
            self._prune_below(job)

    def _prune_below(self, job: int) -> None:
        stack = list(self.children[job])
        while stack:
            below = stack.pop()
            # One that is held can never run either, and would keep the run from its end.
            if self.code[below] in (Code.UNREADY, Code.READY, Code.HELD):
                self._become(below, Code.PRUNED)
                stack.extend(self.children[below])

    def _steer(self, event: Steer) -> None:
        apply_steer(self, event)
        if event.act == "cancel" and not event.select:
            self.cancelled = True
            # What is left, the final job perhaps, is to come to its end.
            self.paused = ""
            if self.final >= 0:
                self.release(self.final)
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
        if self.code[job] in ACTIVE:
            self.dying.add(job)
        elif self.code[job] not in OVER:
            self.undecided.pop(job, None)
            self._become(job, Code.DELETED)
            return True
        return False

    def _restarted(self, event: Restarted) -> None:
        self.cancelled = False
        self.paused = ""
        self.finished = None
        for job in event.jobs:
            if self.code[job] == _SUCCEEDED:
                self._take_success_back(job)
            self.tries[job] = self.lost[job] = 0
            self.not_before.pop(job, None)
            # What it asks for by now stays, and so do the ends that made it ask for more.
            self.apart.pop((job, Cause.PREEMPTED), None)
            self.held.discard(job)
            self._become(job, Code.UNREADY)
        for barrier, change in self.barriers.count_again(self.code):
            for job in barrier.before:
                self._wait_for_more(job, change)
        for job in sorted(event.jobs):
            if job == self.final:
                continue
            if not self.waiting[job]:
                self._ready(job)
            elif self.barriers.is_shut(job) or any(self.code[parent] in _ENDED_BADLY for parent in self.parents[job]):
                # Whoever left out what it waits for must not keep the run from its end.
                self._become(job, Code.PRUNED)
        self._release_final()

    def _take_success_back(self, job: int) -> None:
        for child in self.children[job]:
            self._wait_for_more(child, 1)

    def _wait_for_more(self, job: int, number: int) -> None:
        self.waiting[job] += number
        if self.waiting[job] and self.code[job] == _READY:
            self._become(job, _UNREADY)

    def _finished(self, event: Finished) -> None:
        self.finished = event


_APPLY: dict[type, Callable[[RunState, Any], None]] = {
    Life: RunState._life,
    Sealed: RunState._sealed,
    Submitting: RunState._submitting,
    Submitted: RunState._submitted,
    Refused: RunState._refused,
    Started: RunState._started,
    Ended: RunState._ended,
    Passed: RunState._passed,
    Lost: RunState._lost,
    Retry: RunState._retry,
    Failed: RunState._failed,
    Steer: RunState._steer,
    Deleted: RunState._deleted,
    Restarted: RunState._restarted,
    Finished: RunState._finished,
}
