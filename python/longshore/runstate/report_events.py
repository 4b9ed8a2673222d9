"""Derives the events of a run from status reports, for services that report states of jobs but no events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final

import msgspec

from longshore.contract.service import (
    EventSource,
    JobStatus,
    Mark,
    ReportSource,
    RunPaths,
    StaleMarkError,
    StatusReport,
    Unreachable,
)
from longshore.model.event import (
    PLAIN_FORMAT,
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
from longshore.model.states import TERMINAL_STATES, Cause, JobState
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card
from longshore.runstate.apply_events import apply_event
from longshore.runstate.replay import initial_state
from longshore.runstate.run_state import ACTIVE, BAD_ENDS, OVER, JobCode, RunState

_WAITING_STATES: Final = frozenset({JobState.UNREADY, JobState.READY})
_UNINFORMATIVE: Final = frozenset({JobState.UNKNOWN, JobState.MISFIT})
_STARTED_STATES: Final = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUCCEEDED})
_END_STATES: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED})
_RANK: Final = {JobState.SUCCEEDED: 0, JobState.FAILED: 0, JobState.DELETED: 1, JobState.PRUNED: 3}
"""Order of states: ends come first, because others follow from them; what follows from others comes last."""


class ReportedEvents(EventSource):
    """Events of a service that only reports.

    Parameters
    ----------
    service
        The service.
    name
        Its name, which events give as the one who holds and releases jobs.

    Attributes
    ----------
    counts
        Number of jobs per label and state, for labels that the last report only counted.
    """

    def __init__(self, service: ReportSource, name: str) -> None:
        self._service = service
        self._name = name
        self.counts: Mapping[str, Mapping[JobState, int]] = {}
        self._run: RunPaths | None = None
        self._mark: Mark = ""
        self._known: KnownRun | None = None
        """The run, in the state that the events up to the mark lead to."""

    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the events between two reports: that of the mark, and the newest."""
        card = read_card(run)
        if not card.submissions:
            return iter(()), mark
        report = self._service.report(run)
        if isinstance(report, Unreachable):
            return report
        self.counts = report.counts
        # Imported here: it loads OpenSSL, and every command that opens a run imports this module.
        from hashlib import sha256

        newest = sha256(msgspec.json.encode((report, len(card.submissions)))).hexdigest()[:16]
        if mark == newest:
            return iter(()), mark
        if mark and (mark, run) != (self._mark, self._run):
            raise StaleMarkError
        if not mark or self._known is None:
            self._known = _read_run(run, self._name)
        last = card.submissions[-1]
        life = Life(v=PLAIN_FORMAT, life=len(card.submissions), t=last.at, host=last.host, pid=0, boot="", by=last.by)
        self._run, self._mark = run, newest
        return iter(derive_events(self._known, report, life=life, now=time.time())), newest


class KnownRun:
    """A run, in the state that its known events lead to.

    Parameters
    ----------
    state
        The state; `derive_events` brings it to the newest report.
    index_of
        Index of each job, by name.
    labels
        Names of the labels, as `RunState.labels` counts them.
    service_name
        Name of the service.
    """

    def __init__(self, state: RunState, index_of: Mapping[str, int], labels: list[str], service_name: str) -> None:
        self.state = state
        self.index_of = index_of
        self.labels = labels
        self.service_name = service_name
        self.number = 0
        """Number of the last event of its life."""


def _read_run(run: RunPaths, service_name: str) -> KnownRun:
    jobs = JobTable(run, "names", "parents")
    index_of = {name: job for job, name in enumerate(jobs.names)}
    return KnownRun(initial_state(jobs), index_of, jobs.labels, service_name)


def derive_events(known: KnownRun, report: StatusReport, *, life: Life, now: float) -> list[Event]:
    """Return the events that lead from a known state to a report, in a possible order; pure.

    A job that is missing from the report is unsubmitted, unless it was submitted before: then it keeps its state if it
    is over, and is lost if it is not.

    Parameters
    ----------
    known
        The run; afterwards its state is that of the report.
    report
        The newest report.
    life
        First event of the newest submission.
    now
        When the report was made, in seconds since the epoch: the time of events without one in the report.
    """
    derivation = _Derivation(known, report, now)
    derivation.begin_submission(life)
    derivation.record_restart()
    derivation.record_lost()
    derivation.advance_all()
    if report.is_over:
        derivation.record_finish()
    return derivation.events


