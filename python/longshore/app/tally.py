"""Counts a run's events for what a report tells beside the states of jobs: failures, what runs, what took how long."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from longshore.model.event import (
    Deleted,
    Ended,
    Failed,
    Finished,
    Life,
    Lost,
    News,
    Passed,
    Refused,
    Restarted,
    Retry,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.state import Cause


class Tally:
    """What happened so far, in a few bytes per job.

    Parameters
    ----------
    label_of
        Index of the label per job.
    labels
        Number of labels.

    Attributes
    ----------
    life, finished
        The newest engine, and the event that ended the run if nothing has taken it up since.
    first_start
        When anything started for the first time; seconds since the epoch.
    running
        Newest start of every job that runs.
    failed
        Jobs that failed for good.
    bad
        How the newest attempt of a job ended, where it ended badly.
    retries
        When a job that waits for its next attempt may start, where that was said.
    run_s
        Run times of successful attempts, per label, in the order of their ends.
    ended_at, busy_s
        When each attempt ended, and how long all up to it ran together.
    holds
        The workload manager's own number for why a job is held, or was before it was given up.
    badput
        Number and seconds of attempts that ended badly, per cause.
    """

    def __init__(self, label_of: Sequence[int], labels: int) -> None:
        self.label_of = label_of
        self.life: Life | None = None
        self.finished: Finished | None = None
        self.first_start: float | None = None
        self.running: dict[int, Started] = {}
        self.failed: dict[int, None] = {}
        self.bad: dict[int, Ended | Lost] = {}
        self.retries: dict[int, float] = {}
        self.holds: dict[int, int] = {}
        self.run_s = [array("d") for _ in range(labels)]
        self.ended_at = array("d")
        self.busy_s = array("d")
        self.badput: dict[Cause, list[float]] = {}
        self._asked: dict[str, tuple[tuple[int, int], ...]] = {}

    def take(self, events: Iterable[News]) -> None:
        """Take events in, in their order."""
        # Most events are of the first four kinds, and there are hundreds of thousands: no call for most of them.
        asked, running = self._asked, self.running
        for event in events:
            if isinstance(event, Submitting):
                asked[event.b] = event.jobs
            elif isinstance(event, Submitted):
                asked.pop(event.b, None)
            elif isinstance(event, Started):
                running[event.j] = event
                self._began(event.at or event.t)
            elif isinstance(event, Ended):
                self._ended(event)
            elif isinstance(event, Passed):
                self._passed(event)
            elif note := self._RARE.get(type(event)):
                note(self, event)

    def _began(self, at: float) -> None:
        # Not in the order in which attempts began: of one that went well it may be told when it ended.
        if self.first_start is None or at < self.first_start:
            self.first_start = at

    def _ended(self, event: Ended) -> None:
        job = event.j
        self.running.pop(job, None)
        seconds = event.run_s or 0.0
        self.ended_at.append(event.t)
        self.busy_s.append((self.busy_s[-1] if self.busy_s else 0.0) + seconds)
        if event.cause is None:
            self.bad.pop(job, None)
            if event.run_s is not None:
                self.run_s[self.label_of[job]].append(event.run_s)
        else:
            self._badly(event, event.cause, seconds)

    def _passed(self, event: Passed) -> None:
        self._began(event.at)
        self.ended_at.append(event.t)
        self.busy_s.append((self.busy_s[-1] if self.busy_s else 0.0) + event.run_s)
        self.bad.pop(event.j, None)
        self.run_s[self.label_of[event.j]].append(event.run_s)

    def _badly(self, event: Ended | Lost, cause: Cause, seconds: float) -> None:
        self.bad[event.j] = event
        spent = self.badput.setdefault(cause, [0, 0.0])
        spent[0] += 1
        spent[1] += seconds

    def _lost(self, event: Lost) -> None:
        self.running.pop(event.j, None)
        self._badly(event, Cause.LOST, 0.0)

    def _refused(self, event: Refused) -> None:
        members = self._asked.pop(event.b, ())
        for job, attempt in members if event.jobs is None else event.jobs:
            self.running.pop(job, None)
            if event.spent:
                self._badly(Ended(t=event.t, j=job, a=attempt, cause=Cause.SUBMIT, reason=event.why), Cause.SUBMIT, 0.0)

    def _retry(self, event: Retry) -> None:
        if event.not_before is not None:
            self.retries[event.j] = event.not_before

    def _failed(self, event: Failed) -> None:
        self.failed[event.j] = None

    def _finished(self, event: Finished) -> None:
        self.finished = event

    def _life(self, event: Life) -> None:
        self.life = event
        self.finished = None

    def _restarted(self, event: Restarted) -> None:
        self.finished = None
        for job in event.jobs:
            self.failed.pop(job, None)
            self.retries.pop(job, None)
            self.holds.pop(job, None)
            self.bad.pop(job, None)

    def _steer(self, event: Steer) -> None:
        if event.act == "cancel" and not event.select:
            self.retries.clear()
        elif event.act == "hold" and "code" in event.set:
            self.holds.update(dict.fromkeys(event.jobs or (), int(event.set["code"])))
        elif event.act == "release":
            for job in event.jobs or ():
                self.holds.pop(job, None)

    def _deleted(self, event: Deleted) -> None:
        for job in event.jobs:
            self.retries.pop(job, None)
            self.holds.pop(job, None)

    _RARE: ClassVar[dict[type, Callable[[Tally, Any], None]]] = {
        Lost: _lost,
        Refused: _refused,
        Retry: _retry,
        Failed: _failed,
        Finished: _finished,
        Life: _life,
        Restarted: _restarted,
        Steer: _steer,
        Deleted: _deleted,
    }
