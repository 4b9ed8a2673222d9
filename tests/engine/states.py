"""Jobs of a state of a run, driven by events."""

from __future__ import annotations

from longshore.engine.fold import Code, RunState
from longshore.model.event import Ended, Started, Submitted, Submitting
from longshore.model.state import Cause


def run_job(state: RunState, job: int, exit_code: int = 0) -> None:
    attempt = state.attempts[job] + 1
    state.apply(Submitting(b=f"{job}.{attempt}", tag="t", jobs=((job, attempt),)))
    state.apply(Submitted(b=f"{job}.{attempt}", id="i"))
    state.apply(Started(j=job, a=attempt))
    state.apply(Ended(j=job, a=attempt, exit=exit_code, cause=Cause.EXIT if exit_code else None))


def codes(state: RunState) -> list[str]:
    return [Code(code).name for code in state.code]
