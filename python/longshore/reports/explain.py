"""How it is found why a job waits, runs or failed: from its events, those of its ancestors, and its run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs
from msgspec.structs import replace

from longshore.contract.executor import ExecutorOwner, ResourceProbe
from longshore.engine.policy.retry import RetryRules, make_retry_rules
from longshore.engine.run.progress import code_of_waiting
from longshore.engine.run_settings import read_settings
from longshore.engine.schedule.resource_pool import Pool
from longshore.errors import LongshoreError
from longshore.model.event import (
    Attempt,
    AttemptSucceeded,
    BriefEvent,
    Deleted,
    Event,
    Finished,
    Life,
    Restarted,
    Steer,
    decode_events,
)
from longshore.model.report import Snapshot
from longshore.model.states import TERMINAL_STATES, Cause, JobState
from longshore.model.submission import REUSED_FROM
from longshore.model.tasks import collection_paused
from longshore.model.workflow import Request
from longshore.reports.attempts import AttemptRecords, attempts_of
from longshore.reports.explanation import (
    BlockingGroup,
    JobExplanation,
    PoolUsage,
    RelatedJob,
    ThrottleUsage,
    explanation_text,
    limit_usage,
    state_reasons,
)
from longshore.reports.join_successes import SuccessJoiner
from longshore.reports.logs import find_kept_log
from longshore.reports.show_job import asked_resources, retry_budgets
from longshore.rundir.batch_records import describe_copy, read_marks
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_snapshot, read_waiting
from longshore.runstate.apply_events import apply_events
from longshore.runstate.events import active_requests, event_blocks, events_of_jobs
from longshore.runstate.open_run import OpenRun, find_job, map_index_errors
from longshore.runstate.replay import initial_state, replay
from longshore.runstate.run_state import ACTIVE, JOB_STATES, OVER, JobCode, RunState
from longshore.runstate.steering import WHOLE_RUN

_SMALL_ANCESTRY = 1000
"""Number of ancestors up to which only their events are decoded. Beyond, all events are: joined, they take half of the
time.
"""


class JobReplay:
    """State of a job and its ancestors; for other jobs, `state` is meaningless.

    `blocks` are those of `longshore.runstate.events.event_blocks`. Raises `RunUnreadableError` if a line is no
    event. The events of more than `small` ancestors are read with those of all jobs.
    """

    def __init__(self, table: JobTable, blocks: Sequence[bytes], job: int, *, small: int = _SMALL_ANCESTRY) -> None:
        self._blocks = blocks
        self._job = job
        self._kept: list[Event] = []
        self._joined: set[int] = set()
        """Jobs of which events of a successful attempt were joined, and are not kept."""
        ancestors = table.ancestors(job, most=small)
        with collection_paused():
            if len(ancestors) <= small:
                self._kept = events_of_jobs(blocks, set(ancestors))
                self.state = replay(table, self._kept, ancestors)
            else:
                self.state = self._replay_all(table)

    def _replay_all(self, table: JobTable) -> RunState:
        state = initial_state(table)
        joiner = SuccessJoiner()
        for block in self._blocks:
            self._add(state, joiner.join(decode_events(block, path="the journal")))
        self._add(state, list(joiner.release()))
        if state.attempts[self._job]:
            # A joiner changes the submission of a batch: some of its jobs may have succeeded.
            self._joined.add(self._job)
        return state

    def _add(self, state: RunState, events: Iterable[BriefEvent]) -> None:
        apply_events(state, events)
        self._joined.update([event.j for event in events if type(event) is AttemptSucceeded])
        self._kept.extend([event for event in events if not isinstance(event, AttemptSucceeded)])

    def events_of(self, jobs: set[int]) -> Sequence[Event]:
        """Return all events that concern the job or some of its ancestors, or the whole run, in order; perhaps more."""
        return self._kept if self._joined.isdisjoint(jobs) else events_of_jobs(self._blocks, jobs)


_BLOCKED_CODES = frozenset({JobCode.UNREADY, JobCode.PRUNED})


def explain_job(opened: OpenRun, reference: str, *, now: float | None = None) -> JobExplanation:
    """Explain a job, given by name, unique beginning of its name, or index; `now` is the time of the explanation.

    Raises `RunNotFoundError` if the job does not exist, `RunUnreadableError` if the run directory is damaged.
    """
    as_of = time.time() if now is None else now
    # Queried before the events are read: an engine that ends in between has written its last event by then.
    alive = _engine_liveness(opened)
    table = JobTable(opened.run, "names", "parents")
    job = find_job(opened, table, reference)
    with map_index_errors(opened.run):
        found = _ExplanationBuilder(opened, table, job, alive=alive).build(as_of)
    found = replace(found, reasons=state_reasons(found))
    return replace(found, text=explanation_text(found))


def _engine_liveness(opened: OpenRun) -> bool | None:
    try:
        answer = opened.is_alive()
    except LongshoreError:
        # Without the installed service, the recorded events still explain the job.
        return None
    return answer if isinstance(answer, bool) else None


class _ExplanationBuilder:
    """Collects the explanation of one job."""

    def __init__(self, opened: OpenRun, table: JobTable, job: int, *, alive: bool | None) -> None:
        self._opened = opened
        self._table = table
        self._job = job
        self._alive = alive
        self._blocks = event_blocks(opened)
        replayed = JobReplay(table, self._blocks, job)
        self._state = replayed.state
        self._unknown = opened.find_unknown_jobs(self._state)
        self._causes = self._find_causes()
        self._events = [opened.hide_reason(event) for event in replayed.events_of({job, *self._causes})]

    def build(self, as_of: float) -> JobExplanation:
        table, job, state = self._table, self._job, self._state
        snapshot = read_snapshot(self._opened.run)
        causes = self._causes
        attempts = attempts_of(table, {job, *causes}, self._events)
        own_attempts = attempts.of(job)
        settings = table.settings(job)
        code = state.code[job]
        finished = state.finish_event is not None
        has_no_engine = self._alive is not True and not finished
        has_stopped = has_no_engine and self._alive is False
        if has_stopped:
            # From here on, they are among the damages of the run.
            _ = self._opened.record_damages
        rules = make_retry_rules(settings, retries_on_lost=0, capacity=None)
        if (retries := state.set_retries.get(job)) is not None:
            rules = rules.with_retries(retries)
        used = _used_retries(state, job, own_attempts, rules)
        request = state.requests.get(job) or (own_attempts[-1].requested if own_attempts else None) or settings.request
        manager_reason, is_held = ("", False) if has_no_engine else self._manager_reason(code)
        return JobExplanation(
            as_of=as_of,
            run=self._opened.card.id,
            name=table.names[job],
            index=job,
            label=settings.label,
            state=JobState.UNKNOWN
            if (has_no_engine and code in ACTIVE) or job in self._unknown
            else JobState.HELD
            if is_held
            else JOB_STATES[code],
            is_undecided=code == JobCode.UNDECIDED,
            is_final=job == table.final,
            parents=len(table.parents[job]),
            waits_for=tuple(self._related_job(each) for each in self._waits_for()),
            blocking_groups=tuple(self._blocking_groups()),
            causes=tuple(self._related_job(each, attempts) for each in causes),
            request=request,
            attempts=self._with_copies(own_attempts, table.names[job]),
            logs={each.number: log for each in own_attempts if (log := self._attempt_log(each)) is not None},
            events=tuple(self._job_events()),
            retries=rules.retries,
            retry_unless_exit=settings.retry_unless_exit,
            used_retries=min(used["numberOfRetries"], rules.retries),
            retry_budgets=retry_budgets(rules, used),
            not_before=state.not_before.get(job),
            note=snapshot.note if snapshot and not has_no_engine and not finished else "",
            counts=snapshot.counts if snapshot else {},
            room=self._room(request) if code == JobCode.READY and not finished else None,
            throttles=() if finished else tuple(self._throttles(settings.label, snapshot)),
            is_engine_alive=self._alive,
            stopped_at=self._stopped_at(snapshot) if has_stopped and JOB_STATES[code] not in TERMINAL_STATES else None,
            is_run_finished=finished,
            manager_reason=self._opened.hide_secrets(manager_reason),
            pause="" if finished else state.paused,
            asked=asked_resources(self._opened, structs.replace(settings, request=request)),
            limits=limit_usage(self._opened.run, settings) if code == JobCode.READY and not finished else (),
        )

    def _manager_reason(self, code: int) -> tuple[str, bool]:
        """Return the workload manager's reason to wait, and whether only a person can release the job."""
        waiting = read_waiting(self._opened.run)
        if code != code_of_waiting(waiting, self._job):
            return "", False
        for reason, jobs in waiting.reasons.items():
            if self._job in jobs:
                held = reason in waiting.held
                if mend := waiting.hopeless.get(reason):
                    return f"{reason}, for which it can never start: {mend}", held
                return (f"{reason}; {waiting.hint}" if held and waiting.hint else reason), held
        return "", False

    def _throttles(self, label: str, snapshot: Snapshot | None) -> Iterator[ThrottleUsage]:
        """Yield the throttles of the job's label and of the run."""
        throttles = self._state.throttles
        if (most := throttles.get(self._table.labels.index(label))) is not None:
            yield ThrottleUsage(
                label=label, maximum=most, active=_active_count(snapshot.labels.get(label, {}) if snapshot else {})
            )
        if (most := throttles.get(WHOLE_RUN)) is not None:
            yield ThrottleUsage(label=None, maximum=most, active=_active_count(snapshot.counts if snapshot else {}))

    def _stopped_at(self, snapshot: Snapshot | None) -> float | None:
        life = self._state.life
        if life is None:
            return None
        return snapshot.at if snapshot and snapshot.life == life.life else life.t

    def _code(self, job: int) -> int:
        return self._state.code[job]

    def _waits_for(self) -> list[int]:
        """Return the parents that have not succeeded; for the final job, all jobs that are not over."""
        if self._job == self._table.final:
            return [job for job in range(self._job) if JOB_STATES[self._code(job)] not in TERMINAL_STATES]
        return [parent for parent in self._table.parents[self._job] if self._code(parent) != JobCode.SUCCEEDED]

    def _blocking_groups(self) -> Iterator[BlockingGroup]:
        """Yield the groups that block the job, with the number of their unfinished jobs."""
        for barrier in self._table.barriers_before(self._job):
            done = (JobCode.SUCCEEDED,) if barrier.blocking else OVER
            if left := sum(self._code(each) not in done for each in barrier.after):
                yield BlockingGroup(title=barrier.title, must_succeed=barrier.blocking, unfinished=left)

    def _find_causes(self) -> list[int]:
        """Find the root causes: ancestors that block the job, beyond those that only wait or were pruned."""
        own = self._code(self._job)
        if own not in _BLOCKED_CODES or self._job == self._table.final:
            return []
        is_cause: Callable[[int], bool] = (
            (lambda code: code in (JobCode.FAILED, JobCode.DELETED))
            if own == JobCode.PRUNED
            else (lambda code: code not in _BLOCKED_CODES and code != JobCode.SUCCEEDED)
        )
        causes: list[int] = []
        visited = {self._job}
        stack = [self._job]
        while stack:
            each = stack.pop()
            groups = (barrier.after for barrier in self._table.barriers_before(each))
            for parent in chain(self._table.parents[each], *groups):
                if parent in visited:
                    continue
                visited.add(parent)
                if is_cause(self._code(parent)):
                    causes.append(parent)
                elif self._code(parent) in _BLOCKED_CODES:
                    stack.append(parent)
        return sorted(causes)

    def _with_copies(self, attempts: Sequence[Attempt], name: str) -> tuple[Attempt, ...]:
        """Return attempts; the reason of an attempt that was given up also describes its copy."""
        found = {mark.attempt: mark for mark in read_marks(self._opened.run) if mark.name == name}
        words = {number: describe_copy(mark, time.time()) for number, mark in found.items()}
        return tuple(
            structs.replace(each, reason="; ".join(filter(None, (each.reason, words[each.number]))))
            if words.get(each.number)
            else each
            for each in attempts
        )

    def _related_job(self, job: int, attempts: AttemptRecords | None = None) -> RelatedJob:
        newest = next(reversed(attempts.of(job)), None) if attempts else None
        return RelatedJob(
            name=self._table.names[job],
            state=JOB_STATES[self._code(job)],
            attempt=newest,
            log=self._log(job, newest.number) if newest else None,
        )

    def _attempt_log(self, attempt: Attempt) -> str | None:
        """Return the path of an own attempt's log; ``None`` if it is in another run that is gone."""
        if earlier := attempt.extra.get(REUSED_FROM):
            return find_kept_log(earlier, self._table.names[self._job])
        return self._log(self._job, attempt.number)

    def _log(self, job: int, number: int) -> str:
        run = self._opened.run
        return str(run.root / self._opened.log_of(job, self._table.names[job], self._table.label(job), number))

    def _job_events(self) -> Iterable[tuple[str, Event]]:
        """Return the events that touched the job, each with its mark."""
        batches: set[str] = set()
        life, number = 0, 0
        for event in self._events:
            if isinstance(event, Life):
                life, number = event.life, 0
            else:
                number = event.n or number + 1
            if self._touches(event, batches):
                yield f"{life}.{number}", event

    def _touches(self, event: Event, batches: set[str]) -> bool:
        job = self._job
        if isinstance(event, Steer) and event.jobs is not None:
            return job in event.jobs
        if isinstance(event, Steer):
            return _is_selected_by(event, self._table.names[job], self._table.label(job))
        if isinstance(event, Life | Finished):
            return False
        if isinstance(event, Restarted | Deleted):
            return job in event.jobs
        members: Sequence[tuple[int, int]] | None = getattr(event, "jobs", None)
        batch = getattr(event, "b", None)
        if members is not None:
            if not any(member == job for member, _ in members):
                return False
            batches.add(str(batch))
            return True
        return batch in batches if batch is not None else getattr(event, "j", None) == job

    def _room(self, request: Request) -> PoolUsage | None:
        """Return the free resources of this machine; ``None`` for other workload managers, which do not report them."""
        service = self._opened.service
        if not isinstance(service, ExecutorOwner) or not service.traits.runs_on_submit_host:
            return None
        executor = service.executor(read_settings(self._opened.run).executor)
        capacity = executor.probe().capacity if isinstance(executor, ResourceProbe) else None
        if capacity is None:
            return None
        pool = Pool(capacity)
        active = active_requests(self._blocks)
        for taken in active.values():
            pool.take(pool.clamp(taken.amounts()))
        return PoolUsage(
            capacity=pool.capacity, free=pool.free, requested=pool.clamp(request.amounts()), active=len(active)
        )


