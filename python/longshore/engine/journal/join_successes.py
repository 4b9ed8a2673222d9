"""Joins the events of attempts that succeed into one each, so that readers have a quarter of the work (pure).

The joined event takes the place of the end. Events of one job stay in order, and events about several jobs or the whole
run have all events before them that they may depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from longshore.model.run.event import (
    AttemptFacts,
    AttemptSucceeded,
    BriefEvent,
    Ended,
    Failed,
    Lost,
    Retry,
    Started,
    Submitted,
    Submitting,
)


class SuccessJoiner:
    """Joins events; `most_running` is the largest number of attempts that ran at once and are joined or held back."""

    def __init__(self) -> None:
        self.most_running = 0
        self._pending: dict[int, Submitting] = {}
        """Submission of each job whose events are held back."""
        self._numbers: dict[int, int] = {}
        """Number of the attempt of each of these jobs."""
        self._starts: dict[int, Started] = {}
        self._answers: dict[str, Submitted | None] = {}
        """Answer to each of these submissions."""

    def join(self, events: Iterable[BriefEvent]) -> list[BriefEvent]:
        """Return the next events, those of an attempt that succeeds as one `AttemptSucceeded` with its start and end.

        Events of attempts that did not end yet are held back until the next call, or until `release`.
        """
        # Nearly all of hundreds of thousands of events are of the first four kinds.
        numbers, starts, answers = self._numbers, self._starts, self._answers
        found: list[BriefEvent] = []
        for event in events:
            if isinstance(event, Started) and numbers.get(event.j) == event.a:
                starts[event.j] = event
                self.most_running = max(self.most_running, len(starts))
            elif isinstance(event, Submitted) and event.b in answers:
                answers[event.b] = event
            elif isinstance(event, Submitting) and not event.ids:
                self._hold(event)
            elif isinstance(event, Ended) and event.cause is None and (joined := self._join(event)) is not None:
                found.append(joined)
            else:
                found.extend(self._before(event))
                found.append(event)
        return found

    def _hold(self, event: Submitting) -> None:
        """Hold a submission back, because its attempts may succeed."""
        self._answers[event.b] = None
        for job, number in event.jobs:
            self._pending[job] = event
            self._numbers[job] = number

    def _join(self, end: Ended) -> AttemptSucceeded | None:
        """Return the whole attempt that succeeded; ``None`` if none of its events is held back, or the end has more."""
        job, run_s = end.j, end.run_s
        if self._numbers.get(job) != end.a or run_s is None or end.outputs or end.staged is not None:
            return None
        submission = self._pending.pop(job)
        del self._numbers[job]
        if len(submission.jobs) == 1:
            del self._answers[submission.b]
        start = self._starts.pop(job, None)
        at = end.start if start is None else start.at or start.t
        if at is None:
            at = (end.end or end.t) - run_s
        return AttemptSucceeded(job, end.a, at, end.t, run_s, end.rss_b, start, end)

    def _before(self, event: BriefEvent) -> Iterator[BriefEvent]:
        """Yield what was held back and must precede an event."""
        if isinstance(event, Ended | Lost | Retry | AttemptFacts) or (isinstance(event, Failed) and not event.aborts):
            yield from self._release(self._pending.get(event.j))
        elif not isinstance(event, Submitting | Submitted | Started | AttemptSucceeded):
            yield from self.release()

    def release(self) -> Iterator[BriefEvent]:
        """Yield all events that are held back."""
        while self._pending:
            yield from self._release(next(iter(self._pending.values())))

    def _release(self, submission: Submitting | None) -> Iterator[BriefEvent]:
        """Yield what was held back of the attempts of a batch that did not end."""
        if submission is None:
            return
        members = tuple(member for member in submission.jobs if self._pending.get(member[0]) is submission)
        yield submission if members == submission.jobs else msgspec.structs.replace(submission, jobs=members)
        answer = self._answers.pop(submission.b)
        if answer is not None:
            yield answer
        for job, _ in members:
            del self._pending[job], self._numbers[job]
            if (start := self._starts.pop(job, None)) is not None:
                yield start
