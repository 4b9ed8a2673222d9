"""Joins the events of attempts that succeed into one each, so that readers have a quarter of the work (pure).

The joined event takes the place of the end. Events of one job stay in order, and events about several jobs or the whole
run have all events before them that they may depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

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

_FIRST: Final = (Submitting, Submitted, Started)
"""Kinds of events before an end; a tuple that is made once is checked faster than a union."""


class SuccessJoiner:
    """Joins events; `most_running` is the largest number of attempts that ran at once and are joined or held back."""

    def __init__(self) -> None:
        self.most_running = 0
        self._pending: dict[int, Submitting] = {}
        """Submission of each job whose events are held back."""
        self._numbers: dict[int, int] = {}
        """Number of its attempt."""
        self._starts: dict[int, Started] = {}
        self._answers: dict[str, Submitted | None] = {}
        """Answer to each of these submissions."""

    def join(self, events: Iterable[BriefEvent]) -> Iterator[BriefEvent]:
        """Yield the next events, those of an attempt that succeeds as one `AttemptSucceeded` with its start and end.

        Events of attempts that did not end yet are held back until the next call, or until `release`.
        """
        for event in events:
            if isinstance(event, _FIRST):
                if not self._hold(event):
                    yield event
            elif isinstance(event, Ended):
                submission = self._pending.get(event.j)
                if submission is not None and _is_plain(event) and self._numbers[event.j] == event.a:
                    yield self._join(event, submission)
                else:
                    yield from self._release(submission)
                    yield event
            else:
                yield from self._before(event)
                yield event

    def _hold(self, event: Submitting | Submitted | Started) -> bool:
        """Hold an event back if it is of an attempt that may succeed; return whether it is."""
        if isinstance(event, Started):
            if self._numbers.get(event.j) != event.a or event.j not in self._pending:
                return False
            self._starts[event.j] = event
            self.most_running = max(self.most_running, len(self._starts))
        elif isinstance(event, Submitted):
            if event.b not in self._answers:
                return False
            self._answers[event.b] = event
        else:
            if event.ids:
                return False
            self._answers[event.b] = None
            for job, number in event.jobs:
                self._pending[job] = event
                self._numbers[job] = number
        return True

    def _join(self, end: Ended, submission: Submitting) -> AttemptSucceeded:
        job = end.j
        del self._pending[job]
        if len(submission.jobs) == 1:
            del self._answers[submission.b]
        start = self._starts.pop(job, None)
        at = end.start if start is None else start.at or start.t
        return AttemptSucceeded(
            j=job,
            a=end.a,
            at=(end.end or end.t) - (end.run_s or 0.0) if at is None else at,
            t=end.t,
            run_s=end.run_s or 0.0,
            rss_b=end.rss_b,
            start=start,
            end=end,
        )

    def _before(self, event: BriefEvent) -> Iterator[BriefEvent]:
        """Yield what was held back and must precede an event."""
        if isinstance(event, Lost | Retry | AttemptFacts) or (isinstance(event, Failed) and not event.aborts):
            yield from self._release(self._pending.get(event.j))
        elif not isinstance(event, AttemptSucceeded):
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
            del self._pending[job]
            if (start := self._starts.pop(job, None)) is not None:
                yield start


def _is_plain(end: Ended) -> bool:
    """Return whether an end is a success without any further facts."""
    return end.cause is None and end.run_s is not None and not end.outputs and end.staged is None