class _Derivation:
    """Comparison of one report with the state before it."""

    def __init__(self, known: KnownRun, report: StatusReport, now: float) -> None:
        self.events: list[Event] = []
        self._known = known
        self._state = state = known.state
        self._now = now
        self._report = report
        found = ((known.index_of.get(status.name), status) for status in report.jobs)
        # When the run is over, a job that is not over never will be.
        is_over = report.is_over
        self._status = {
            job: each for job, each in found if job is not None and (not is_over or each.state in TERMINAL_STATES)
        }
        counted_labels = {number for number, label in enumerate(known.labels) if label in report.counts}
        in_counted = (job for job in range(state.size) if state.labels[job] in counted_labels)
        self._counted_jobs = frozenset(in_counted if counted_labels else ())
        """Jobs that the report only counts, without a state of their own."""

    def _record(self, event: Event) -> None:
        if isinstance(event, Life):
            self._known.number = 0
        else:
            self._known.number += 1
            event = msgspec.structs.replace(event, n=self._known.number, t=event.t or self._now)
        self.events.append(event)
        apply_event(self._state, event)

    def begin_submission(self, life: Life) -> None:
        """Begin the newest submission, unless it is known."""
        known = self._state.life
        if known is None or known.life < life.life:
            self._record(life)

    def record_restart(self) -> None:
        """Run jobs again that were over and whose reported state has changed."""
        rerun_jobs: set[int] = set()
        for job in range(self._state.size):
            if self._state.code[job] in OVER and self._is_rerun(job, rerun_jobs):
                rerun_jobs.add(job)
        if rerun_jobs or (self._state.finish_event and not self._report.is_over):
            self._record(Restarted(jobs=tuple(sorted(rerun_jobs))))

    def _is_rerun(self, job: int, rerun_jobs: set[int]) -> bool:
        code, status = self._state.code[job], self._status.get(job)
        if code == JobCode.PRUNED:
            # It waits again once all jobs run again whose failures pruned it.
            bad = [parent for parent in self._state.parents[job] if self._state.code[parent] in BAD_ENDS]
            return bool(bad) and rerun_jobs.issuperset(bad)
        if status is None or status.state in _UNINFORMATIVE:
            return False
        if status.state not in TERMINAL_STATES:
            return True
        return self._has_newer_attempt(job, status) or (status.state is JobState.SUCCEEDED) != (
            code == JobCode.SUCCEEDED
        )

    def _has_newer_attempt(self, job: int, status: JobStatus) -> bool:
        """Return whether a job ended once more than is known."""
        return status.state in _END_STATES and status.attempt > max(1, self._state.attempts[job])

    def record_lost(self) -> None:
        """Lose attempts that are missing from the report, or that it has newer ones of."""
        state = self._state
        for job in list(state.active):
            status = self._status.get(job)
            if status is None and job not in self._counted_jobs:
                self._record(Lost(j=job, a=state.attempts[job], why="the service no longer reports it"))
            elif status and (status.state in _WAITING_STATES or status.attempt > state.attempts[job]):
                why = f"the service reports the job as {status.state}, attempt {status.attempt}"
                self._record(Lost(j=job, a=state.attempts[job], why=why))

    def advance_all(self) -> None:
        """Bring the reported jobs to their new states: first those that ended, by the time of their ends."""
        for job, status in self._status.items():
            waits = self._state.code[job] in (JobCode.UNREADY, JobCode.READY)
            parents = (self._status.get(parent) for parent in self._state.parents[job])
            if waits and status.state in _STARTED_STATES and any(map(_is_bad, parents)):
                # The workload manager went on in spite of the failures.
                self._pending(job, status)

        def sort_key(item: tuple[int, JobStatus]) -> tuple[int, float, int]:
            job, status = item
            # Deleted children come before their parents, which would prune them.
            index = -job if status.state is JobState.DELETED else job
            return _RANK.get(status.state, 2), status.end or self._now, index

        for job, status in sorted(self._status.items(), key=sort_key):
            self._advance(job, status)

    def _advance(self, job: int, status: JobStatus) -> None:
        code, state = self._state.code[job], status.state
        if code in OVER or state in _UNINFORMATIVE:
            return
        if code == JobCode.UNDECIDED and (not _is_bad(status) or self._has_newer_attempt(job, status)):
            self._record(Retry(j=job, a=self._state.attempts[job] + 1, cause=Cause.LOST))
        if code == JobCode.HELD and state is not JobState.HELD:
            self._record(Steer(who=self._known.service_name, act="release", jobs=(job,)))
        if advance := self._ADVANCE.get(state):
            advance(self, job, status)

    def _pending(self, job: int, status: JobStatus) -> None:
        code = self._state.code[job]
        if code == JobCode.RUNNING and status.state is JobState.PENDING:
            self._take_back(job, "it waits again")
        elif code in ACTIVE or code in OVER:
            return
        # An attempt that ended keeps its number, even if the service counts differently.
        number = max(status.attempt, self._state.attempts[job] + 1)
        batch = f"{job}.{number}"
        time_s = min(status.start or self._now, status.end or self._now)
        self._record(Submitting(b=batch, tag=batch, jobs=((job, number),), t=time_s))
        self._record(Submitted(b=batch, id=status.wms_id or batch, t=time_s))

    def _running(self, job: int, status: JobStatus) -> None:
        self._pending(job, status)
        if self._state.code[job] == JobCode.PENDING:
            time_s = status.start or self._now
            self._record(Started(j=job, a=self._state.attempts[job], host=status.host, at=time_s, t=time_s))

    def _ended(self, job: int, status: JobStatus) -> None:
        """Record the end of an attempt; a bad one is the job's last."""
        if job not in self._state.undecided_ends:
            begin = self._pending if status.start is None else self._running
            begin(job, status)
            self._record(_end_of(job, self._state.attempts[job], status, self._now))
        if status.state is JobState.FAILED:
            self._record(Failed(j=job, why=status.reason or "the service reports it as failed", t=status.end or 0.0))

    def _held(self, job: int, status: JobStatus) -> None:
        if self._state.code[job] == JobCode.HELD:
            return
        why = status.reason or "held"
        self._record(Steer(who=self._known.service_name, act="hold", jobs=(job,), set={"why": why}))
        if self._state.code[job] in ACTIVE:
            self._take_back(job, why)

    def _deleted(self, job: int, status: JobStatus) -> None:
        self._record(Deleted(jobs=(job,)))
        if self._state.code[job] in ACTIVE:
            attempt = self._state.attempts[job]
            self._record(Ended(j=job, a=attempt, cause=Cause.CANCELLED, reason=status.reason, end=status.end))

    def _take_back(self, job: int, why: str) -> None:
        """Undo the submission of an attempt that is no longer submitted or running."""
        attempt = (job, self._state.attempts[job])
        self._record(Refused(b=self._state.active[job], why=why, jobs=(attempt,)))

    def record_finish(self) -> None:
        """End a run that is over, and with it the jobs that are missing from the report."""
        state = self._state
        if self._report.state is JobState.DELETED and not state.is_cancelled:
            self._record(Steer(who=self._known.service_name, act="cancel"))
        succeeded = self._report.state is JobState.SUCCEEDED
        for job in range(state.size) if succeeded else reversed(range(state.size)):
            if state.code[job] in OVER or job in self._counted_jobs:
                continue
            if succeeded:
                self._advance(job, JobStatus(name="", state=JobState.SUCCEEDED))
            elif job in state.undecided_ends:
                self._record(Failed(j=job, why="the run is over"))
            else:
                self._deleted(job, JobStatus(name="", state=JobState.DELETED))
        if state.finish_event is None:
            self._record(Finished(state=self._report.state, t=state.last_end or 0.0))

    _ADVANCE: ClassVar[Mapping[JobState, Callable[[_Derivation, int, JobStatus], None]]] = {
        JobState.PENDING: _pending,
        JobState.RUNNING: _running,
        JobState.HELD: _held,
        JobState.SUCCEEDED: _ended,
        JobState.FAILED: _ended,
        JobState.DELETED: _deleted,
        JobState.PRUNED: _deleted,
    }


def _is_bad(status: JobStatus | None) -> bool:
    """Return whether a job is over and did not succeed."""
    return status is not None and status.state in TERMINAL_STATES and status.state is not JobState.SUCCEEDED


def _end_of(job: int, attempt: int, status: JobStatus, now: float) -> Ended:
    """Return how an attempt ended, by the fields of the report."""
    cause = None
    if status.state is not JobState.SUCCEEDED:
        cause = status.cause or (Cause.EXIT if status.signal is None else Cause.SIGNAL)
    run_s = status.end - status.start if status.start is not None and status.end is not None else None
    return Ended(
        j=job,
        a=attempt,
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
