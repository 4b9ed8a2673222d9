"""Converts log records of a DAG into the events of its run; no side effects.

An attempt is one start on a machine. HTCondor counts otherwise: a job stays in its queue while it is started several
times, held and released. Here each start is an attempt, in any HTCondor job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

import msgspec

from longshore.engine.policy.retry import BadEnds, RetryRules, decide_retry, make_retry_rules
from longshore.engine.policy.success_rules import judge_outputs
from longshore.errors import RunUnreadableError
from longshore.model.event import (
    AttemptSucceeded,
    BriefEvent,
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
from longshore.model.states import Cause
from longshore.model.workflow import OutputCheck, Request
from longshore.rundir.batch_records import parse_findings
from longshore.services.htcondor.codes import EventType
from longshore.services.htcondor.events import job_phases, log_records
from longshore.services.htcondor.events.dag_jobs import DagJobs, DagNodes, NodeRetries
from longshore.services.htcondor.events.job_phases import JobPhase, JobPhases
from longshore.services.htcondor.events.log_records import UNMET_OUTPUT, AttemptEnd, Record, UserLog
from longshore.services.htcondor.render.log_names import log_paths
from longshore.services.htcondor.render.service_nodes import PROVISIONER
from longshore.system.reading import read_tail, read_with_status

# Reads which outputs a job left not as they must be: HTCondor passes on an exit code alone. Of a failure by its
# outputs, the wrapper tells in the job's log; of a success with a stale or empty one, in a record.


OUTPUT_RECORDS: Final = PurePosixPath("wms", "outputs")
"""Folder of a run directory with a record per success that left an output stale or empty: ``<cluster>.<start>``."""
_MAX_RECORD_B: Final = 1 << 20
_NAME: Final = re.compile(r"(\d{1,10})\.(\d{1,9})", re.ASCII)
_RECORD: Final = re.compile(
    rb'\{(?P<values>"cluster":(\d{1,10}),"start":(\d{1,9}),"out":"((?:\d{1,9} (?:stale|empty) ?)+)"),'
    rb'"again":\{(?P=values)\}\}\n'
)
"""Form of a record: its values twice, so that a changed value is found."""
_FINDINGS: Final = re.compile(r"longshore: outputs: ((?:\d{1,9} (?:missing|stale|empty) ?)+)")


class OutputVerdicts:
    """Verdicts on the outputs of a submission's attempts."""

    def __init__(self, jobs: DagJobs) -> None:
        self._jobs = jobs

    def judge(self, end: Ended, phases: JobPhases) -> Ended:
        """Return the end of an attempt, with the wrapper's verdict if there is one."""
        is_success = end.cause is None and end.exit == 0
        is_unmet = end.cause is not None and end.exit == UNMET_OUTPUT
        if not (is_unmet or (is_success and self.recorded_clusters)):
            return end
        cluster, start = phases.cluster_and_start(end.j, end.a)
        if is_success and cluster not in self.recorded_clusters:
            return end
        try:
            job, table = self._jobs.own_number(end.j), self._jobs.table
            stored, label = table[job], table.label(job)
            paths, number = table.checked_outputs(job, stored), table.file_number(job, stored)
            check = table.settings(job).rules.check_outputs
        except (RunUnreadableError, IndexError):
            return end
        if is_success:
            # With `fresh`, the wrapper would have made it a failure.
            told = self._read_record(cluster, start) if check is OutputCheck.EXISTS else ""
            return judge_outputs(msgspec.structs.replace(end, outputs=parse_findings(told)), check, paths)
        for log in log_paths(number, stored.name, label, cluster, start) if paths else ():
            lines = read_tail(self._jobs.run.root / log, 1) or ()
            # A long line is cut at its end.
            found = next((match for line in lines if (match := _FINDINGS.match(line))), None)
            if found is not None:
                findings = parse_findings(found[1])
                success = msgspec.structs.replace(end, exit=0, cause=None, reason=None, outputs=findings)
                return judge_outputs(success, check, paths)
        return end

    @cached_property
    def recorded_clusters(self) -> AbstractSet[int]:
        """Clusters with records of their successes; listed once, after the log was opened."""
        folder = self._jobs.run.root / OUTPUT_RECORDS
        try:
            names = [] if folder.is_symlink() else os.listdir(folder)
        except OSError:
            return frozenset()
        return frozenset(int(found[1]) for found in map(_NAME.fullmatch, names) if found)

    def _read_record(self, cluster: int, start: int) -> str:
        """Findings on a success; empty without a record, or where it has another form."""
        try:
            text, _ = read_with_status(self._jobs.run.root / OUTPUT_RECORDS / f"{cluster}.{start}", max_b=_MAX_RECORD_B)
        except OSError:
            return ""
        found = _RECORD.fullmatch(text)
        is_own = found is not None and (int(found[2]), int(found[3])) == (cluster, start)
        return found[4].decode() if found is not None and is_own else ""


