"""What a report counts beside the states of jobs agrees with these, whatever happens to a run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.app.tally import Tally
from longshore.engine.apply_event import apply_event
from longshore.engine.job_codes import Code
from longshore.engine.run_state import RunState
from longshore.model.event import (
    FORMAT,
    Deleted,
    Ended,
    Event,
    Failed,
    Life,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Submitted,
    Submitting,
)
from longshore.model.state import Cause

PARENTS = [(), (), (0,), (0, 1), (2,), (3, 4)]
LABELS = [0, 0, 1, 1, 2, 2]
SUBMIT = (
    "submitting",
    "submitted",
    "started",
    "fine",
    "bad",
    "lost",
    "refused",
    "retry",
    "failed",
    "deleted",
    "restart",
)


def possible(state: RunState, kind: str, job: int, n: int) -> Event | None:
    """An event of that kind, if an engine could write it now."""
    code, attempt = state.code[job], state.attempts[job]
    active = code in (Code.PENDING, Code.RUNNING)
    b = state.active.get(job, "")
    events: dict[str, tuple[bool, Event]] = {
        "submitting": (
            code == Code.READY,
            Submitting(n=n, t=n, b=f"1.{n}", tag="t", jobs=((job, attempt + 1),)),
        ),
        "submitted": (b in state.batches, Submitted(n=n, t=n, b=b, id=b)),
        "started": (code == Code.PENDING, Started(n=n, t=n, j=job, a=attempt, host="h", at=float(n))),
        "fine": (active, Ended(n=n, t=n, j=job, a=attempt, exit=0, run_s=2.0)),
        "bad": (active, Ended(n=n, t=n, j=job, a=attempt, exit=3, cause=Cause.EXIT, run_s=3.0)),
        "lost": (active, Lost(n=n, t=n, j=job, a=attempt, why="gone")),
        "refused": (
            b in state.batches and code == Code.PENDING,
            Refused(n=n, t=n, b=b, why="no", spent=bool(n % 2)),
        ),
        "retry": (code == Code.UNDECIDED, Retry(n=n, t=n, j=job, a=attempt + 1, cause=Cause.EXIT, not_before=n + 5.0)),
        "failed": (code == Code.UNDECIDED, Failed(n=n, t=n, j=job, why="no attempt is left")),
        "deleted": (True, Deleted(n=n, t=n, jobs=(job,))),
        "restart": (not state.active, Restarted(n=n, t=n, jobs=tuple(state.not_succeeded()))),
    }
    fits, event = events[kind]
    return event if fits else None


@given(st.lists(st.tuples(st.sampled_from(SUBMIT), st.integers(0, 5)), max_size=150))
def test_it_agrees_with_the_states(steps: list[tuple[str, int]]) -> None:
    state, tally = RunState(PARENTS, LABELS), Tally(LABELS, 3)
    life = Life(v=FORMAT, life=1, t=0.0, host="h", pid=1, boot="b", by="submit")
    apply_event(state, life)
    tally.take([life])
    bad = fine = 0
    for n, (kind, job) in enumerate(steps, start=1):
        event = possible(state, kind, job, n)
        if event is None:
            continue
        spent = isinstance(event, Refused) and event.spent
        fine += kind == "fine"
        bad += kind in {"bad", "lost"} or spent
        apply_event(state, event)
        tally.take([event])
        assert set(tally.failed) == {each for each in range(6) if state.code[each] == Code.FAILED}
        assert all(each in tally.bad for each in tally.failed)
        assert set(tally.running) == {each for each in range(6) if state.code[each] == Code.RUNNING}
        assert sum(map(len, tally.run_s)) == fine
        assert sum(count for count, _ in tally.badput.values()) == bad
    assert list(tally.ended_at) == sorted(tally.ended_at)
