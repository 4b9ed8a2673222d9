"""Event log of a run: events in order with marks, followed until the run is finished."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from longshore.app.runs.event_source import EventFollower, event_blocks
from longshore.app.runs.open_run import OpenRun, map_index_errors, map_read_errors
from longshore.app.runs.poll import pause_after_poll
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import UsageError
from longshore.model.lines.event_codec import decode_events
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import Event, Finished, Life, Restarted

_MARK: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})", re.ASCII)


def job_name_lookup(opened: OpenRun) -> Callable[[int], tuple[str, str]]:
    """Return a function from the index of a job, as events have it, to its name and label."""
    table = JobTable(opened.run, "names")

    def name_of(job: int) -> tuple[str, str]:
        with map_index_errors(opened.run):
            return table.names[job], table.label(job)

    return name_of


class RunEvents:
    """Events of a run, each with its mark: number of the life and of the event in it.

    Only events after the mark `since` are yielded. Raises `UsageError` if it is malformed.
    """

    def __init__(self, opened: OpenRun, *, since: str | None = None) -> None:
        self._opened = opened
        self._since = _parse_mark(since)
        self._position = (0, 0)
        self._finished = False
        self.is_engine_gone = False
        """Whether following ended because the run has no engine."""

    def __iter__(self) -> Iterator[tuple[str, Event]]:
        """Yield the events so far."""
        path = str(self._opened.run.journal)
        blocks = event_blocks(self._opened)
        yield from self._with_marks(chain.from_iterable(decode_events(block, path=path) for block in blocks))
        if self._opened.damages:
            raise DamagedError.of(self._opened.damages[0])

    def follow(self) -> Iterator[tuple[str, Event]]:
        """Yield the events so far and new ones, until the run is over."""
        follower = EventFollower(self._opened)
        with map_read_errors(self._opened.run):
            if follower.may_have_events:
                yield from self._follow(follower)
                return
        yield from self
        self.is_engine_gone = not self._finished

    def _follow(self, follower: EventFollower) -> Iterator[tuple[str, Event]]:
        while True:
            began = time.monotonic()
            # Queried before the read, so that this round reads the last events of an engine that ended.
            is_engine_gone = self._opened.is_alive() is False
            events = follower.read()
            if follower.has_restarted:
                # No event is yielded twice.
                self._since, self._position = max(self._since, self._position), (0, 0)
            duration_s = time.monotonic() - began
            yield from self._with_marks(events)
            if self._finished:
                return
            if is_engine_gone:
                if self._position == (0, 0):
                    # Nothing was read: plain iteration raises the error that says why.
                    yield from self
                self.is_engine_gone = not self._finished
                return
            pause_after_poll(duration_s)

    def _with_marks(self, events: Iterable[Event]) -> Iterator[tuple[str, Event]]:
        life, number = self._position
        for event in events:
            if isinstance(event, Life):
                life, number = event.life, 0
            else:
                number = event.n or number + 1
            self._position = life, number
            if isinstance(event, Finished):
                self._finished = True
            elif isinstance(event, Life | Restarted):
                self._finished = False
            if self._position > self._since:
                yield f"{life}.{number}", self._opened.hide_reason(event)


def _parse_mark(text: str | None) -> tuple[int, int]:
    if text is None:
        return (-1, -1)
    match = _MARK.fullmatch(text)
    if not match:
        raise UsageError(f"'{text}' is no mark", hint="A mark is the member 'mark' of an earlier event, such as 1.42.")
    return int(match[1]), int(match[2])