AUTHOR: Final = "HTCondor"
"""Author of holds, releases and removals by rules."""

# Plain numbers: these are compared several times per record.
_IDLE: Final = int(JobPhase.IDLE)
_PENDING: Final = int(JobPhase.PENDING)
_RUNNING: Final = int(JobPhase.RUNNING)
_UNDECIDED: Final = int(JobPhase.UNDECIDED)
_HELD: Final = int(JobPhase.HELD)
_OVER: Final = int(JobPhase.OVER)


class EventBuilder:
    """Builder of a run's events from the log of its DAG.

    Parameters
    ----------
    phases
        Phases of the jobs; updated by each record.
    nodes
        Nodes of the DAG.
    retries
        Retries by DAGMan itself, for the nodes that have any.
    requests
        Requests of jobs that differ from their label's.
    unconfirmed_cancel
        A cancel that HTCondor has not confirmed: if the run was removed, the cancel succeeded.
    no_retry
        Gives the rule by which a job was not tried again, from the end and number of its last attempt.
    verdicts
        Judges the ends of attempts by the outputs that they left.
    """

    def __init__(
        self,
        phases: JobPhases,
        *,
        nodes: DagNodes,
        retries: NodeRetries | None = None,
        requests: Mapping[int, Request] | None = None,
        unconfirmed_cancel: Steer | None = None,
        no_retry: Callable[[int, AttemptEnd, int], str] = lambda _job, _end, _attempts: "",
        verdicts: OutputVerdicts | None = None,
    ) -> None:
        self._phases = phases
        self._nodes = nodes
        self._retries = retries or NodeRetries()
        self._requests = requests or {}
        self._unconfirmed_cancel = unconfirmed_cancel
        self._no_retry = no_retry
        self._verdicts = verdicts

    def convert(self, record: Record) -> Iterable[Event]:
        """Events that follow from a record, often none."""
        if record.event_type == 0:
            return self._on_submit(record)
        handler = RECORD_HANDLERS.get(record.event_type)
        if handler is None:
            return ()
        job = self._phases.job_of_cluster.get(record.cluster, -1)
        if job >= 0:
            return handler(self, job, record)
        provisioner_state = self._phases.provisioner
        if provisioner_state is not None and provisioner_state.cluster == record.cluster:
            self._phases.provisioner = job_phases.next_state(provisioner_state, record)
        return ()

    def cancel_run(self, steer: Steer) -> Iterable[Event]:
        """Record a cancel of the run."""
        phases = self._phases
        is_event_already, phases.is_cancelled = phases.early_cancel_at == steer.t, True
        return () if is_event_already else (steer,)

    def take_over(self, jobs: Iterable[int]) -> None:
        """Note that another run made the results of these jobs, in one attempt each."""
        for job in jobs:
            self._phases.attempts[job] = 1
            self._phases.phase[job] = _OVER

    def reset_for_restart(self, jobs: Iterable[int]) -> None:
        """Reset the state for a restart with these jobs."""
        phases = self._phases
        phases.job_of_cluster, phases.queue_seconds, phases.node_failures, phases.holds, phases.causes = (
            {},
            {},
            {},
            {},
            {},
        )
        phases.is_cancelled, phases.early_cancel_at, phases.has_failures, phases.provisioner = False, 0.0, False, None
        for job in jobs:
            phases.phase[job] = _IDLE

    # ------------------------------------------------------------------------------------------------ an attempt begins

    def _on_submit(self, record: Record) -> Iterable[Event]:
        node = log_records.parse_node(record.body)
        job = self._phases.job_of_cluster[record.cluster] = self._nodes.job_of(node)
        if node == PROVISIONER:
            self._phases.provisioner = job_phases.submitted_state(record)
        if job < 0:
            return ()
        self._phases.add_cluster(job, record.cluster)
        return self._queue_attempt(job, record.at)

    def _queue_attempt(self, job: int, at: float) -> list[Event]:
        """A new attempt is in the queue; after a failed one, this is a retry."""
        phases = self._phases
        number = phases.attempts[job] = phases.attempts[job] + 1
        phases.phase[job] = _PENDING
        phases.since[job] = at
        job_id, batch = phases.job_id(job), phases.batch_id(job)
        events: list[Event] = []
        cause = phases.causes.pop(job, None) if phases.causes else None
        if cause is not None:
            events.append(Retry(j=job, a=number, cause=cause, t=at))
        events.append(Submitting(b=batch, tag=job_id, jobs=((job, number),), request=self._requests.get(job), t=at))
        events.append(Submitted(b=batch, id=job_id, t=at))
        return events

    def brief_success(self, node: str, cluster: int, *, started: float) -> tuple[int, int] | None:
        """Record that a job succeeded at its first attempt, and return the job and the number of the attempt.

        ``None`` if it needs full events. Granted memory is not recorded: only jobs that run again need it.
        """
        phases, job = self._phases, self._nodes.job_of(node)
        if job < 0 or phases.phase[job] != _IDLE or job in phases.causes:
            return None
        if self._verdicts is not None and cluster in self._verdicts.recorded_clusters:
            return None
        phases.add_cluster(job, cluster)
        number = phases.attempts[job] = phases.attempts[job] + 1
        phases.phase[job] = _OVER
        phases.since[job] = started
        return job, number

    def _on_execute(self, job: int, record: Record) -> Iterable[Event]:
        phases, at = self._phases, record.at
        if phases.phase[job] == _OVER:
            return ()
        events: list[Event] = []
        if phases.phase[job] == _RUNNING:
            events += self._lose_attempt(job, at, "it was started again, and nothing says how this attempt ended")
        elif phases.phase[job] == _HELD:
            events += self._release_job(job, at)
        if phases.phase[job] != _PENDING:
            events += self._queue_attempt(job, at)
        phases.memory[job] = log_records.parse_memory(record.body) or 0
        phases.queue_seconds[job] = max(0.0, at - phases.since[job])
        phases.phase[job] = _RUNNING
        phases.since[job] = at
        events.append(Started(j=job, a=phases.attempts[job], host=log_records.parse_host(record.body), at=at, t=at))
        return events

    # -------------------------------------------------------------------------------------------------- an attempt ends

    def _end_attempt(self, job: int, ending: AttemptEnd, at: float) -> Ended:
        phases = self._phases
        start = phases.since[job] if phases.phase[job] == _RUNNING else None
        granted = phases.memory[job] = ending.granted_mb or phases.memory[job]
        end = Ended(
            j=job,
            a=phases.attempts[job],
            exit=ending.exit,
            signal=ending.signal,
            cause=ending.cause,
            reason=ending.reason,
            start=start,
            end=at,
            queue_s=phases.queue_seconds.pop(job, None),
            run_s=ending.run_s if start is None else max(0.0, at - start),
            cpu_s=ending.cpu_s,
            rss_b=ending.rss_b,
            extra={"MemoryProvisioned": str(granted)} if granted else {},
            t=at,
        )
        return end if self._verdicts is None else self._verdicts.judge(end, phases)

    def _on_terminate(self, job: int, record: Record) -> Iterable[Event]:
        phases, at = self._phases, record.at
        if phases.phase[job] == _OVER:
            return ()
        events: list[Event] = []
        if phases.phase[job] == _HELD:
            events += self._release_job(job, at)
        elif phases.phase[job] == _UNDECIDED:
            # It was started again, without a record.
            events += self._queue_attempt(job, at)
        ending = log_records.parse_termination(record.body)
        end = self._end_attempt(job, ending, at)
        events.append(end)
        phases.phase[job] = _OVER
        phases.job_of_cluster.pop(record.cluster, None)
        if end.cause is not None:
            judged = msgspec.structs.replace(ending, exit=end.exit, cause=end.cause, reason=end.reason)
            rule = self._no_retry(job, judged, phases.attempts[job])
            events += self._fail_node(job, end.cause, rule or end.reason or "", at)
        return events

    def _fail_node(self, job: int, cause: Cause, why: str, at: float) -> list[Event]:
        """A node failed: DAGMan retries it, or it failed for good."""
        failures = self._phases.node_failures[job] = self._phases.node_failures.get(job, 0) + 1
        if failures <= self._retries.failures.get(job, 0):
            self._phases.phase[job] = _UNDECIDED
            self._phases.causes[job] = cause
            return []
        del self._phases.node_failures[job]
        self._phases.phase[job], self._phases.has_failures = _OVER, True
        number = self._phases.attempts[job]
        return [Failed(j=job, why=f"{why}; {number} attempts were made" if number > 1 else why, t=at)]

    def _on_evict(self, job: int, record: Record) -> Iterable[Event]:
        phases = self._phases
        if phases.phase[job] != _RUNNING:
            return ()
        ending = log_records.parse_eviction(record.body)
        if ending.cause is None:
            # A requeued job was no success, even with exit code 0.
            ending = msgspec.structs.replace(ending, cause=Cause.PREDICATE, reason="its own rule has it run again")
        event = self._end_attempt(job, ending, record.at)
        phases.causes[job] = event.cause or Cause.PREDICATE
        phases.phase[job] = _UNDECIDED
        return [event, *self._queue_attempt(job, record.at)] if ending.is_requeued else [event]

    def _on_lost_shadow(self, job: int, record: Record) -> Iterable[Event]:
        if self._phases.phase[job] != _RUNNING:
            return ()
        return self._lose_attempt(job, record.at, log_records.parse_reason(record.body) or "its shadow failed")

    def _lose_attempt(self, job: int, at: float, why: str) -> list[Event]:
        phases = self._phases
        phases.causes[job] = Cause.LOST
        phases.phase[job] = _UNDECIDED
        phases.queue_seconds.pop(job, None)
        return [Lost(j=job, a=phases.attempts[job], why=why, t=at)]

    # ------------------------------------------------------------------------------------------------- hold and release

    def _on_hold(self, job: int, record: Record) -> Iterable[Event]:
        phases, at = self._phases, record.at
        phase = phases.phase[job]
        if phase in (_OVER, _HELD):
            return ()
        hold = log_records.parse_hold(record.body)
        steer = Steer(who=AUTHOR, act="hold", jobs=(job,), set={"why": hold.reason, "code": str(hold.code)}, t=at)
        phases.holds[job] = hold
        if phase == _PENDING:
            return self._withdraw_attempt(job, hold.reason, at, steer)
        events: list[Event] = []
        if phase == _RUNNING:
            events.append(self._end_attempt(job, log_records.end_of_hold(hold), at))
            phases.causes[job] = hold.cause
        phases.phase[job] = _HELD
        cause = phases.causes[job]
        return [*events, steer, Retry(j=job, a=phases.attempts[job] + 1, cause=cause, t=at)]

    def _withdraw_attempt(self, job: int, why: str, at: float, event: Event) -> list[Event]:
        """Withdraw an attempt that only waited in the queue."""
        phases = self._phases
        batch, number = phases.batch_id(job), phases.attempts[job]
        phases.attempts[job] = number - 1
        phases.phase[job] = _HELD
        return [event, Refused(b=batch, why=why, jobs=((job, number),), t=at)]

    def _on_release(self, job: int, record: Record) -> Iterable[Event]:
        return self._release_job(job, record.at) if self._phases.phase[job] == _HELD else ()

    def _release_job(self, job: int, at: float) -> list[Event]:
        phases = self._phases
        phases.holds.pop(job, None)
        # The retry is an event already.
        phases.causes.pop(job, None)
        return [Steer(who=AUTHOR, act="release", jobs=(job,), t=at), *self._queue_attempt(job, at)]

    # ---------------------------------------------------------------------------------------------------------- removed

    def _on_abort(self, job: int, record: Record) -> Iterable[Event]:
        phases, at = self._phases, record.at
        phases.job_of_cluster.pop(record.cluster, None)
        if phases.phase[job] == _OVER:
            return ()
        why = log_records.parse_reason(record.body) or "it was removed"
        if log_records.is_removed_by_rule(why):
            return self._remove_by_rule(job, why, at)
        # Removed with its DAG: the run was cancelled, perhaps with other tools than Longshore.
        is_new_cancel = log_records.is_removed_with_dag(why) and not phases.is_cancelled
        if log_records.is_removed_by_person(why):
            retried = self._retry_removed(job, why, at)
            return self._remove_job(job, why, at, is_by_person=True) if retried is None else retried
        return [*(self._cancel_events(at) if is_new_cancel else ()), *self._remove_job(job, why, at)]

    def _retry_removed(self, job: int, why: str, at: float) -> list[Event] | None:
        """A person removed a job that DAGMan submits again; ``None`` if it does not."""
        phases = self._phases
        number = phases.node_failures.get(job, 0) + 1
        if number > self._retries.removals.get(job, 0):
            return None
        phases.node_failures[job] = number
        phase = phases.phase[job]
        phases.holds.pop(job, None)
        events: list[Event] = []
        if phase == _RUNNING:
            events.append(self._end_attempt(job, AttemptEnd(cause=Cause.CANCELLED, reason=why), at))
            phases.causes[job] = Cause.CANCELLED
        elif phase == _PENDING:
            batch, attempt = phases.batch_id(job), phases.attempts[job]
            phases.attempts[job] = attempt - 1
            events.append(Refused(b=batch, why=why, jobs=((job, attempt),), t=at))
        elif phase == _HELD:
            phases.causes.pop(job, None)
            events.append(Steer(who=AUTHOR, act="release", jobs=(job,), t=at))
        phases.phase[job] = _UNDECIDED
        return events

    def _cancel_events(self, at: float) -> list[Event]:
        """The run was removed: by an unconfirmed cancel, or with other tools than Longshore."""
        phases, cancel = self._phases, self._unconfirmed_cancel
        phases.is_cancelled = True
        if cancel is None:
            return [Steer(who=AUTHOR, act="cancel", t=at)]
        phases.early_cancel_at = cancel.t
        return [cancel]

    def _remove_job(self, job: int, why: str, at: float, *, is_by_person: bool = False) -> list[Event]:
        phases = self._phases
        phase = phases.phase[job]
        deleted = Deleted(jobs=(job,), why=why if is_by_person else "", t=at)
        phases.holds.pop(job, None)
        phases.causes.pop(job, None)
        events: list[Event] = [deleted]
        if phase == _PENDING:
            events = self._withdraw_attempt(job, why, at, deleted)
        elif phase == _RUNNING:
            events.append(self._end_attempt(job, AttemptEnd(cause=Cause.CANCELLED, reason=why), at))
        phases.phase[job], phases.has_failures = _OVER, True
        return events

    def _remove_by_rule(self, job: int, why: str, at: float) -> list[Event]:
        phases = self._phases
        phase, hold = phases.phase[job], phases.holds.pop(job, None)
        cause = hold.cause if hold else phases.causes.get(job) or Cause.WALLTIME
        events: list[Event] = []
        if phase == _HELD and hold and job not in phases.causes:
            # It was held before its start: only an attempt can record the reason.
            events += [
                *self._release_job(job, at),
                self._end_attempt(job, AttemptEnd(cause=cause, reason=hold.reason), at),
            ]
        if phase == _RUNNING:
            events.append(self._end_attempt(job, AttemptEnd(cause=Cause.WALLTIME, reason=why), at))
        elif phase == _PENDING:
            events.append(self._end_attempt(job, AttemptEnd(cause=Cause.PEND_TIMEOUT, reason=why), at))
        phases.causes.pop(job, None)
        if hold:
            held = AttemptEnd(cause=cause, reason=hold.reason)
            why = self._no_retry(job, held, phases.attempts[job]) or log_records.describe_removal(hold.reason, why)
        return [*events, *self._fail_node(job, cause, why, at)]

    # ---------------------------------------------------------------------------------------------------------- the end

    def end_run(self, at: float, *, is_removed: bool, submit_failures: Mapping[int, str]) -> list[Event]:
        """Close the run after DAGMan ended: no job can change any more.

        `is_removed` says whether DAGMan was removed, or vanished without a record. `submit_failures` has the reasons of
        nodes that were never submitted, and that DAGMan counts as failed.
        """
        phases = self._phases
        phases.provisioner = job_phases.end_with_run(phases.provisioner, at)
        events: list[Event] = []
        if is_removed and not phases.is_cancelled:
            events += self._cancel_events(at)
        for job, why in sorted(submit_failures.items()):
            if phases.phase[job] == _IDLE:
                events += self._queue_attempt(job, at)
                events.append(self._end_attempt(job, AttemptEnd(cause=Cause.SUBMIT, reason=why), at))
                events += self._fail_job(job, why, at)
        idle_jobs = []
        for job in self._nodes.jobs():
            phase = phases.phase[job]
            if phase == _UNDECIDED:
                events += self._fail_job(job, "DAGMan ended before it was tried again", at)
            elif phase == _RUNNING:
                events += self._lose_attempt(job, at, "DAGMan is gone, and nothing says how this attempt ended")
                events += self._fail_job(job, "it was lost with DAGMan", at)
            elif phase == _PENDING:
                events += self._remove_job(job, "DAGMan is gone", at)
            elif phase != _OVER:
                idle_jobs.append(job)
                phases.phase[job] = _OVER
        if idle_jobs:
            events.append(Deleted(jobs=tuple(idle_jobs), t=at))
        phases.job_of_cluster, phases.holds = {}, {}
        return events

    def _fail_job(self, job: int, why: str, at: float) -> list[Event]:
        self._phases.causes.pop(job, None)
        self._phases.phase[job], self._phases.has_failures = _OVER, True
        return [Failed(j=job, why=why, t=at)]


