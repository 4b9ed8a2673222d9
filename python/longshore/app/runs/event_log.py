"""Gives the events of a run in order, each with a mark to go on from, and follows the run until it is finished."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Final

from longshore.app.runs.event_source import EventFollower, event_blocks
from longshore.app.runs.open_run import OpenRun, readable
from longshore.errors import UsageError
from longshore.model.lines.codec import decode_events
from longshore.model.run.event import Event, Finished, Life, Restarted

_LOOK_S: Final = 0.2
_REST: Final = 4.0
"""Times as long as a look took, most of what there is goes to others."""
_MARK: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,18})", re.ASCII)


class RunEvents:
    """The events of a run, each with its mark: the number of its life and its number in that.

    Parameters
    ----------
    opened
        The run.
    since
        A mark: only what came after it is given.

    Raises
    ------
    UsageError
        That is no mark.
    """

    def __init__(self, opened: OpenRun, *, since: str | None = None) -> None:
        self._opened = opened
        self._since = _mark(since)
        self._place = (0, 0)
        self._finished = False
        self.lost = False
        """Whether following ended because no engine is there to go on with the run."""

    def __iter__(self) -> Iterator[tuple[str, Event]]:
        """Give what there is."""
        return self._marked(_decoded(self._opened))

    def follow(self) -> Iterator[tuple[str, Event]]:
        """Give what there is and what comes, until nothing of the run can move any more."""
        follower = EventFollower(self._opened)
        with readable(self._opened.run):
            if follower.may_come:
                yield from self._followed(follower)
                return
        yield from self
        self.lost = not self._finished

    def _followed(self, follower: EventFollower) -> Iterator[tuple[str, Event]]:
        while True:
            began = time.monotonic()
            # Asked before anything is read: what it wrote before it ended is seen in this round.
            over = self._opened.is_alive() is False
            events = follower.read()
            if follower.restarted:
                # What was given is not given twice.
                self._since, self._place = max(self._since, self._place), (0, 0)
            took = time.monotonic() - began
            yield from self._marked(events)
            if self._finished:
                return
            if over:
                if self._place == (0, 0):
                    # Nothing is there: that is told as it is to whoever does not follow.
                    yield from self
                self.lost = not self._finished
                return
            time.sleep(max(_LOOK_S, _REST * took))

    def _marked(self, events: Iterable[Event]) -> Iterator[tuple[str, Event]]:
        life, number = self._place
        for event in events:
            if isinstance(event, Life):
                life, number = event.life, 0
            else:
                number = event.n or number + 1
            self._place = life, number
            if isinstance(event, Finished):
                self._finished = True
            elif isinstance(event, Life | Restarted):
                self._finished = False
            if self._place > self._since:
                yield f"{life}.{number}", event


def _decoded(opened: OpenRun) -> Iterator[Event]:
    for block in event_blocks(opened):
        yield from decode_events(block, path=str(opened.run.journal))


def _mark(text: str | None) -> tuple[int, int]:
    if text is None:
        return (-1, -1)
    found = _MARK.fullmatch(text)
    if not found:
        raise UsageError(
            f"'{text}' is no mark", hint="A mark is the 'mark' of an event that was given before, such as 1.42."
        )
    return int(found[1]), int(found[2])
