"""Jobs of a state of a run, driven by events."""

from __future__ import annotations

from longshore.model.event import Ended, Started, Submitted, Submitting
from longshore.model.states import Cause
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState


def run_job(state: RunState, job: int, exit_code: int = 0) -> None:
    attempt = state.attempts[job] + 1
    apply_event(state, Submitting(b=f"{job}.{attempt}", tag="t", jobs=((job, attempt),)))
    apply_event(state, Submitted(b=f"{job}.{attempt}", id="i"))
    apply_event(state, Started(j=job, a=attempt))
    apply_event(state, Ended(j=job, a=attempt, exit=exit_code, cause=Cause.EXIT if exit_code else None))


def codes(state: RunState) -> list[str]:
    return [JobCode(code).name for code in state.code]
