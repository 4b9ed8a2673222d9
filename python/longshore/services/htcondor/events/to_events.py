"""Converts log records of a DAG into the events of its run; no side effects.

An attempt is one start on a machine. HTCondor counts otherwise: a job stays in its queue while it is started several
times, held and released. Here each start is an attempt, in any HTCondor job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from longshore.model.run.event import (
    AttemptSucceeded,
    Deleted,
    Ended,
    Event,
    Failed,
    Lost,
    Refused,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.run.state import Cause
from longshore.model.workflow.request import Request
from longshore.services.htcondor.event_codes import Kind
from longshore.services.htcondor.events import parse_record, provisioner
from longshore.services.htcondor.events.job_phases import Phase, Standing
from longshore.services.htcondor.events.log_reader import Record
from longshore.services.htcondor.events.parse_record import Ending
from longshore.services.htcondor.node_names import FINAL
from longshore.services.htcondor.render import provisioning

WHO: Final = "HTCondor"
"""Author of holds, releases and removals by rules."""

# Plain numbers: these are compared several times per record.
_IDLE: Final = int(Phase.IDLE)
_PENDING: Final = int(Phase.PENDING)
_RUNNING: Final = int(Phase.RUNNING)
_OUT: Final = int(Phase.OUT)
_HELD: Final = int(Phase.HELD)
_OVER: Final = int(Phase.OVER)


class Story:
    """Builder of a run's events from the log of its DAG.

    Parameters
    ----------
    standing
        Phases of the jobs; updated by each record.
    final
        Whether the last job is the final job.
    retries
        Retries by DAGMan itself, for the nodes that have any.
    requests
        Requests of jobs that differ from their label's.
    asked
        A cancel that HTCondor has not confirmed: if the run was removed, the cancel succeeded.
    """

    def __init__(
        self,
        standing: Standing,
        *,
        final: bool,
        retries: Mapping[int, int] | None = None,
        requests: Mapping[int, Request] | None = None,
        asked: Steer | None = None,
    ) -> None:
        self._now = standing
        self._size = len(standing.phase)
        self._final = self._size - 1 if final else -1
        self._retries = retries or {}
        self._requests = requests or {}
        self._asked = asked

    def take(self, record: Record) -> Iterable[Event]:
        """Events that follow from a record, often none."""
        if record.kind == 0:
            return self._submitted(record)
        step = STEPS.get(record.kind)
        if step is None:
            return ()
        job = self._now.jobs.get(record.cluster, -1)
        if job >= 0:
            return step(self, job, record)
        there = self._now.provider
        if there is not None and there.cluster == record.cluster:
            self._now.provider = provisioner.after(there, record)
        return ()

    def cancel(self, steer: Steer) -> Iterable[Event]:
        """Record a cancel of the run."""
        now = self._now
        told, now.cancelled = now.told_ahead == steer.t, True
        return () if told else (steer,)

    def restart(self, jobs: Iterable[int]) -> None:
        """Reset the state for a restart with these jobs."""
        now = self._now
        now.jobs, now.waited, now.tries, now.holds, now.causes = {}, {}, {}, {}, {}
        now.cancelled, now.told_ahead, now.failed, now.provider = False, 0.0, False, None
        for job in jobs:
            now.phase[job] = _IDLE

    # ------------------------------------------------------------------------------------------------ an attempt begins

    def _submitted(self, record: Record) -> Iterable[Event]:
        node = parse_record.node_of(record.body)
        job = self._now.jobs[record.cluster] = self._job_of(node)
        if node == provisioning.NODE:
            self._now.provider = provisioner.submitted(record)
        if job < 0:
            return ()
        self._now.submitted(job, record.cluster)
        return self._queued(job, record.at)

    def _job_of(self, node: str) -> int:
        number = node[1:]
        if node[:1] == "j" and number.isdecimal():
            job = int(number)
            return job if job < self._size else -1
        return self._final if node == FINAL else -1

    def _queued(self, job: int, at: float) -> list[Event]:
        """A new attempt is in the queue; after a failed one, this is a retry."""
        now = self._now
        number = now.attempts[job] = now.attempts[job] + 1
        now.phase[job] = _PENDING
        now.since[job] = at
        name, batch = now.name(job), now.batch(job)
        events: list[Event] = []
        cause = now.causes.pop(job, None) if now.causes else None
        if cause is not None:
            events.append(Retry(j=job, a=number, cause=cause, t=at))
        events.append(Submitting(b=batch, tag=name, jobs=((job, number),), request=self._requests.get(job), t=at))
        events.append(Submitted(b=batch, id=name, t=at))
        return events

    def passed(self, node: str, cluster: int, *, started: float, ended: float) -> AttemptSucceeded | None:
        """The brief event of a job that succeeded at its first attempt; ``None`` if it needs full events.

        Granted memory is not recorded: only jobs that run again need it.
        """
        now, job = self._now, self._job_of(node)
        if job < 0 or now.phase[job] != _IDLE or job in now.causes:
            return None
        now.submitted(job, cluster)
        number = now.attempts[job] = now.attempts[job] + 1
        now.phase[job] = _OVER
        now.since[job] = started
        return AttemptSucceeded(job, number, started, ended, max(0.0, ended - started))

    def _executing(self, job: int, record: Record) -> Iterable[Event]:
        now, at = self._now, record.at
        if now.phase[job] == _OVER:
            return ()
        events: list[Event] = []
        if now.phase[job] == _RUNNING:
            events += self._lose(job, at, "it was started again, and nothing says how this attempt ended")
        elif now.phase[job] == _HELD:
            events += self._let_go(job, at)
        if now.phase[job] != _PENDING:
            events += self._queued(job, at)
        now.memory[job] = parse_record.memory_of(record.body) or 0
        now.waited[job] = max(0.0, at - now.since[job])
        now.phase[job] = _RUNNING
        now.since[job] = at
        events.append(Started(j=job, a=now.attempts[job], host=parse_record.host_of(record.body), at=at, t=at))
        return events

    # -------------------------------------------------------------------------------------------------- an attempt ends

    def _end(self, job: int, ending: Ending, at: float) -> Ended:
        now = self._now
        start = now.since[job] if now.phase[job] == _RUNNING else None
        granted = now.memory[job] = ending.granted_mb or now.memory[job]
        return Ended(
            j=job,
            a=now.attempts[job],
            exit=ending.exit,
            signal=ending.signal,
            cause=ending.cause,
            reason=ending.reason,
            start=start,
            end=at,
            queue_s=now.waited.pop(job, None),
            run_s=ending.run_s if start is None else max(0.0, at - start),
            cpu_s=ending.cpu_s,
            rss_b=ending.rss_b,
            extra={"MemoryProvisioned": str(granted)} if granted else {},
            t=at,
        )

    def _terminated(self, job: int, record: Record) -> Iterable[Event]:
        now, at = self._now, record.at
        if now.phase[job] == _OVER:
            return ()
        events: list[Event] = []
        if now.phase[job] == _HELD:
            events += self._let_go(job, at)
        elif now.phase[job] == _OUT:
            # It was started again, without a record.
            events += self._queued(job, at)
        ending = parse_record.terminated(record.body)
        events.append(self._end(job, ending, at))
        now.phase[job] = _OVER
        now.jobs.pop(record.cluster, None)
        if ending.cause is not None:
            events += self._failed(job, ending.cause, ending.reason or "", at)
        return events

    def _failed(self, job: int, cause: Cause, why: str, at: float) -> list[Event]:
        """A node failed: DAGMan retries it, or it failed for good."""
        tried = self._now.tries[job] = self._now.tries.get(job, 0) + 1
        if tried <= self._retries.get(job, 0):
            self._now.phase[job] = _OUT
            self._now.causes[job] = cause
            return []
        del self._now.tries[job]
        self._now.phase[job], self._now.failed = _OVER, True
        number = self._now.attempts[job]
        return [Failed(j=job, why=f"{why}; {number} attempts were made" if number > 1 else why, t=at)]

    def _evicted(self, job: int, record: Record) -> Iterable[Event]:
        now = self._now
        if now.phase[job] != _RUNNING:
            return ()
        ending = parse_record.evicted(record.body)
        if ending.cause is None:
            # A requeued job was no success, even with exit code 0.
            ending = msgspec.structs.replace(ending, cause=Cause.PREDICATE, reason="its own rule has it run again")
        event = self._end(job, ending, record.at)
        now.causes[job] = ending.cause or Cause.PREDICATE
        now.phase[job] = _OUT
        return [event, *self._queued(job, record.at)] if ending.requeued else [event]

    def _shadow_failed(self, job: int, record: Record) -> Iterable[Event]:
        if self._now.phase[job] != _RUNNING:
            return ()
        return self._lose(job, record.at, parse_record.words_of(record.body) or "its shadow failed")

    def _lose(self, job: int, at: float, why: str) -> list[Event]:
        now = self._now
        now.causes[job] = Cause.LOST
        now.phase[job] = _OUT
        now.waited.pop(job, None)
        return [Lost(j=job, a=now.attempts[job], why=why, t=at)]

    # ------------------------------------------------------------------------------------------------- hold and release

    def _held(self, job: int, record: Record) -> Iterable[Event]:
        now, at = self._now, record.at
        phase = now.phase[job]
        if phase in (_OVER, _HELD):
            return ()
        hold = parse_record.held(record.body)
        steer = Steer(who=WHO, act="hold", jobs=(job,), set={"why": hold.reason, "code": str(hold.code)}, t=at)
        now.holds[job] = hold
        if phase == _PENDING:
            return self._never_begun(job, hold.reason, at, steer)
        events: list[Event] = []
        if phase == _RUNNING:
            events.append(self._end(job, parse_record.ending_of_hold(hold), at))
            now.causes[job] = hold.cause
        now.phase[job] = _HELD
        cause = now.causes[job]
        return [*events, steer, Retry(j=job, a=now.attempts[job] + 1, cause=cause, t=at)]

    def _never_begun(self, job: int, why: str, at: float, first: Event) -> list[Event]:
        """Withdraw an attempt that only waited in the queue."""
        now = self._now
        batch, number = now.batch(job), now.attempts[job]
        now.attempts[job] = number - 1
        now.phase[job] = _HELD
        return [first, Refused(b=batch, why=why, jobs=((job, number),), t=at)]

    def _released(self, job: int, record: Record) -> Iterable[Event]:
        return self._let_go(job, record.at) if self._now.phase[job] == _HELD else ()

    def _let_go(self, job: int, at: float) -> list[Event]:
        now = self._now
        now.holds.pop(job, None)
        # The retry is an event already.
        now.causes.pop(job, None)
        return [Steer(who=WHO, act="release", jobs=(job,), t=at), *self._queued(job, at)]

    # ---------------------------------------------------------------------------------------------------------- removed

    def _aborted(self, job: int, record: Record) -> Iterable[Event]:
        now, at = self._now, record.at
        now.jobs.pop(record.cluster, None)
        if now.phase[job] == _OVER:
            return ()
        why = parse_record.words_of(record.body) or "it was removed"
        if parse_record.removed_by_rule(why):
            return self._removed_by_rule(job, why, at)
        return [*self._run_removed(why, at), *self._removed(job, why, at)]

    def _run_removed(self, why: str, at: float) -> list[Event]:
        """The run was cancelled with other tools than Longshore, if this job was removed with its DAG."""
        if self._now.cancelled or not parse_record.removed_with_dag(why):
            return []
        return self._cancelled_by(at)

    def _cancelled_by(self, at: float) -> list[Event]:
        """The run was removed: by an unconfirmed cancel, or with other tools than Longshore."""
        now, asked = self._now, self._asked
        now.cancelled = True
        if asked is None:
            return [Steer(who=WHO, act="cancel", t=at)]
        now.told_ahead = asked.t
        return [asked]

    def _removed(self, job: int, why: str, at: float) -> list[Event]:
        now = self._now
        phase = now.phase[job]
        deleted = Deleted(jobs=(job,), t=at)
        now.holds.pop(job, None)
        now.causes.pop(job, None)
        events: list[Event] = [deleted]
        if phase == _PENDING:
            events = self._never_begun(job, why, at, deleted)
        elif phase == _RUNNING:
            events.append(self._end(job, Ending(cause=Cause.CANCELLED, reason=why), at))
        now.phase[job], now.failed = _OVER, True
        return events

    def _removed_by_rule(self, job: int, why: str, at: float) -> list[Event]:
        now = self._now
        phase, hold = now.phase[job], now.holds.pop(job, None)
        cause = hold.cause if hold else now.causes.get(job) or Cause.WALLTIME
        events: list[Event] = []
        if phase == _HELD and hold and job not in now.causes:
            # It was held before its start: only an attempt can record the reason.
            events += [*self._let_go(job, at), self._end(job, Ending(cause=cause, reason=hold.reason), at)]
        if phase == _RUNNING:
            events.append(self._end(job, Ending(cause=Cause.WALLTIME, reason=why), at))
        elif phase == _PENDING:
            events.append(self._end(job, Ending(cause=Cause.PEND_TIMEOUT, reason=why), at))
        now.causes.pop(job, None)
        said = f"{hold.reason}; then removed: {why}" if hold else why
        return [*events, *self._failed(job, cause, said, at)]

    # ---------------------------------------------------------------------------------------------------------- the end

    def finish(self, at: float, *, removed: bool, submit_failures: Mapping[int, str]) -> list[Event]:
        """Close the run after DAGMan ended: no job can change any more.

        `removed` says whether DAGMan was removed, or vanished without a record. `submit_failures` has the reasons of
        nodes that were never submitted, and that DAGMan counts as failed.
        """
        now = self._now
        now.provider = provisioner.with_run(now.provider, at)
        events: list[Event] = []
        if removed and not now.cancelled:
            events += self._cancelled_by(at)
        for job, why in sorted(submit_failures.items()):
            if now.phase[job] == _IDLE:
                events += self._queued(job, at)
                events.append(self._end(job, Ending(cause=Cause.SUBMIT, reason=why), at))
                events += self._given_up(job, why, at)
        left = []
        for job in range(self._size):
            phase = now.phase[job]
            if phase == _OUT:
                events += self._given_up(job, "DAGMan ended before it was tried again", at)
            elif phase == _RUNNING:
                events += self._lose(job, at, "DAGMan is gone, and nothing says how this attempt ended")
                events += self._given_up(job, "it was lost with DAGMan", at)
            elif phase == _PENDING:
                events += self._removed(job, "DAGMan is gone", at)
            elif phase != _OVER:
                left.append(job)
                now.phase[job] = _OVER
        if left:
            events.append(Deleted(jobs=tuple(left), t=at))
        now.jobs, now.holds = {}, {}
        return events

    def _given_up(self, job: int, why: str, at: float) -> list[Event]:
        self._now.causes.pop(job, None)
        self._now.phase[job], self._now.failed = _OVER, True
        return [Failed(j=job, why=why, t=at)]


STEPS: Final[Mapping[int, Callable[[Story, int, Record], Iterable[Event]]]] = {
    int(Kind.EXECUTE): Story._executing,
    int(Kind.EVICTED): Story._evicted,
    int(Kind.TERMINATED): Story._terminated,
    int(Kind.SHADOW_EXCEPTION): Story._shadow_failed,
    int(Kind.ABORTED): Story._aborted,
    int(Kind.HELD): Story._held,
    int(Kind.RELEASED): Story._released,
    int(Kind.RECONNECT_FAILED): Story._shadow_failed,
}
