"""Joins the events of attempts that succeed into one each, so that readers have a quarter of the work (pure).

The joined event takes the place of the end. Events of one job stay in order, and events about several jobs or the whole
run have all events before them that they may depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from longshore.model.event import (
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

_OfOneJob: TypeAlias = Started | Ended | Lost | Retry | AttemptFacts


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
        """Return the next events, those of an attempt that succeeds as one `AttemptSucceeded` with its host.

        Events of attempts that did not end yet are held back until the next call, or until `release`.
        """
        # Nearly all of hundreds of thousands of events are of the first four kinds: no call for most of them. Where the
        # answer is no, `isinstance` takes three times as long as a comparison of types.
        pending, numbers, starts, answers = self._pending, self._numbers, self._starts, self._answers
        most_running = self.most_running
        found: list[BriefEvent] = []
        for event in events:
            if type(event) is Started and numbers.get(event.j) == event.a and event.j not in starts:
                starts[event.j] = event
                most_running = max(most_running, len(starts))
            elif type(event) is Submitted and event.b in answers:
                answers[event.b] = event
            elif (
                type(event) is Ended
                and numbers.get(event.j) == event.a
                and (joined := _join_ends(starts.get(event.j), event)) is not None
            ):
                submission = pending.pop(event.j)
                del numbers[event.j], starts[event.j]
                if len(submission.jobs) == 1:
                    del answers[submission.b]
                found.append(joined)
            elif type(event) is Submitting and not event.ids:
                for job, number in event.jobs:
                    if job in pending:
                        # An attempt whose end was not told: its events stay in front of these.
                        found.extend(self._release(pending[job]))
                    pending[job] = event
                    numbers[job] = number
                answers[event.b] = None
            elif type(event) is AttemptSucceeded:
                found.append(event)
            else:
                found.extend(self._before(event))
                found.append(event)
        self.most_running = most_running
        return found

    def _before(self, event: BriefEvent) -> Iterator[BriefEvent]:
        """Yield what was held back and must precede an event."""
        if isinstance(event, _OfOneJob) or (isinstance(event, Failed) and not event.aborts):
            yield from self._release(self._pending.get(event.j))
        elif isinstance(event, Submitting):
            for job, _ in event.jobs:
                yield from self._release(self._pending.get(job))
        elif not isinstance(event, Submitted):
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
        answer = self._answers.pop(submission.b, None)
        if answer is not None:
            yield answer
        for job, _ in members:
            del self._pending[job], self._numbers[job]
            if (start := self._starts.pop(job, None)) is not None:
                yield start


def _join_ends(start: Started | None, end: Ended) -> AttemptSucceeded | None:
    """Return an attempt as one event; ``None`` if a report shows more of its events than that has room for.

    Time in the queue, fields of the scheduler and stamps of outputs are in no report, and are dropped.
    """
    if start is None or start.at is None or not start.host or end.end is None or end.run_s is None:
        return None
    if not end.is_plain_success or end.exit != 0 or end.outputs or end.staged is not None:
        return None
    return AttemptSucceeded(
        end.j, end.a, start.at or start.t, end.t, end.run_s, end.rss_b, start.host, end.end, end.cpu_s
    )
