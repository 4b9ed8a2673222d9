"""Events in lists: a reader of a whole run takes a third less time for lists than for single events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TypeVar

_Event = TypeVar("_Event")


class EventChunks(Iterator[_Event]):
    """Iterator of events, in order.

    `chunks` has the same events in lists, which a reader takes instead, not besides.
    """

    def __init__(self, chunks: Iterator[list[_Event]]) -> None:
        self.chunks = chunks
        self._events = chain.from_iterable(chunks)

    def __iter__(self) -> Iterator[_Event]:  # noqa: PYI034 - a loop then calls no function of Python per event
        """Return an iterator of the rest of the events."""
        return self._events

    def __next__(self) -> _Event:
        return next(self._events)
