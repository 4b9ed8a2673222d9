"""State of a run: every job and attempt, how their states change, and what snapshots show of them; pure.

The state is one mutable packed object with a few bytes per job, because a run may have a million. `apply_event` maps an
event to a transition; what a transition does to children and descendants (release, pruning) is here.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

from longshore.model.event import Ended, Finished, Life, Lost, Steer, Submitting
from longshore.model.report import Snapshot
from longshore.model.states import COUNTED_CAUSES, Cause, JobState, state_of_run
from longshore.model.tasks import Adjacency, children_of
from longshore.model.workflow import Barrier, Request

# Job codes: internal states of a job in a byte each, and the job states that users see for them.


class JobCode(IntEnum):
    """State of a job in one byte."""

    UNREADY = 0
    READY = 1
    PENDING = 2
    RUNNING = 3
    UNDECIDED = 4
    """A bad end of its attempt, before the decision whether to retry."""
    HELD = 5
    SUCCEEDED = 6
    FAILED = 7
    DELETED = 8
    PRUNED = 9


JOB_STATES: dict[int, JobState] = {
    code: JobState.READY if code == JobCode.UNDECIDED else JobState[code.name] for code in JobCode
}
"""State that users see, per code."""

ACTIVE = (JobCode.PENDING, JobCode.RUNNING)
OVER = (JobCode.SUCCEEDED, JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED)
BAD_ENDS = (JobCode.FAILED, JobCode.DELETED, JobCode.PRUNED)
"""Ends that are not success."""
UNBLOCKED = (JobCode.READY, JobCode.PENDING, JobCode.RUNNING, JobCode.UNDECIDED)
"""States that change without a person's help."""


def count_states(codes: Iterable[int]) -> dict[JobState, int]:
    """Convert counts per code to counts per state that users see, with all states named."""
    counts = dict.fromkeys(JobState, 0)
    for code, number in enumerate(codes):
        counts[JOB_STATES[code]] += number
    return counts


# Barriers: hold jobs behind the groups that run before theirs, and count the jobs still missing; pure. A barrier is not
# a job: nothing is started for it and no state counts it. It is passed at the moment when the last job before it is
# over. The reason is in decision 0040.


class Barriers:
    """Barriers of a run, and the jobs that each still waits for.

    Attributes
    ----------
    all
        The barriers.
    barriers_after
        Numbers of the barriers that wait for a job, per job that ends a group.
    barriers_before
        Numbers of the barriers that a job waits for, per job that begins a group.
    ended_jobs
        Jobs that are over since this list was last taken.
    """

    def __init__(self, barriers: Sequence[Barrier]) -> None:
        self.all = tuple(barriers)
        self.barriers_after: dict[int, list[int]] = {}
        self.barriers_before: dict[int, list[int]] = {}
        for number, barrier in enumerate(self.all):
            for job in barrier.after:
                self.barriers_after.setdefault(job, []).append(number)
            for job in barrier.before:
                self.barriers_before.setdefault(job, []).append(number)
        self._left = [len(barrier.after) for barrier in self.all]
        self._shut: set[int] = set()
        self.ended_jobs: list[int] = []

    def __bool__(self) -> bool:
        """Return whether the run has barriers."""
        return bool(self.all)

    def record_end(self, job: int, code: int) -> Iterator[tuple[Barrier, bool]]:
        """Yield the barriers that open (true), or shut for good (false), because a job ended with a code."""
        for number in self.barriers_after.get(job, ()):
            barrier = self.all[number]
            if barrier.blocking and code != JobCode.SUCCEEDED:
                if number not in self._shut:
                    self._shut.add(number)
                    yield barrier, False
                continue
            self._left[number] -= 1
            if not self._left[number]:
                yield barrier, True

    def is_shut(self, job: int) -> bool:
        """Return whether a job waits for a group that has failed."""
        return any(number in self._shut for number in self.barriers_before.get(job, ()))

    def find_blocking(self, job: int) -> list[Barrier]:
        """Return the barriers that keep a job from starting."""
        return [self.all[number] for number in self.barriers_before.get(job, ()) if self._left[number]]

    def recount(self, code: Sequence[int]) -> Iterator[tuple[Barrier, int]]:
        """Recount missing jobs after a restart, from the code per job; yield each changed barrier and its change.

        The change is by how much more each job behind the barrier waits now.
        """
        self.ended_jobs.clear()
        self._shut.clear()
        for number, barrier in enumerate(self.all):
            done = (JobCode.SUCCEEDED,) if barrier.blocking else OVER
            left = sum(code[job] not in done for job in barrier.after)
            if barrier.blocking and any(code[job] in BAD_ENDS for job in barrier.after):
                self._shut.add(number)
            before, self._left[number] = self._left[number], left
            if bool(before) != bool(left):
                yield barrier, bool(left) - bool(before)


