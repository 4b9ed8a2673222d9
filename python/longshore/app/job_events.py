"""Picks from the journal of a run the events that concern some of its jobs, and folds these alone.

The state of a job depends on its own events, on those of what it descends from, and on those of the whole run.
So the fold of these is exact for that job, and costs little where the run is big.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from longshore.app.capabilities import journal_is_complete
from longshore.app.runs import OpenRun, readable
from longshore.contract.context import Unreachable
from longshore.engine.journal import lives, read_lines
from longshore.errors import LongshoreError, RunUnreadableError, UnreachableError
from longshore.model.attempt import Attempt
from longshore.model.codec import decode_event, encode_line
from longshore.model.event import Ended, Event, Lost, Refused, Started, Submitted, Submitting
from longshore.model.garbage import collection_paused
from longshore.model.request import Request
from longshore.model.state import Cause


class _Touched(msgspec.Struct, gc=False):
    """The little of an event that says whom it concerns; the rest of the line is skipped."""

    e: str
    j: int = -1
    b: str = ""
    jobs: tuple[Any, ...] | None = None


_touched = msgspec.json.Decoder(_Touched).decode


class JobEvents:
    """The events of some jobs of a run, and who held something at the end.

    Parameters
    ----------
    lines
        The events of the run; see `event_lines`.
    jobs
        Indices of the jobs.

    Raises
    ------
    RunUnreadableError
        A line is no event.
    """

    def __init__(self, lines: Sequence[bytes], jobs: Container[int]) -> None:
        self._lines = lines
        with collection_paused(), _told():
            self.events: list[Event] = [_whole(line) for line in _concerning(lines, jobs)]
            """The events that concern the jobs, or the whole run, in order."""

    def attempts(self, jobs: Iterable[int]) -> Attempts:
        """Every attempt of some of the jobs."""
        attempts = Attempts(frozenset(jobs))
        for event in self.events:
            attempts.take(event)
        return attempts

    def active(self) -> dict[int, Request]:
        """The request of every job of the whole run that was handed over and is not over."""
        members: dict[str, tuple[Any, ...]] = {}
        active: dict[int, bytes] = {}
        with collection_paused(), _told():
            for line in self._lines:
                event = _touched(line)
                if event.e == "submitting":
                    members[event.b] = event.jobs or ()
                    active.update((member, line) for member, _ in event.jobs or ())
                elif event.e in {"ended", "lost"}:
                    active.pop(event.j, None)
                elif event.e == "refused":
                    for member, _ in event.jobs or members.get(event.b, ()):
                        active.pop(member, None)
            whole = {job: _whole(line) for job, line in active.items()}
        return {job: event.request or Request() for job, event in whole.items() if isinstance(event, Submitting)}


def _concerning(lines: Iterable[bytes], jobs: Container[int]) -> Iterator[bytes]:
    """The lines of the events that concern some jobs, or the whole run."""
    ours: set[str] = set()
    touched = _touched
    for line in lines:
        event = touched(line)
        if event.j >= 0:
            if event.j in jobs:
                yield line
        elif event.e == "submitting":
            if any(member in jobs for member, _ in event.jobs or ()):
                ours.add(event.b)
                yield line
        elif event.b:
            if event.b in ours:
                yield line
        elif not event.jobs or any(member in jobs for member in event.jobs):
            yield line


def event_lines(opened: OpenRun) -> list[bytes]:
    """Every event of a run as a line that is not decoded yet.

    Parameters
    ----------
    opened
        The run.

    Raises
    ------
    RunUnreadableError
        The journal is torn, gone, too new, or may not be read.
    UnreachableError
        The workload manager does not say what happened.
    """
    with readable(opened.run):
        if lives(opened.run.journal) and _is_whole(opened):
            everything: list[bytes] = []
            for _, lines in read_lines(opened.run.journal):
                everything += lines
            return everything
        answer = opened.events()
        if isinstance(answer, Unreachable):
            raise UnreachableError(f"what happened in run '{opened.card.id}' cannot be asked for: {answer.why}")
        found = list(map(encode_line, answer[0]))
    if not found and opened.card.submissions and opened.is_alive() is not True:
        raise RunUnreadableError(
            f"run '{opened.card.id}' was handed over, and nothing is left in '{opened.run.journal}' that says what "
            "happened since"
        )
    return found


def _is_whole(opened: OpenRun) -> bool:
    try:
        return journal_is_complete(opened.service, opened.run)
    except LongshoreError:
        # Its service is not installed here: what is written down is all there is.
        return True


def failed_once(lines: Iterable[bytes]) -> list[int]:
    """The jobs that were given up at least once."""
    with _told():
        touched = [_touched(line) for line in lines if b"failed" in line]
    return list(dict.fromkeys(event.j for event in touched if event.e == "failed"))


def _whole(line: bytes) -> Event:
    event: Event = decode_event(line)
    return event


@contextmanager
def _told() -> Iterator[None]:
    """Say in our words that a line is no event."""
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunUnreadableError(f"the journal has a line that is no event: {error}") from error


class Attempts:
    """Every attempt of some jobs.

    Parameters
    ----------
    jobs
        Indices of the jobs.
    """

    def __init__(self, jobs: Container[int]) -> None:
        self._jobs = jobs
        self._all: dict[tuple[int, int], Attempt] = {}
        self._members: dict[str, list[tuple[int, int]]] = {}

    def of(self, job: int) -> list[Attempt]:
        """The attempts of a job, oldest first."""
        return [attempt for (owner, _), attempt in sorted(self._all.items()) if owner == job]

    def take(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Submitting():
                self._submitting(event)
            case Submitted() if event.b in self._members:
                for member in self._members[event.b]:
                    self._change(member, wms_id=event.id)
            case Refused() if event.b in self._members:
                self._refused(event)
            case Started() if event.j in self._jobs:
                self._change((event.j, event.a), host=event.host, started_at=event.at or event.t, clock="host")
            case Ended() if event.j in self._jobs:
                self._ended(event)
            case Lost() if event.j in self._jobs:
                self._change((event.j, event.a), cause=Cause.LOST, reason=event.why, ended_at=event.t)
            case _:
                pass

    def _submitting(self, event: Submitting) -> None:
        ours = [(job, number) for job, number in event.jobs if job in self._jobs]
        if not ours:
            return
        self._members[event.b] = ours
        for job, number in ours:
            self._all[job, number] = Attempt(
                job=job, number=number, wms_id=event.b, requested=event.request, submitted_at=event.t
            )

    def _refused(self, event: Refused) -> None:
        named = set(self._members[event.b] if event.jobs is None else event.jobs)
        for member in [each for each in self._members[event.b] if each in named]:
            if event.spent:
                self._change(member, cause=Cause.SUBMIT, reason=event.why, ended_at=event.t)
            else:
                # It never was: its number is given to the next.
                self._all.pop(member, None)

    def _ended(self, event: Ended) -> None:
        before = self._all.get((event.j, event.a))
        start = before.started_at if before and before.started_at is not None else event.start
        self._change(
            (event.j, event.a),
            host=(before.host if before else None) or event.host,
            started_at=start,
            ended_at=event.end or event.t,
            queue_s=event.queue_s,
            run_s=event.run_s,
            cpu_s=event.cpu_s,
            peak_memory_b=event.rss_b,
            exit_code=event.exit,
            signal=event.signal,
            cause=event.cause,
            reason=event.reason,
            extra=event.extra,
        )

    def _change(self, member: tuple[int, int], **fields: Any) -> None:
        known = self._all.get(member) or Attempt(job=member[0], number=member[1])
        self._all[member] = replace(known, **fields)