def _used_retries(state: RunState, job: int, own_attempts: Sequence[Attempt], rules: RetryRules) -> dict[str, int]:
    """Count the retries that were spent, by the key of their budget."""
    spent = {cause: state.spent_counts.get((job, cause), 0) for cause in rules.own_causes}
    others = state.tries[job] - state.lost[job] - sum(spent.values())
    if state.code[job] in {JobCode.FAILED, JobCode.UNDECIDED}:
        # No retry follows the newest bad end, or none yet.
        newest = own_attempts[-1].cause if own_attempts else None
        if newest in spent:
            spent[newest] -= 1
        elif newest is not Cause.LOST:
            others -= 1
    return {
        "numberOfRetries": max(others, 0),
        "retryOn": max(others, 0),
        "retryOnMemory": spent.get(Cause.OOM, 0),
        "retryOnTime": spent.get(Cause.WALLTIME, 0),
        "retryOnPreempted": spent.get(Cause.PREEMPTED, 0),
        "retryOnTransfer": spent.get(Cause.TRANSFER, 0) + spent.get(Cause.INPUT_MISSING, 0),
    }


def _active_count(counts: Mapping[JobState, int]) -> int:
    return counts.get(JobState.PENDING, 0) + counts.get(JobState.RUNNING, 0)


def _is_selected_by(event: Steer, name: str, label: str) -> bool:
    """Tell whether an intervention selects a job; an empty selection is the whole run."""
    if not event.select:
        return True
    return name in event.select.get("jobs", ()) or label in event.select.get("labels", ())