# Operations done several times per job use plain numbers: otherwise comparing members of an enumeration takes most
# of the time of a replay.
_IS_ACTIVE: Final = bytes(code in ACTIVE for code in JobCode)
_IS_OVER: Final = bytes(code in OVER for code in JobCode)
_UNREADY: Final = int(JobCode.UNREADY)
_READY: Final = int(JobCode.READY)
_SUCCEEDED: Final = int(JobCode.SUCCEEDED)


class AttemptState:
    """Attempts of each job: their number, the active one, and the counts of bad ends."""

    def __init__(self, size: int) -> None:
        self.attempts = _zeros(size)
        """Number of the newest attempt; 0 before the first."""
        self.tries = _zeros(size)
        """Attempts that ended badly since the job last got a fresh budget."""
        self.lost = _zeros(size)
        """Number of these that were lost."""
        self.cause_counts: dict[tuple[int, Cause], int] = {}
        """Bad ends per job and cause, for the causes with a retry rule of their own."""
        self.spent_counts: dict[tuple[int, Cause], int] = {}
        """The same since the job last got a fresh budget."""
        self.batches: dict[str, Submitting] = {}
        """Batches that the workload manager has not answered."""
        self.active: dict[int, str] = {}
        """Batch per submitted or running job."""
        self.cancelling: set[int] = set()
        """Active jobs that are being cancelled."""
        self.identities: dict[int, Mapping[str, tuple[str, ...]]] = {}
        """Identities of each resource that the newest attempt of a job holds, such as its GPUs."""
        self.undecided_ends: dict[int, Ended | Lost] = {}
        """Bad ends before their retry decision."""
        self.requests: dict[int, Request] = {}
        """Requests that a retry changed."""
        self.not_before: dict[int, float] = {}
        """Earliest start time of each waiting retry."""
        self.delays: dict[int, float] = {}
        """Delay of each waiting retry, in case the time of day has jumped."""


class ActiveInterventions:
    """Users' interventions in a live run that are still in effect."""

    def __init__(self) -> None:
        self.paused = ""
        """Why nothing is started; empty when the run is not paused."""
        self.throttles: dict[int, int] = {}
        """Most jobs that may be active at once, per label and (`steering.WHOLE_RUN`) in all."""
        self.held: set[int] = set()
        """Held jobs: not started, and not retried if they run."""
        self.set_values: dict[int, Mapping[str, str]] = {}
        """What users set of a job's request, as text per key; it changes the request of its profile."""
        self.delayed_sets: dict[int, list[Steer]] = {}
        """Requests that were set for active jobs, for their next attempts."""
        self.set_retries: dict[int, int] = {}
        """Retries of a job, in place of the number of its profile."""
        self.orders: set[str] = set()
        """Names of the files of orders that were carried out."""


