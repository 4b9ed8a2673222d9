"""Histories of a run of six jobs: events of every kind, in any order, also in one that no engine writes."""

from __future__ import annotations

from hypothesis import strategies as st
from tests.written_run import NOW

from longshore.model.event import (
    FORMAT,
    AttemptFacts,
    BriefEvent,
    Deleted,
    Ended,
    Failed,
    Finished,
    Life,
    Lost,
    OutputFinding,
    OutputState,
    Refused,
    Restarted,
    Retry,
    StagedFiles,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.states import Cause, JobState
from longshore.model.workflow import Request

NOTHING = OutputFinding(output=0, state=OutputState.EMPTY)

Step = tuple[str, int, int]
"""Kind of an event, job, and attempt."""


def events_of(job: int, attempt: int, n: int) -> dict[str, BriefEvent]:
    """An event of each kind about a job."""
    t, batch, pair = NOW + n, f"1.{job}.{attempt}", ((job, attempt), ((job + 1) % 6, attempt))
    return {
        "life": Life(v=FORMAT, life=1 + n, t=t, host="h", pid=1, boot="b", by="resume"),
        "submitting": Submitting(n=n, t=t, b=batch, tag="t", jobs=pair, request=Request(memory_b=4)),
        "with ids": Submitting(n=n, t=t, b=batch, tag="t", jobs=pair[:1], ids={job: {"gpus": (str(n),)}}),
        "submitted": Submitted(n=n, t=t, b=batch, id="7"),
        "started": Started(n=n, t=t, j=job, a=attempt, host="here", at=t - 0.5),
        "started somewhere": Started(n=n, t=t, j=job, a=attempt),
        "ended": Ended(n=n, t=t, j=job, a=attempt, exit=0, end=t, run_s=1.0, cpu_s=0.5, rss_b=9),
        "left nothing": Ended(n=n, t=t, j=job, a=attempt, exit=0, run_s=1.0, outputs=(NOTHING,)),
        "staged": Ended(n=n, t=t, j=job, a=attempt, exit=0, run_s=1.0, staged=StagedFiles(in_s=1.0)),
        "bad": Ended(n=n, t=t, j=job, a=attempt, exit=1, cause=Cause.OOM, run_s=1.0),
        "killed": Ended(n=n, t=t, j=job, a=attempt, signal=9, cause=Cause.PREEMPTED, reason="left", run_s=1.0),
        "lost": Lost(n=n, t=t, j=job, a=attempt, why="gone"),
        "facts": AttemptFacts(n=n, t=t, j=job, a=attempt, cpu_s=2.0, rss_b=70),
        "refused": Refused(n=n, t=t, b=batch, why="no", spent=True),
        "retry": Retry(n=n, t=t, j=job, a=2, cause=Cause.OOM, request=Request(memory_b=8), not_before=t + 9.0),
        "failed": Failed(n=n, t=t, j=job, why="no attempt is left"),
        "deleted": Deleted(n=n, t=t, jobs=(job,), why="removed by ada"),
        "hold": Steer(n=n, t=t, who="ada", act="hold", jobs=(job,), set={"code": "3"}),
        "release": Steer(n=n, t=t, who="ada", act="release", jobs=(job,)),
        "set": Steer(n=n, t=t, who="ada", act="set", jobs=(job,), set={"requestMemory": "9"}),
        "throttle": Steer(n=n, t=t, who="ada", act="throttle", set={"max": "3"}),
        "pause": Steer(n=n, t=t, who="ada", act="pause", set={"why": "lunch"}),
        "cancel": Steer(n=n, t=t, who="ada", act="cancel"),
        "finished": Finished(n=n, t=t, state=JobState.FAILED),
        "restarted": Restarted(n=n, t=t, jobs=(job,)),
    }


KINDS = tuple(events_of(0, 1, 0))
often_attempts = st.one_of(st.sampled_from(["submitting", "submitted", "started", "ended"]), st.sampled_from(KINDS))
steps_of_runs = st.lists(st.tuples(often_attempts, st.integers(0, 5), st.integers(1, 2)), max_size=60)


def history(*steps: Step) -> list[BriefEvent]:
    """The events of steps, which are numbered from 1."""
    return [events_of(job, attempt, n)[kind] for n, (kind, job, attempt) in enumerate(steps, start=1)]
