"""Applies events to the state of a run, one or many, identically in the engine and in every report; pure.

The meaning of an event never changes: every decision is an event of its own. Decision 0002 has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from longshore.model.event import (
    AttemptFacts,
    AttemptSucceeded,
    BriefEvent,
    Deleted,
    Ended,
    Failed,
    Finished,
    Life,
    LossAccepted,
    Lost,
    Refused,
    Restarted,
    Retry,
    Sealed,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.states import Cause
from longshore.runstate.run_state import ACTIVE, JobCode, RunState
from longshore.runstate.steering import apply_steer

_READY: Final = int(JobCode.READY)
_PENDING: Final = int(JobCode.PENDING)
_RUNNING: Final = int(JobCode.RUNNING)


def apply_event(state: RunState, event: BriefEvent) -> None:
    """Change the state of a run as an event says."""
    _HANDLERS[type(event)](state, event)
    if state.barriers.ended_jobs:
        state.pass_barriers()


def _life(state: RunState, event: Life) -> None:
    state.life = event
    state.finish_event = None


def _sealed(state: RunState, event: Sealed) -> None:
    """Change nothing: a seal concerns files, and their readers apply it."""


def _loss_accepted(state: RunState, event: LossAccepted) -> None:
    """Change nothing: readers of files apply the seals beside it."""


def _attempt_facts(state: RunState, event: AttemptFacts) -> None:
    """Change nothing: no state depends on what an attempt used."""


def _submitting(state: RunState, event: Submitting) -> None:
    state.batches[event.b] = event
    code, counts, labels = state.code, state.counts, state.labels
    attempts, active, batch = state.attempts, state.active, event.b
    for job, attempt in event.jobs:
        if code[job] == _READY:
            # As `set_code`, without a call per job.
            row = counts[labels[job]]
            row[_READY] -= 1
            row[_PENDING] += 1
            code[job] = _PENDING
        else:
            state.set_code(job, _PENDING)
        attempts[job] = attempt
        active[job] = batch
    if state.not_before:
        for job, _ in event.jobs:
            state.not_before.pop(job, None)
    if event.ids or state.identities:
        for job, _ in event.jobs:
            state.identities.pop(job, None)
        state.identities.update(event.ids)


def _submitted(state: RunState, event: Submitted) -> None:
    state.batches.pop(event.b, None)


def _refused(state: RunState, event: Refused) -> None:
    batch = state.batches.pop(event.b, None)
    for job, attempt in event.jobs if event.jobs is not None else batch.jobs if batch else ():
        if state.active.get(job) != event.b or not state.is_active_attempt(job, attempt):
            continue
        state.deactivate(job)
        if event.spent:
            end = Ended(t=event.t, j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why, hopeless=event.hopeless)
            state.end_unsuccessfully(job, end)
        else:
            state.take_back(job)
    state.release_final()


def _started(state: RunState, event: Started) -> None:
    if state.is_active_attempt(event.j, event.a):
        state.set_code(event.j, _RUNNING)


def _ended(state: RunState, event: Ended) -> None:
    if not state.is_active_attempt(event.j, event.a):
        return
    if event.cause is None:
        state.succeed(event.j, event.t, event.run_s)
        return
    # Without its run time: a failure says nothing of how long others take, and must not have more of its kind started.
    state.deactivate(event.j)
    state.last_end = event.t
    state.end_unsuccessfully(event.j, event)
    state.release_final()


def _attempt_succeeded(state: RunState, event: AttemptSucceeded) -> None:
    """Apply the submission, start and end of an attempt at once."""
    state.attempts[event.j] = event.a
    state.not_before.pop(event.j, None)
    state.identities.pop(event.j, None)
    state.succeed(event.j, event.t, event.run_s)


def _lost(state: RunState, event: Lost) -> None:
    if state.is_active_attempt(event.j, event.a):
        state.deactivate(event.j)
        state.last_end = event.t
        state.end_unsuccessfully(event.j, event)
        state.release_final()


def _retry(state: RunState, event: Retry) -> None:
    if state.undecided_ends.pop(event.j, None) is None:
        return
    if event.request is not None:
        state.requests[event.j] = event.request
    if event.not_before is not None:
        state.not_before[event.j] = event.not_before
        if event.t:
            state.delays[event.j] = max(0.0, event.not_before - event.t)
    state.make_ready(event.j)


def _failed(state: RunState, event: Failed) -> None:
    # A manager that holds jobs may give up a job that the engine was to retry.
    is_held = 0 <= event.j < state.size and state.code[event.j] == JobCode.HELD
    if state.undecided_ends.pop(event.j, None) is None and not is_held:
        return
    state.fail(event.j)
    if event.aborts:
        state.paused = ""
        state.delete_all(keep=state.final)
    state.release_final()


def _steer(state: RunState, event: Steer) -> None:
    state.orders.add(event.order)
    apply_steer(state, event)
    if event.act == "cancel" and not event.select:
        state.is_cancelled = True
        # The remaining jobs, perhaps only the final job, still come to their end.
        state.paused = ""
        if state.final >= 0:
            state.release(state.final)
        state.delete_all(keep=state.final if event.set.get("final") != "no" else -1)
        state.release_final()


def _deleted(state: RunState, event: Deleted) -> None:
    state.orders.add(event.order)
    for job in event.jobs:
        if state.delete(job):
            state.prune_below(job)
    state.release_final()


def _restarted(state: RunState, event: Restarted) -> None:
    state.orders.add(event.order)
    state.is_cancelled = False
    state.paused = ""
    state.finish_event = None
    state.rerun(event.jobs)


def _finished(state: RunState, event: Finished) -> None:
    state.finish_event = event


_HANDLERS: Final[dict[type, Callable[[RunState, Any], None]]] = {
    Life: _life,
    Sealed: _sealed,
    LossAccepted: _loss_accepted,
    Submitting: _submitting,
    Submitted: _submitted,
    Refused: _refused,
    Started: _started,
    Ended: _ended,
    AttemptFacts: _attempt_facts,
    AttemptSucceeded: _attempt_succeeded,
    Lost: _lost,
    Retry: _retry,
    Failed: _failed,
    Steer: _steer,
    Deleted: _deleted,
    Restarted: _restarted,
    Finished: _finished,
}


# Many events, in half of the time.


_IS_ACTIVE: Final = bytes(code in ACTIVE for code in JobCode)


def apply_events(state: RunState, events: Iterable[BriefEvent]) -> None:
    """Change the state of a run as events say, in order: in half of the time, where most are starts and successes."""
    if state.barriers:
        for event in events:
            apply_event(state, event)
        return
    size, code, attempts, labels, counts = state.size, state.code, state.attempts, state.labels, state.counts
    not_before, identities, succeed = state.not_before, state.identities, state.succeed
    for event in events:
        if type(event) is Started:
            job = event.j
            # As `is_active_attempt` and `set_code`.
            if 0 <= job < size and attempts[job] == event.a and _IS_ACTIVE[code[job]]:
                row = counts[labels[job]]
                row[code[job]] -= 1
                row[_RUNNING] += 1
                code[job] = _RUNNING
        elif type(event) is Ended and event.cause is None:
            job = event.j
            if 0 <= job < size and attempts[job] == event.a and _IS_ACTIVE[code[job]]:
                succeed(job, event.t, event.run_s)
        elif type(event) is AttemptSucceeded:
            attempts[event.j] = event.a
            if not_before or identities:
                not_before.pop(event.j, None)
                identities.pop(event.j, None)
            succeed(event.j, event.t, event.run_s)
        else:
            apply_event(state, event)