class RunState(AttemptState, ActiveInterventions):
    """State of every job of a run.

    Parameters
    ----------
    parents
        Indices of the parents per job; a job's parents come before it.
    labels
        Index of the label per job.
    final
        Whether the last job is the final job: it waits for all others to be over, however they ended.
    barriers
        The barriers between groups of jobs that run one after another.
    """

    def __init__(
        self,
        parents: Sequence[Sequence[int]],
        labels: Sequence[int],
        *,
        final: bool = False,
        barriers: Sequence[Barrier] = (),
    ) -> None:
        AttemptState.__init__(self, len(parents))
        ActiveInterventions.__init__(self)
        self.size = size = len(parents)
        self.final = size - 1 if final else -1
        self.labels = labels
        self.parents = parents = parents if isinstance(parents, Adjacency) else Adjacency(parents)
        self.children = children_of(parents)
        self.code = bytearray(size)
        self.waiting = array("i", parents.counts())
        """Number of parents that have not succeeded and of barriers that are not open, per job."""
        self.counts: list[list[int]] = [[0] * len(JobCode) for _ in range(max(labels, default=-1) + 1)]
        """Number of jobs per label and code."""
        self.open_jobs = size - (1 if final else 0)
        """Number of jobs, without the final one, that are not over."""
        self.newly_ready: list[int] = []
        """Jobs that became ready since the scheduler last took this list."""
        self.newly_inactive: list[tuple[int, float | None]] | None = None
        """Jobs that ceased to be active since the scheduler last took this list, with the run times of successes;
        ``None`` without a scheduler.
        """
        self.is_cancelled = False
        self.life: Life | None = None
        self.finish_event: Finished | None = None
        self.last_end: float | None = None
        self.barriers = Barriers(barriers)
        for job, these in self.barriers.barriers_before.items():
            self.waiting[job] += len(these)
        self._initialise()

    def _initialise(self) -> None:
        """Make all jobs ready that wait for nothing, at once because they may be hundreds of thousands."""
        code, labels = self.code, self.labels
        self.newly_ready = [job for job, waiting in enumerate(self.waiting) if not waiting and job != self.final]
        for job in self.newly_ready:
            code[job] = _READY
        for label, number in Counter(labels).items():
            self.counts[label][_UNREADY] = number
        for label, number in Counter([labels[job] for job in self.newly_ready]).items():
            self.counts[label][_READY] = number
            self.counts[label][_UNREADY] -= number
        self.release_final()

    def is_active_attempt(self, job: int, attempt: int) -> bool:
        """Return whether this attempt is submitted or running, so that its events count."""
        return 0 <= job < self.size and self.attempts[job] == attempt and _IS_ACTIVE[self.code[job]] == 1

    @property
    def is_over(self) -> bool:
        """Whether every job is over."""
        return not self.open_jobs and (self.final < 0 or self.code[self.final] in OVER)

    @property
    def is_stuck(self) -> bool:
        """Whether every remaining job is held or waits for a held job."""
        return not self.is_over and not any(row[code] for row in self.counts for code in UNBLOCKED)

    def compute_state(self) -> JobState:
        """State of the run."""
        if self.is_stuck and not self.is_cancelled:
            return JobState.HELD
        return state_of_run(self.count_states(), expected=self.size, cancelled=self.is_cancelled)

    def count_states(self) -> dict[JobState, int]:
        """Number of jobs per state that users see."""
        return count_states([sum(column) for column in zip(*self.counts, strict=True)] if self.counts else [])

    def unsuccessful_jobs(self) -> list[int]:
        """Every job that is over and did not succeed."""
        return [job for job in range(self.size) if self.code[job] in BAD_ENDS]

    # ------------------------------------------------------------------------------------------------------ transitions

    def set_code(self, job: int, code: int) -> None:
        """Move a job to another state, and to its count."""
        before = self.code[job]
        if before == code:
            return
        row = self.counts[self.labels[job]]
        row[before] -= 1
        row[code] += 1
        self.code[job] = code
        if code == _READY:
            self.newly_ready.append(job)
        if _IS_OVER[code] or _IS_OVER[before]:  # once per job, and all else several times
            self.open_jobs += (job != self.final) * (_IS_OVER[before] - _IS_OVER[code])
            if _IS_OVER[code] and job in self.barriers.barriers_after:
                self.barriers.ended_jobs.append(job)

    def make_ready(self, job: int) -> None:
        """Make a job ready that waits for nothing, unless it is held."""
        for event in self.delayed_sets.pop(job, ()):
            self.set_request(job, event)
        self.set_code(job, JobCode.HELD if job in self.held else JobCode.READY)

    def release_final(self) -> None:
        """Make the final job ready if all others are over."""
        if self.final >= 0 and not self.open_jobs and self.code[self.final] == _UNREADY:
            self.make_ready(self.final)

    def hold(self, job: int) -> None:
        """Keep a job from starting, now or again; one that is over stays over."""
        if self.code[job] not in OVER:
            self.held.add(job)
            if self.code[job] in (JobCode.UNREADY, JobCode.READY):
                self.set_code(job, JobCode.HELD)

    def release(self, job: int) -> None:
        """End the hold of a job."""
        self.held.discard(job)
        if self.code[job] == JobCode.HELD:
            self.set_code(job, JobCode.UNREADY)
            if not self.waiting[job] and job != self.final:
                self.set_code(job, JobCode.READY)
            self.release_final()

    def set_request(self, job: int, event: Steer) -> None:
        """Set the request of a job that is not active."""
        # Only the keys: a later submission may have another request, on which they apply.
        earlier = self.set_values.get(job)
        self.set_values[job] = {**earlier, **event.set} if earlier else event.set
        if "requestMemory" in event.set:
            # From now on it grows from the value that was set.
            self.cause_counts.pop((job, Cause.OOM), None)
        if (grown := self.requests.get(job)) is not None:
            from longshore.runstate.change_request import change_request

            # A value that a retry raised stays raised, unless it is the one that was set.
            self.requests[job] = change_request(grown, event.set)
        if self.code[job] == JobCode.READY:
            # It waits in the bucket of its old request.
            self.newly_ready.append(job)

    def deactivate(self, job: int) -> None:
        """Remove a job from the active ones that did not succeed."""
        self.active.pop(job, None)
        if self.newly_inactive is not None:
            self.newly_inactive.append((job, None))

    def take_back(self, job: int) -> None:
        """Undo the submission of an attempt that never started."""
        self.attempts[job] -= 1
        if job in self.cancelling:
            self._end_cancelled(job)
        else:
            self.make_ready(job)

    def succeed(self, job: int, at: float, run_s: float | None) -> None:
        """End a job with its attempt as succeeded, and release its children.

        It almost makes no calls, because it runs for every job: they would take as long again as the rest.
        """
        self.active.pop(job, None)
        self.cancelling.discard(job)
        self.requests.pop(job, None)
        if self.newly_inactive is not None:
            self.newly_inactive.append((job, run_s))
        self.last_end = at
        code, counts, labels = self.code, self.counts, self.labels
        # As `set_code`.
        before = code[job]
        code[job] = _SUCCEEDED
        row = counts[labels[job]]
        row[before] -= 1
        row[_SUCCEEDED] += 1
        if job != self.final and not _IS_OVER[before]:
            self.open_jobs -= 1
        if job in self.barriers.barriers_after and before != _SUCCEEDED:
            self.barriers.ended_jobs.append(job)
        waiting, children = self.waiting, self.children
        # As `children[job]`.
        for child in children.neighbours[children.starts[job] : children.starts[job + 1]]:
            waiting[child] = left = waiting[child] - 1
            if left or code[child] != _UNREADY:
                continue
            if self.held or self.delayed_sets:
                self.make_ready(child)
                continue
            # As `make_ready`.
            code[child] = _READY
            row = counts[labels[child]]
            row[_UNREADY] -= 1
            row[_READY] += 1
            self.newly_ready.append(child)
        if not self.open_jobs:
            self.release_final()

    def end_unsuccessfully(self, job: int, event: Ended | Lost) -> None:
        """End an attempt badly; a retry is decided later, unless the job is being cancelled."""
        self.tries[job] += 1
        if isinstance(event, Lost) or event.cause is Cause.LOST:
            self.lost[job] += 1
        if isinstance(event, Ended) and event.cause in COUNTED_CAUSES:
            for counts in (self.cause_counts, self.spent_counts):
                counts[job, event.cause] = counts.get((job, event.cause), 0) + 1
        if job in self.cancelling:
            self._end_cancelled(job)
        else:
            self.undecided_ends[job] = event
            self.set_code(job, JobCode.UNDECIDED)

    def fail(self, job: int) -> None:
        """Fail a job, and prune its descendants."""
        self.held.discard(job)
        self.set_code(job, JobCode.FAILED)
        self.prune_below(job)

    def delete(self, job: int) -> bool:
        """Cancel a job; return whether it ended at once, because it was not active."""
        if self.code[job] in ACTIVE:
            self.cancelling.add(job)
        elif self.code[job] not in OVER:
            self.undecided_ends.pop(job, None)
            self.set_code(job, JobCode.DELETED)
            return True
        return False

    def delete_all(self, *, keep: int) -> None:
        """Cancel all jobs but one."""
        for job in range(self.size):
            if job != keep:
                self.delete(job)

    def prune(self, job: int) -> None:
        """Prune a job that waits for a failed one, and its descendants."""
        if self.code[job] in (JobCode.UNREADY, JobCode.READY, JobCode.HELD):
            self.set_code(job, JobCode.PRUNED)
            self.prune_below(job)

    def prune_below(self, job: int) -> None:
        """Prune all descendants of a job."""
        stack = list(self.children[job])
        while stack:
            descendant = stack.pop()
            # A held job can never run either, and would keep the run from its end.
            if self.code[descendant] in (JobCode.UNREADY, JobCode.READY, JobCode.HELD):
                self.set_code(descendant, JobCode.PRUNED)
                stack.extend(self.children[descendant])

    def pass_barriers(self) -> None:
        """Open or shut the barriers behind the jobs that are over by now."""
        crossed = self.barriers.ended_jobs
        # Not by recursion: the jobs that a barrier shuts out are over as well, and there may be thousands of groups.
        while crossed:
            job = crossed.pop()
            for barrier, opens in self.barriers.record_end(job, self.code[job]):
                for descendant in barrier.before:
                    if not opens:
                        self.prune(descendant)
                        continue
                    self.waiting[descendant] -= 1
                    if not self.waiting[descendant] and self.code[descendant] == _UNREADY:
                        self.make_ready(descendant)
        self.release_final()

    def rerun(self, jobs: Iterable[int]) -> None:
        """Run jobs again that are over, each with a fresh budget of attempts."""
        jobs_to_rerun = sorted(jobs)
        for job in jobs_to_rerun:
            self._reset_job(job)
        for barrier, change in self.barriers.recount(self.code):
            for job in barrier.before:
                self._add_waiting(job, change)
        for job in jobs_to_rerun:
            if job == self.final:
                continue
            if not self.waiting[job]:
                self.make_ready(job)
            elif self.barriers.is_shut(job) or any(self.code[parent] in BAD_ENDS for parent in self.parents[job]):
                # A job whose ancestor stays failed must not keep the run from its end.
                self.set_code(job, JobCode.PRUNED)
        self.release_final()

    def _reset_job(self, job: int) -> None:
        if self.code[job] == _SUCCEEDED:
            for child in self.children[job]:
                self._add_waiting(child, 1)
        self.tries[job] = self.lost[job] = 0
        self.not_before.pop(job, None)
        # Its grown request stays, and so do the counts of the ends that made it grow.
        self.cause_counts.pop((job, Cause.PREEMPTED), None)
        for cause in COUNTED_CAUSES:
            self.spent_counts.pop((job, cause), None)
        self.held.discard(job)
        self.set_code(job, JobCode.UNREADY)

    def _add_waiting(self, job: int, number: int) -> None:
        self.waiting[job] += number
        if self.waiting[job] and self.code[job] == _READY:
            self.set_code(job, _UNREADY)

    def _end_cancelled(self, job: int) -> None:
        self.cancelling.discard(job)
        self.set_code(job, JobCode.DELETED)
        self.prune_below(job)


