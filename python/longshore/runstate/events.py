"""How the events of a run are read: all at once, those of some jobs, or new ones as they appear."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain, islice
from typing import Final, TypeVar

import msgspec

from longshore.contract.capabilities import journal_is_complete
from longshore.contract.service import Mark, StaleMarkError, Unreachable
from longshore.errors import (
    DECODE_ERRORS,
    LongshoreError,
    RunNotFoundError,
    RunUnreadableError,
    UnreachableError,
    UsageError,
)
from longshore.model.event import Event, Finished, Life, Restarted, Submitting, decode_event, decode_events
from longshore.model.json_lines import encode_line
from longshore.model.report import DamagedError
from longshore.model.tasks import collection_paused
from longshore.model.workflow import Request
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import EventChunks, lives, read_blocks, read_since
from longshore.runstate.open_run import OpenRun, is_missing, map_index_errors, map_read_errors

POLL_S: Final = 0.2
"""Shortest pause once a run has been followed for some seconds."""
_FIRST_POLL_S: Final = 0.01
"""Shortest pause at first: many runs of a few jobs are over in a moment."""
_WAITED_SHARE: Final = 0.1
"""Pause in between, as a share of the time waited so far: the end of a run is seen a tenth late at most."""
_PAUSE_RATIO: Final = 4.0
"""Pause in multiples of the poll's duration, so that most of the machine is left to others."""


def pause_after_poll(duration_s: float, waited_s: float = math.inf) -> None:
    """Sleep after a poll; the longer the poll took, the longer. `waited_s` is the time since the first poll."""
    time.sleep(pause_of(duration_s, waited_s))


def pause_of(duration_s: float, waited_s: float) -> float:
    """Return the seconds of a pause; see `pause_after_poll`."""
    shortest_s = min(POLL_S, max(_FIRST_POLL_S, _WAITED_SHARE * waited_s))
    return max(shortest_s, _PAUSE_RATIO * duration_s)


class _EventJobs(msgspec.Struct, gc=False):
    """Fields of an event that tell which jobs it concerns; the rest of the line is skipped."""

    e: str
    j: int = -1
    b: str = ""
    jobs: tuple[int | tuple[int, int], ...] | None = None


_decode_event_jobs = msgspec.json.Decoder(_EventJobs).decode_lines


def events_of_jobs(blocks: Iterable[bytes], jobs: Container[int]) -> list[Event]:
    """Return the events that concern some jobs or the whole run, in order.

    `blocks` are those of `longshore.runstate.events.event_blocks`. Raises `RunUnreadableError` if a line is no
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


_CHUNK_EVENTS: Final = 5000
"""Events that are held or encoded together."""
_Event = TypeVar("_Event")


def event_blocks(opened: OpenRun) -> list[bytes]:
    """Return every event of a run as undecoded lines, many lines a block.

    Of a damaged journal, only what precedes the damage is returned; `OpenRun.survey` tells the rest. Raises
    `RunUnreadableError` if the journal is gone, too new or not readable, `UnreachableError` if the workload manager
    does not answer.
    """
    with map_read_errors(opened.run):
        if lives(opened.run.journal) and _has_complete_journal(opened):
            return _intact_blocks(opened)
        events = all_events(opened)
        encoded = []
        while block := b"".join(map(encode_line, islice(events, _CHUNK_EVENTS))):
            encoded.append(block)
    if not encoded and opened.card.submissions and opened.is_alive() is not True:
        raise RunUnreadableError(
            f"run '{opened.card.id}' was submitted, and no record of its events is left in '{opened.run.journal}'"
        )
    return encoded


def _intact_blocks(opened: OpenRun) -> list[bytes]:
    blocks: list[bytes] = []
    try:
        blocks.extend(block.lines for block in read_blocks(opened.run.journal)[0])
    except DamagedError:
        opened.look_for_damage()
    else:
        if opened.find_lost_lives():
            opened.look_for_damage()
    return blocks


def all_events(opened: OpenRun) -> Iterator[Event]:
    """Iterate over every event of a run from its service.

    Raises `UnreachableError` if the workload manager does not answer.
    """
    answer = opened.events()
    if isinstance(answer, Unreachable):
        raise UnreachableError(f"the events of run '{opened.card.id}' cannot be queried: {answer.why}")
    return answer[0]


def _has_complete_journal(opened: OpenRun) -> bool:
    try:
        return journal_is_complete(opened.service, opened.run)
    except LongshoreError:
        # Without the installed service, the recorded events are the only ones.
        return True


class EventFollower:
    """Reads new events of a run.

    `mark` is the position in the events. `has_restarted` means that the last `read` began again with the first event,
    so what was read before is void. `unreachable` is why the workload manager did not answer the last call; empty if it
    did.
    """

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        # A journal is followed directly: events seen before the journal exists are numbered
        # differently.
        with map_read_errors(opened.run):
            self._has_journal = bool(lives(opened.run.journal))
        self.mark: Mark = ""
        self.has_restarted = False
        self.unreachable = ""

    @property
    def may_have_events(self) -> bool:
        """Whether the run may have events, now or later."""
        is_started = self._has_journal or bool(self._opened.card.submissions)
        return is_started or self._opened.is_alive() is not False

    def read(self) -> Iterator[Event]:
        """Return the events since the last call, in order; none while the workload manager does not answer.

        Raises `RunNotFoundError` if the run directory was removed, `RunUnreadableError` if new events cannot be read.
        The iterator may raise both.
        """
        root = self._opened.run.root
        if is_missing(root):
            raise RunNotFoundError(
                f"'{root}' is gone: it was moved or removed while it was followed",
                hint="If it was moved, name it by its new path.",
            )
        stale = False
        try:
            answer = self._query(self.mark)
        except StaleMarkError:
            stale = True
            answer = self._query("")
        if isinstance(answer, Unreachable):
            # The mark stays: if it is invalid, the next call returns that again.
            self.has_restarted, self.unreachable = False, answer.why
            return iter(())
        events, self.mark = answer
        self.has_restarted, self.unreachable = stale, ""
        return events

    def _query(self, mark: Mark) -> tuple[Iterator[Event], Mark] | Unreachable:
        if self._has_journal:
            return read_since(self._opened.run.journal, mark)
        return self._opened.events(mark)


def chunk_events(events: Iterable[_Event]) -> Iterator[list[_Event]]:
    """Yield events in lists for several collectors in turn, which is faster than one by one; damage is raised last."""
    if isinstance(events, EventChunks):
        yield from filter(None, events.chunks)
        return
    each = iter(events)
    damage: DamagedError | None = None
    while damage is None:
        piece: list[_Event] = []
        try:
            piece.extend(islice(each, _CHUNK_EVENTS))
        except DamagedError as error:
            damage = error
        if not piece:
            break
        yield piece
    if damage is not None:
        raise damage


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
