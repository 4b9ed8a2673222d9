"""Derives the events of a run from reports of how its jobs stand, for services that tell no events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import ClassVar, Final

import msgspec

from longshore.contract.context import Mark, RunPaths, Unreachable
from longshore.contract.service import EventSource, JobStatus, ReportSource, StaleMarkError, StatusReport
from longshore.engine.apply_event import apply_event
from longshore.engine.job_codes import ACTIVE, Code
from longshore.engine.job_codes import OVER as CODES_OVER
from longshore.engine.job_table import JobTable
from longshore.engine.replay import initial_state
from longshore.engine.run_state import RunState
from longshore.model.event import (
    FORMAT,
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
from longshore.model.state import TERMINAL, Cause, JobState
from longshore.world.rundir import read_card

OVER: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED})
"""States of a report that says that the run is over."""

_HAS_ATTEMPT: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED})
_BAD: Final = frozenset({Code.FAILED, Code.DELETED, Code.PRUNED})
_RANK: Final = {JobState.SUCCEEDED: 0, JobState.FAILED: 0, JobState.DELETED: 1, JobState.PRUNED: 3}
"""Ends come first, for others follow from them, and what follows from others last."""


class ReportedEvents(EventSource):
    """The events of a service that only reports.

    Parameters
    ----------
    service
        The service.

    Attributes
    ----------
    counts
        Number of jobs per label and state, for labels that the last report only counted.
    """

    def __init__(self, service: ReportSource) -> None:
        self._service = service
        self.counts: Mapping[str, Mapping[JobState, int]] = {}
        self._run: RunPaths | None = None
        self._mark: Mark = ""
        self._known: KnownRun | None = None
        """Where the events up to the mark lead."""

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the events between two reports: that of the mark, and the newest."""
        card = read_card(run)
        if not card.submissions:
            return iter(()), mark
        report = self._service.report(run)
        if isinstance(report, Unreachable):
            return report
        self.counts = report.counts
        newest = sha256(msgspec.json.encode((report, len(card.submissions)))).hexdigest()[:16]
        if mark == newest:
            return iter(()), mark
        if mark and (mark, run) != (self._mark, self._run):
            raise StaleMarkError
        if not mark or self._known is None:
            self._known = _read_run(run)
        last = card.submissions[-1]
        life = Life(v=FORMAT, life=len(card.submissions), t=last.at, host=last.host, pid=0, boot="", by=last.by)
        self._run, self._mark = run, newest
        return iter(derive_events(self._known, report, life=life, now=time.time())), newest


class KnownRun:
    """A run and the state that its known events lead to.

    Parameters
    ----------
    state
        The state; `derive_events` brings it to the newest report.
    index_of
        Index of each job, by name.
    labels
        Names of the labels, as `RunState.labels` counts them.
    """

    def __init__(self, state: RunState, index_of: Mapping[str, int], labels: list[str]) -> None:
        self.state = state
        self.index_of = index_of
        self.labels = labels
        self.number = 0
        """Number of the last event of its life."""


def _read_run(run: RunPaths) -> KnownRun:
    jobs = JobTable(run, "names", "parents")
    return KnownRun(initial_state(jobs), {name: job for job, name in enumerate(jobs.names)}, jobs.labels)


def derive_events(known: KnownRun, report: StatusReport, *, life: Life, now: float) -> list[Event]:
    """The events that lead from a known state to a report, in an order in which they can have happened. Pure.

    A job that is not in the report has not been submitted, unless it was before: then it stays as it was if it is
    over, and is lost if it was not.

    Parameters
    ----------
    known
        The run; its state is that of the report afterwards.
    report
        How the run stands now.
    life
        Begins the events of the newest submission.
    now
        When the report was made, in seconds since the epoch: the time of what it gives no time for.
    """
    derivation = _Derivation(known, report, now)
    derivation.begin(life)
    derivation.restart()
    derivation.lose()
    for job, status in derivation.in_order():
        derivation.advance(job, status)
    if report.state in OVER:
        derivation.finish()
    return derivation.events