def _zeros(size: int) -> array[int]:
    return array("i", bytes(size * array("i").itemsize))


# Snapshots.


def make_snapshot(
    state: RunState,
    labels: Sequence[str],
    *,
    life: Life,
    number: int,
    now: float,
    note: str,
    held: Collection[int] = (),
) -> Snapshot:
    """Return the snapshot of a run.

    Parameters
    ----------
    number
        Number of the newest event that the state has applied.
    now
        This moment, in seconds since the epoch.
    note
        Why the engine waits; empty if it does not.
    held
        Jobs at the workload manager that only a person can release.
    """
    overall = state.compute_state()
    rows = [count_states(row) for row in state.counts]
    count_held(rows, state, held)
    if held and is_stuck(state, held):
        overall = JobState.HELD
    if not state.finish_event and overall not in (JobState.UNKNOWN, JobState.HELD):
        overall = JobState.RUNNING
    return Snapshot(
        life=life.life,
        n=number,
        at=now,
        pid=life.pid,
        host=life.host,
        boot=life.boot,
        state=overall,
        counts={name: sum(row[name] for row in rows) for name in JobState},
        labels=dict(zip(labels, rows, strict=True)),
        finished=state.finish_event is not None,
        note=note,
    )


def count_held(rows: Sequence[dict[JobState, int]], state: RunState, held: Collection[int]) -> None:
    """Count jobs that the workload manager holds as held, per label."""
    for job in held:
        is_requeued = state.code[job] == JobCode.RUNNING
        rows[state.labels[job]][JobState.RUNNING if is_requeued else JobState.PENDING] -= 1
        rows[state.labels[job]][JobState.HELD] += 1


def is_stuck(state: RunState, held: Collection[int]) -> bool:
    """Return whether nothing of a run moves until a person releases the jobs that the workload manager holds."""
    return (
        bool(held)
        and not state.is_cancelled
        and sum(row[code] for row in state.counts for code in UNBLOCKED) == len(held)
    )
