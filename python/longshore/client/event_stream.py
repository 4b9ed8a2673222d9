"""Events of a run for Python: an iterator, and an asynchronous one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from longshore.app.runs.event_log import RunEvents
from longshore.app.runs.open_run import OpenRun
from longshore.model.run.event import Event


class EventStream:
    """Events of a run, each with its mark, from which a later call can continue.

    Iterating gives the events so far, or with `follow` also new ones until the run is over. ``async for`` gives the
    same without blocking the event loop.
    """

    def __init__(self, opened: OpenRun, *, follow: bool, since: str | None) -> None:
        self._opened = opened
        self._follow = follow
        self._since = since

    def __repr__(self) -> str:
        """Return the id of the run."""
        return f"<Events of run {self._opened.card.shown_id}>"

    def __iter__(self) -> Iterator[tuple[str, Event]]:
        """Iterate over pairs of mark and event."""
        events = RunEvents(self._opened, since=self._since)
        return events.follow() if self._follow else iter(events)

    async def __aiter__(self) -> AsyncIterator[tuple[str, Event]]:
        """Iterate without blocking the event loop."""
        # A program that uses it has imported it; for others it would be 20 ms.
        import asyncio

        iterator = iter(self)
        end = object()
        # A generator runs in one thread at a time: each step is awaited before the next begins.
        while (item := await asyncio.to_thread(next, iterator, end)) is not end:
            assert isinstance(item, tuple)
            yield item