RECORD_HANDLERS: Final[Mapping[int, Callable[[EventBuilder, int, Record], Iterable[Event]]]] = {
    int(EventType.EXECUTE): EventBuilder._on_execute,
    int(EventType.EVICTED): EventBuilder._on_evict,
    int(EventType.TERMINATED): EventBuilder._on_terminate,
    int(EventType.SHADOW_EXCEPTION): EventBuilder._on_lost_shadow,
    int(EventType.ABORTED): EventBuilder._on_abort,
    int(EventType.HELD): EventBuilder._on_hold,
    int(EventType.RELEASED): EventBuilder._on_release,
    int(EventType.RECONNECT_FAILED): EventBuilder._on_lost_shadow,
}


# Says by which rule of its submit description HTCondor did not try a job again.


class NoRetryReasons:
    """Reasons why jobs of a submission were not tried again; the first use reads its jobs."""

    def __init__(self, jobs: DagJobs) -> None:
        self._jobs = jobs

    def of(self, job: int, end: AttemptEnd, attempts: int) -> str:
        """Return the rule; empty if the rules of the run would have had it tried again."""
        settings = self._jobs.table.settings(self._jobs.own_number(job))
        rules = make_retry_rules(settings, retries_on_lost=0, capacity=None)
        return explain_no_retry(end, attempts, rules)


