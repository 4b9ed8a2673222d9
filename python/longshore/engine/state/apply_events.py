"""Applies many events to the state of a run, as `apply_event` does one by one; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from longshore.engine.state.apply_event import apply_event
from longshore.engine.state.job_codes import ACTIVE, JobCode
from longshore.engine.state.run_state import RunState
from longshore.model.event import AttemptSucceeded, BriefEvent, Ended, Started

_RUNNING: Final = int(JobCode.RUNNING)
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
