"""Decodes events (the journal) from JSON Lines."""

from __future__ import annotations

import msgspec

from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.run.event import Event

_events = msgspec.json.Decoder(Event)
decode_event = _events.decode
"""Decode an event from its line."""


def decode_events(lines: bytes, *, path: str) -> list[Event]:
    """Decode many events from their lines, several times as fast as one by one.

    Raises
    ------
    RunUnreadableError
        A line is no event.
    """
    try:
        events = _events.decode_lines(lines)
    except DECODE_ERRORS as error:
        raise RunUnreadableError(f"'{path}' has a line that is no event: {error}") from error
    # The decoder skips empty lines, and no writer makes any.
    if len(events) != lines.count(b"\n") + (lines[-1:] not in {b"", b"\n"}):
        raise RunUnreadableError(f"'{path}' has a line that is no event: it is empty")
    return events