def explain_no_retry(end: AttemptEnd, attempts: int, rules: RetryRules) -> str:
    """Return the rule by which a job is not tried again after an end; empty if it would be."""
    ended = Ended(j=0, a=attempts, exit=end.exit, signal=end.signal, cause=end.cause, reason=end.reason)
    # Only the number of all attempts is known: each had the same end, as far as its budget goes.
    own = end.cause in rules.own_causes
    ends = BadEnds(
        tries=attempts,
        spent_ooms=attempts if own and end.cause is Cause.OOM else 0,
        spent_overtimes=attempts if own and end.cause is Cause.WALLTIME else 0,
    )
    decision = decide_retry(ended, bad_ends=ends, rules=rules)
    return decision.why if isinstance(decision, Failed) else ""


# Converts a DAG's log into brief events: one event for a job that succeeded at its first attempt. Nearly all jobs do.
# The others go through `EventBuilder`, the reference; both leave the same job phases. Starts of attempts are delayed
# until their end is known. No other job depends on them unless the run is cancelled.


_SUBMIT: Final = b"%03d" % EventType.SUBMIT
_EXECUTE: Final = b"%03d" % EventType.EXECUTE
_TERMINATED: Final = b"%03d" % EventType.TERMINATED
_ABORTED: Final = b"%03d" % EventType.ABORTED
_MOST_DIGITS: Final = 9
"""Digits of the numbers of clusters that are handled briefly."""
_HANDLED: Final = frozenset(b"%03d" % event_type for event_type in (EventType.SUBMIT, *RECORD_HANDLERS))


