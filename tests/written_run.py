"""A run directory whose journal and snapshot a test writes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from tests.journal_lines import append_line

from longshore.contract.service import RunPaths
from longshore.model.event import FORMAT as EVENTS
from longshore.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Retry,
    Seal,
    Started,
    Submitted,
    Submitting,
)
from longshore.model.json_lines import encode_line
from longshore.model.report import Snapshot
from longshore.model.states import Cause, JobState, state_of_run
from longshore.model.submission import REUSED_JOBS, ReusedJobs, RunIdentity, Submission
from longshore.model.workflow import JobSettings, Request
from longshore.model.workflow_lines import FORMAT, StoredJob, WorkflowHeader
from longshore.rundir.journal import seal_finished
from longshore.rundir.run_directory import write_card, write_snapshot
from longshore.runstate.apply_events import apply_event
from longshore.runstate.open_run import OpenRun
from longshore.runstate.replay import make_reuse_events
from longshore.runstate.run_state import RunState, count_states

LABELS = ("a", "b")
PARENTS = [(), (), (), (0,), (1,), (2,)]
NOW = 1_795_000_000.0


def course() -> list[Event]:
    """Job 0 succeeds, 1 fails once and succeeds, 2 fails for good and prunes 5; 3 and 4 succeed in the end."""
    events: list[Event] = []

    def attempt(job: int, number: int, *, code: int = 0) -> None:
        batch = f"1.{job}.{number}"
        events.append(Submitting(b=batch, tag="t", jobs=((job, number),)))
        events.append(Submitted(b=batch, id=batch))
        events.append(Started(j=job, a=number, host="here", at=NOW + len(events)))
        cause = Cause.EXIT if code else None
        events.append(Ended(j=job, a=number, exit=code, cause=cause, run_s=1.0))

    attempt(0, 1)
    attempt(1, 1, code=3)
    events.append(Retry(j=1, a=2, cause=Cause.EXIT, not_before=NOW + 1e6))
    attempt(2, 1, code=4)
    events.append(Failed(j=2, why="no attempt is left"))
    attempt(1, 2)
    attempt(3, 1)
    attempt(4, 1)
    events.append(Finished(state=JobState.FAILED))
    return [msgspec.structs.replace(event, n=n, t=NOW + n) for n, event in enumerate(events, start=1)]


def run_of(root: Path) -> WrittenRun:
    """Write a run whose journal has `course`."""
    written = WrittenRun(root)
    written.begin()
    for event in course():
        written.write(event)
    return written


def run_with_kept_results(root: Path) -> WrittenRun:
    """Write a run that keeps the results of the jobs j0 and j1 from the run 'bryvbx', and has made none yet."""
    written = WrittenRun(root)
    written.begin()
    record = ReusedJobs(run="bryvbx", path=str(root.parent / "earlier"), jobs=(0, 1))
    (written.run.root / REUSED_JOBS).write_bytes(msgspec.json.encode(record))
    for n, event in enumerate(make_reuse_events(written.run, written.state, tag="t"), start=1):
        assert not isinstance(event, Life)
        numbered = msgspec.structs.replace(event, n=n, t=NOW)
        written.write(numbered)
        written.know(numbered)
    return written


def finished_run(root: Path, *, retries: int = 0) -> WrittenRun:
    """Write a run that was submitted and is over, after `course`."""
    written = WrittenRun(root, retries=retries)
    submission = Submission(id="k7f3aa", by="submit", at=NOW, user="u", host="h")
    write_card(written.run, msgspec.structs.replace(written.opened.card, submissions=(submission,)))
    written.begin()
    for event in course():
        written.write(event)
        written.know(event)
    written.snapshot()
    seal_finished(written.run.journal)
    return written


class WrittenRun:
    """A run directory whose journal and snapshot a test writes."""

    def __init__(
        self, root: Path, *, retries: int = 0, request: Request | None = None, settings: JobSettings | None = None
    ) -> None:
        self.run = RunPaths(root)
        self.run.journal.mkdir(parents=True)
        common = settings or JobSettings(label="", number_of_retries=retries, request=request or Request())
        profiles = tuple(msgspec.structs.replace(common, label=label) for label in LABELS)
        header = WorkflowHeader(v=FORMAT, name="w", jobs=6, files=0, final=False, settings=profiles, attributes={})
        jobs = [StoredJob(name=f"j{number}", s=number // 3, p=PARENTS[number], c="true") for number in range(6)]
        self.run.workflow.write_bytes(b"".join(map(encode_line, [header, *jobs])))
        card = RunIdentity(
            format=1,
            id="k7f3aa",
            name="w",
            service="local",
            longshore="0",
            created_at=NOW,
            expected=6,
            labels={"a": 3, "b": 3},
        )
        write_card(self.run, card)
        self.opened = OpenRun(run=self.run, card=card)
        self.state = RunState(PARENTS, [0, 0, 0, 1, 1, 1])
        self.life = 0
        self.n = 0

    def begin(self, *, seals: int | None = None, t: float = NOW) -> None:
        self.life += 1
        seal = None if seals is None else Seal(life=self.life - 1, bytes=seals)
        life = Life(v=EVENTS, life=self.life, t=t, host=os.uname().nodename, pid=1, boot="b", by="submit", seals=seal)
        append_line(self.journal, life)
        apply_event(self.state, life)
        self.n = 0

    @property
    def journal(self) -> Path:
        return self.run.journal / f"{self.life:04}.jsonl"

    def write(self, event: Event) -> None:
        append_line(self.journal, event)

    def know(self, event: Event) -> None:
        apply_event(self.state, event)
        assert not isinstance(event, Life)
        self.n = event.n

    def snapshot(self) -> None:
        totals = self.state.count_states()
        finished = self.state.finish_event is not None
        write_snapshot(
            self.run,
            Snapshot(
                life=self.life,
                n=self.n,
                at=NOW,
                pid=1,
                host=os.uname().nodename,
                boot="b",
                state=state_of_run(totals, expected=6) if finished else JobState.RUNNING,
                counts=totals,
                labels={label: count_states(row) for label, row in zip(LABELS, self.state.counts, strict=True)},
                finished=finished,
            ),
        )
