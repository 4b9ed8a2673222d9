"""Selects the events that concern some jobs, without decoding other lines.

The state of a job depends on its own events, those of its ancestors, and those of the whole run. So a replay of these
is exact for that job, and cheap in a large run.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec

from longshore.errors import RunUnreadableError
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.model.lines.event_codec import decode_event, decode_events
from longshore.model.run.event import Event, Submitting
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.request import Request


class _EventJobs(msgspec.Struct, gc=False):
    """Fields of an event that tell which jobs it concerns; the rest of the line is skipped."""

    e: str
    j: int = -1
    b: str = ""
    jobs: tuple[int | tuple[int, int], ...] | None = None


_decode_event_jobs = msgspec.json.Decoder(_EventJobs).decode_lines


def events_of_jobs(blocks: Iterable[bytes], jobs: Container[int]) -> list[Event]:
    """Return the events that concern some jobs or the whole run, in order.

    `blocks` are those of `longshore.app.runs.event_source.event_blocks`. Raises `RunUnreadableError` if a line is no
    event.
    """
    with collection_paused():
        return decode_events(b"".join(_lines_of_jobs(blocks, jobs)), path="the journal")


def _lines_of_jobs(blocks: Iterable[bytes], jobs: Container[int]) -> Iterator[bytes]:
    batches: set[str] = set()
    for event, line in _decode_lines(blocks):
        if event.j >= 0:
            if event.j in jobs:
                yield line
        elif event.e == "submitting":
            if any(member in jobs for member in _members(event)):
                batches.add(event.b)
                yield line
        elif event.b:
            if event.b in batches:
                yield line
        elif not event.jobs or any(member in jobs for member in _members(event)):
            yield line


def jobs_failed_once(blocks: Iterable[bytes]) -> list[int]:
    """Return the jobs that failed for good at least once."""
    candidates = (block for block in blocks if b"failed" in block)
    return list(dict.fromkeys(event.j for event, _ in _decode_lines(candidates) if event.e == "failed"))


def newest_requests(blocks: Iterable[bytes]) -> dict[int, Request]:
    """Return the request of the newest attempt of each job; an attempt without one of its own is left out."""
    newest: dict[int, bytes] = {}
    with collection_paused():
        for event, line in _decode_lines(blocks):
            if event.e == "submitting":
                newest.update(dict.fromkeys(_members(event), line))
    submitted = {line: _submitted_request(decode_event(line)) for line in set(newest.values())}
    return {job: request for job, line in newest.items() if (request := submitted[line]) is not None}


def active_requests(blocks: Iterable[bytes]) -> dict[int, Request]:
    """Return the requests of all dispatched jobs that are not over."""
    members: dict[str, list[int]] = {}
    active: dict[int, bytes] = {}
    with collection_paused():
        for event, line in _decode_lines(blocks):
            if event.e == "submitting":
                members[event.b] = _members(event)
                active.update(dict.fromkeys(members[event.b], line))
            elif event.e in {"ended", "lost"}:
                active.pop(event.j, None)
            elif event.e == "refused":
                for job in _members(event) or members.get(event.b, []):
                    active.pop(job, None)
    submitted = {line: _submitted_request(decode_event(line)) for line in set(active.values())}
    return {job: submitted[line] or Request() for job, line in active.items()}


def _submitted_request(event: Event) -> Request | None:
    assert isinstance(event, Submitting)
    return event.request


def _members(event: _EventJobs) -> list[int]:
    """Return the jobs of an event about several, with or without attempt numbers."""
    return [each if isinstance(each, int) else each[0] for each in event.jobs or ()]


def _decode_lines(blocks: Iterable[bytes]) -> Iterator[tuple[_EventJobs, bytes]]:
    for block in blocks:
        lines = block.splitlines(keepends=True)
        try:
            yield from zip(_decode_event_jobs(block), lines, strict=True)
        except DECODE_ERRORS as error:
            raise RunUnreadableError(f"the journal has a line that is no event: {error}") from error