class _Derivation:
    """The comparison of one report with the state before it."""

    def __init__(self, known: KnownRun, report: StatusReport, now: float) -> None:
        self.events: list[Event] = []
        self._known = known
        self._state = state = known.state
        self._now = now
        self._over = report.state
        found = ((known.index_of.get(status.name), status) for status in report.jobs)
        self._status = {job: status for job, status in found if job is not None}
        counted = {number for number, label in enumerate(known.labels) if label in report.counts}
        self._counted = frozenset(job for job in range(state.size) if state.labels[job] in counted) if counted else ()
        """Jobs of which nothing is known singly."""

    def _tell(self, event: Event) -> None:
        if isinstance(event, Life):
            self._known.number = 0
        else:
            self._known.number += 1
            event = msgspec.structs.replace(event, n=self._known.number, t=event.t or self._now)
        self.events.append(event)
        apply_event(self._state, event)

    def begin(self, life: Life) -> None:
        """Begin with the newest submission, unless that was told."""
        known = self._state.life
        if known is None or known.life < life.life:
            self._tell(life)

    def restart(self) -> None:
        """Run jobs again that were over and are not as they were."""
        again: set[int] = set()
        for job in range(self._state.size):
            if self._state.code[job] in CODES_OVER and self._runs_again(job, again):
                again.add(job)
        if again or (self._state.finished and self._over not in OVER):
            self._tell(Restarted(jobs=tuple(sorted(again))))

    def _runs_again(self, job: int, again: set[int]) -> bool:
        code, status = self._state.code[job], self._status.get(job)
        if code in (Code.PRUNED, Code.DELETED) and (status is None or status.state not in _HAS_ATTEMPT):
            # It waits again if what it was pruned for runs again.
            bad = [parent for parent in self._state.parents[job] if self._state.code[parent] in _BAD]
            return bool(bad) and again.issuperset(bad)
        if status is None or status.state in (JobState.UNKNOWN, JobState.MISFIT):
            return False
        if status.state not in TERMINAL or status.attempt > max(1, self._state.attempts[job]):
            return True
        return (status.state is JobState.SUCCEEDED) != (code == Code.SUCCEEDED)

    def lose(self) -> None:
        """Give up attempts that the report no longer has, or has newer ones of."""
        for job in list(self._state.active):
            status = self._status.get(job)
            attempt = self._state.attempts[job]
            if status is None and job not in self._counted:
                self._tell(Lost(j=job, a=attempt, why="the service no longer reports it"))
            elif status is not None and status.state in _HAS_ATTEMPT and status.attempt > attempt:
                self._tell(Lost(j=job, a=attempt, why=f"the service reports attempt {status.attempt}"))
        for job in [job for job in self._state.undecided if job in self._status]:
            if self._status[job].state not in (JobState.UNKNOWN, JobState.MISFIT):
                self._tell(Retry(j=job, a=self._state.attempts[job] + 1, cause=Cause.LOST))

    def in_order(self) -> Iterator[tuple[int, JobStatus]]:
        """The jobs that the report names: those that ended first, in the order of their ends."""

        def place(item: tuple[int, JobStatus]) -> tuple[int, float, int]:
            job, status = item
            return _RANK.get(status.state, 2), status.end or self._now, job

        yield from sorted(self._status.items(), key=place)

    def advance(self, job: int, status: JobStatus) -> None:
        """Bring one job to its new state."""
        code = self._state.code[job]
        if code in CODES_OVER:
            return
        if code == Code.HELD and status.state is not JobState.HELD and status.state in self._ADVANCE:
            self._tell(Steer(who="", act="release", jobs=(job,)))
        if advance := self._ADVANCE.get(status.state):
            advance(self, job, status)

    def _pending(self, job: int, status: JobStatus) -> None:
        if self._state.code[job] == Code.RUNNING:
            self._take_back(job, "it waits again")
        if self._state.code[job] == Code.PENDING:
            return
        batch = f"{job}.{status.attempt}"
        at = min(status.start or self._now, status.end or self._now)
        self._tell(Submitting(b=batch, tag=batch, jobs=((job, status.attempt),), t=at))
        self._tell(Submitted(b=batch, id=status.wms_id or batch, t=at))

    def _running(self, job: int, status: JobStatus) -> None:
        if self._state.code[job] == Code.RUNNING:
            return
        self._pending(job, status)
        at = status.start or self._now
        self._tell(Started(j=job, a=status.attempt, host=status.host, at=at, t=at))

    def _ended(self, job: int, status: JobStatus) -> None:
        """Tell the end of an attempt; a bad one is the job's last."""
        if self._state.code[job] not in ACTIVE:
            self._pending(job, status)
        if status.start is not None and self._state.code[job] == Code.PENDING:
            self._running(job, status)
        self._tell(_end_of(job, status, self._now))
        if status.state is JobState.FAILED:
            self._tell(Failed(j=job, why=status.reason or "the service reports it as failed", t=status.end or 0.0))

    def _held(self, job: int, status: JobStatus) -> None:
        if self._state.code[job] == Code.HELD:
            return
        self._tell(Steer(who="", act="hold", jobs=(job,), set={"why": status.reason or "held"}))
        if self._state.code[job] in ACTIVE:
            self._take_back(job, status.reason or "it is held")

    def _deleted(self, job: int, status: JobStatus) -> None:
        self._tell(Deleted(jobs=(job,)))
        if self._state.code[job] in ACTIVE:
            attempt = self._state.attempts[job]
            self._tell(Ended(j=job, a=attempt, cause=Cause.CANCELLED, reason=status.reason, end=status.end))

    def _take_back(self, job: int, why: str) -> None:
        """Undo the submission of an attempt that is no longer under way."""
        attempt = (job, self._state.attempts[job])
        self._tell(Refused(b=self._state.active[job], why=why, jobs=(attempt,)))

    def finish(self) -> None:
        """End a run that is over: of a job that is not, the report says nothing, and nothing more will come."""
        state = self._state
        if self._over is JobState.DELETED and not state.cancelled:
            self._tell(Steer(who="", act="cancel"))
        for job in range(state.size):
            if state.code[job] in CODES_OVER or job in self._counted:
                continue
            if self._over is JobState.SUCCEEDED:
                self._ended(job, JobStatus(name="", state=JobState.SUCCEEDED, attempt=max(1, state.attempts[job])))
            elif job in state.undecided:
                self._tell(Failed(j=job, why="the run is over"))
            else:
                self._deleted(job, JobStatus(name="", state=JobState.DELETED))
        if state.finished is None:
            self._tell(Finished(state=self._over))

    _ADVANCE: ClassVar[Mapping[JobState, Callable[[_Derivation, int, JobStatus], None]]] = {
        JobState.PENDING: _pending,
        JobState.RUNNING: _running,
        JobState.HELD: _held,
        JobState.SUCCEEDED: _ended,
        JobState.FAILED: _ended,
        JobState.DELETED: _deleted,
        JobState.PRUNED: _deleted,
    }


def _end_of(job: int, status: JobStatus, now: float) -> Ended:
    """How an attempt ended, as far as the report says."""
    cause = None
    if status.state is not JobState.SUCCEEDED:
        cause = status.cause or (Cause.EXIT if status.signal is None else Cause.SIGNAL)
    run_s = status.end - status.start if status.start is not None and status.end is not None else None
    return Ended(
        j=job,
        a=status.attempt,
        exit=status.exit,
        signal=status.signal,
        cause=cause,
        reason=status.reason,
        host=status.host,
        start=status.start,
        end=status.end,
        run_s=run_s,
        rss_b=status.peak_memory_b,
        t=status.end or now,
    )
