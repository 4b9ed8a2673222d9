"""Event log of a run: events in order with marks, followed until the run is finished."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Final

from longshore.app.runs.event_source import EventFollower, event_blocks
from longshore.app.runs.open_run import OpenRun, map_read_errors
from longshore.errors import UsageError
from longshore.model.lines.codec import decode_events
from longshore.model.run.event import Event, Finished, Life, Restarted

_POLL_S: Final = 0.2
_REST: Final = 4.0
"""Pause after a poll, in multiples of its duration, to leave most of the machine to others."""
_MARK: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})", re.ASCII)


class RunEvents:
    """Events of a run, each with its mark: number of the life and of the event in it.

    `since` is a mark: only later events are given. Raises `UsageError` if it is malformed.
    """

    def __init__(self, opened: OpenRun, *, since: str | None = None) -> None:
        self._opened = opened
        self._since = _parse_mark(since)
        self._position = (0, 0)
        self._finished = False
        self.is_engine_gone = False
        """Whether following ended because the run has no engine."""

    def __iter__(self) -> Iterator[tuple[str, Event]]:
        """Iterate over the present events."""
        return self._with_marks(_decode_all(self._opened))

    def follow(self) -> Iterator[tuple[str, Event]]:
        """Iterate over present and future events until the run is over."""
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
            # Queried before any read: what the engine wrote before its end is seen in this round.
            over = self._opened.is_alive() is False
            events = follower.read()
            if follower.has_restarted:
                # No event is given twice.
                self._since, self._position = max(self._since, self._position), (0, 0)
            took = time.monotonic() - began
            yield from self._with_marks(events)
            if self._finished:
                return
            if over:
                if self._position == (0, 0):
                    # Nothing was read: report the cause as iteration without following does.
                    yield from self
                self.is_engine_gone = not self._finished
                return
            time.sleep(max(_POLL_S, _REST * took))

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
                yield f"{life}.{number}", event


def _decode_all(opened: OpenRun) -> Iterator[Event]:
    for block in event_blocks(opened):
        yield from decode_events(block, path=str(opened.run.journal))


def _parse_mark(text: str | None) -> tuple[int, int]:
    if text is None:
        return (-1, -1)
    found = _MARK.fullmatch(text)
    if not found:
        raise UsageError(
            f"'{text}' is no mark", hint="A mark is the 'mark' of an event that was given before, such as 1.42."
        )
    return int(found[1]), int(found[2])