class BriefEventBuilder:
    """Builder of brief events of one submission while its log is read; `builder` takes all but simple successes.

    With `with_attempts`, an event of a whole attempt has the host and the processor time that `builder` would give.
    """

    def __init__(self, builder: EventBuilder, log: UserLog, *, with_attempts: bool = False) -> None:
        self._builder = builder
        self._log = log
        self._with_attempts = with_attempts
        # Texts of submit and execute records, per cluster number as in the log.
        self._submit_texts: dict[bytes, bytes] = {}
        self._execute_texts: dict[bytes, bytes] = {}
        self._full_clusters: set[bytes] = set()
        """Clusters that `EventBuilder` handles."""

    def events(self) -> Iterator[BriefEvent]:
        """All events, in the order of the log except for delayed starts."""
        for texts in self._log.read_texts():
            yield from self._convert(texts)
        yield from self._convert_delayed(list(self._submit_texts))

    def _convert(self, texts: Iterable[bytes]) -> Iterator[BriefEvent]:
        submits, executes, full_clusters = self._submit_texts, self._execute_texts, self._full_clusters
        for text in texts:
            event_type = text[:3]
            if event_type not in _HANDLED:
                continue
            cluster = text[5 : text.find(b".", 5)]
            if cluster not in full_clusters:
                if event_type == _SUBMIT and cluster not in submits:
                    submits[cluster] = text
                    continue
                if event_type == _EXECUTE and cluster in submits and cluster not in executes:
                    executes[cluster] = text
                    continue
                if event_type == _TERMINATED and cluster in executes and (passed := self._success(cluster, text)):
                    del submits[cluster], executes[cluster]
                    yield passed
                    continue
                yield from self._convert_delayed([cluster])
            if event_type == _ABORTED:
                # Perhaps removed with its DAG: then the run is cancelled, and started attempts end differently.
                yield from self._convert_delayed(list(submits))
            yield from self._convert_fully(text)

    def _success(self, cluster: bytes, end: bytes) -> AttemptSucceeded | None:
        began = self._execute_texts[cluster]
        started, ended = self._log.parse_time(began, cluster), self._log.parse_time(end, cluster)
        if started is None or ended is None or not (cluster.isdigit() and log_records.is_success(end)):
            return None
        if len(cluster) > _MOST_DIGITS:
            return None
        host = log_records.parse_host(began) if self._with_attempts else None
        if self._with_attempts and not host:
            return None
        node = log_records.parse_node(self._submit_texts[cluster])
        attempt = self._builder.brief_success(node, int(cluster), started=started)
        if attempt is None:
            return None
        peak_memory_b, _ = log_records.parse_memory_row(end)
        cpu_s = log_records.parse_cpu_s(end) if self._with_attempts else None
        run_s = ended - started if ended > started else 0.0
        return AttemptSucceeded(*attempt, started, ended, run_s, peak_memory_b, host, ended, cpu_s)

    def _convert_delayed(self, clusters: Iterable[bytes]) -> Iterator[Event]:
        """Pass delayed records of these clusters to `EventBuilder`."""
        for cluster in clusters:
            self._full_clusters.add(cluster)
            for delayed in (self._submit_texts, self._execute_texts):
                if text := delayed.pop(cluster, None):
                    yield from self._convert_fully(text)

    def _convert_fully(self, text: bytes) -> Iterable[Event]:
        record = self._log.parse_record(text)
        return self._builder.convert(record) if record else ()
