"""Events that are applied at once leave the state that they leave one by one."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from longshore.model.event import (
    AttemptSucceeded,
    BriefEvent,
    Deleted,
    Ended,
    Failed,
    Lost,
    Refused,
    Restarted,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.states import Cause
from longshore.model.workflow import Barrier, Request
from longshore.runstate.apply_events import apply_event, apply_events
from longshore.runstate.run_state import RunState

PARENTS = [(), (), (0,), (0, 1), (2,), (3, 4), (0, 3)]
LABELS = [0, 0, 1, 1, 2, 2, 3]
MORE = Request(memory_b=8)
jobs = st.integers(0, len(PARENTS) - 1)


def events_of(job: int, n: int) -> Mapping[str, BriefEvent]:
    """An event of each kind about a job."""
    t, batch = float(n), f"1.{job}"
    return {
        "success": AttemptSucceeded(job, 1, t, t + 1.0, 1.0, 7),
        "submitting": Submitting(n=n, t=t, b=batch, tag="t", jobs=((job, 1),), ids={job: {"gpus": (str(n),)}}),
        "submitted": Submitted(n=n, t=t, b=batch, id="7"),
        "started": Started(n=n, t=t, j=job, a=1),
        "ended": Ended(n=n, t=t, j=job, a=1, exit=0, run_s=1.0),
        "bad": Ended(n=n, t=t, j=job, a=1, exit=1, cause=Cause.OOM, run_s=1.0),
        "lost": Lost(n=n, t=t, j=job, a=1, why="gone"),
        "refused": Refused(n=n, t=t, b=batch, why="no"),
        "retry": Retry(n=n, t=t, j=job, a=2, cause=Cause.OOM, request=MORE, not_before=t + 9.0),
        "failed": Failed(n=n, t=t, j=job, why="no attempt is left"),
        "deleted": Deleted(n=n, t=t, jobs=(job,)),
        "hold": Steer(n=n, t=t, who="ada", act="hold", jobs=(job,)),
        "release": Steer(n=n, t=t, who="ada", act="release", jobs=(job,)),
        "set": Steer(n=n, t=t, who="ada", act="set", jobs=(job,), set={"requestMemory": "9"}),
        "cancel": Steer(n=n, t=t, who="ada", act="cancel"),
        "restarted": Restarted(n=n, t=t, jobs=(job,)),
    }


KINDS = tuple(events_of(0, 0))
often_successes = st.one_of(st.just("success"), st.sampled_from(KINDS))


def contents(state: RunState) -> dict[str, object]:
    """All that a state holds."""
    return {**vars(state), "barriers": vars(state.barriers)}


@given(st.lists(st.tuples(often_successes, jobs), max_size=60), st.booleans(), st.booleans(), st.booleans())
def test_events_at_once_are_as_events_one_by_one(
    steps: list[tuple[str, int]], final: bool, has_barrier: bool, is_scheduled: bool
) -> None:
    barriers = [Barrier(name="one", title="one", after=(0, 1), before=(5,), blocking=True)] if has_barrier else []
    states = [RunState(PARENTS, LABELS, final=final, barriers=barriers) for _ in range(2)]
    for state in states:
        state.newly_inactive = [] if is_scheduled else None
    events = [events_of(job, n)[kind] for n, (kind, job) in enumerate(steps)]
    for event in events:
        apply_event(states[0], event)
    apply_events(states[1], events)
    assert contents(states[0]) == contents(states[1])
