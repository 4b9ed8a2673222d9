"""Turns what HTCondor wrote about a run, and what was ordered, into its events, kept where they can be deleted.

What was read once is not read again: the events lie in ``cache/htcondor``, a file per submission as in a journal,
beside where each job stands and how far the log was read. Without that folder all is read anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final, TypeAlias, TypeVar

import msgspec

from longshore.contract.batch import WaitReasons
from longshore.contract.context import Mark, RunPaths, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.engine.rundir.job_table import JobTable, read_header
from longshore.engine.rundir.journal import path_of
from longshore.engine.rundir.read_journal import read_since
from longshore.engine.rundir.replay import replay
from longshore.engine.state.apply_event import apply_event
from longshore.engine.state.job_codes import OVER
from longshore.engine.state.run_state import RunState
from longshore.model.lines.codec import encode_line
from longshore.model.run.event import Deleted, Event, Finished, Life, News, Steer
from longshore.model.run.state import JobState
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.request import Request
from longshore.services.htcondor.events.cache import (
    FORMAT,
    Told,
    forget_told,
    held_off,
    is_all_told,
    is_told,
    read_told,
    write_told,
)
from longshore.services.htcondor.events.dagman_closing import never_submitted
from longshore.services.htcondor.events.dagman_end import End, last_word
from longshore.services.htcondor.events.job_phases import Standing
from longshore.services.htcondor.events.log_reader import EventLog, Place
from longshore.services.htcondor.events.to_events import Story
from longshore.services.htcondor.events.to_events_fast import Course
from longshore.services.htcondor.submissions import Book, Handed, dagman_log, dagman_out, nodes_log
from longshore.world.files.atomic import open_to_append
from longshore.world.runs.run_directory import write_waiting

_FOLDER: Final = "htcondor"
_UNKEPT: Final = "unkept:"
_WHOLE: Final = "whole:"
_LATE_S: Final = 120.0
"""How much later than it was written a log is seen here at most."""
_AT_ONCE: Final = 5000
"""Events that are written together."""

_Piece = TypeVar("_Piece")
_Tell: TypeAlias = Callable[[Story, EventLog, list[Steer]], Iterator[_Piece]]
"""Reads what is new in a log, with what was ordered meanwhile."""


class Reading:
    """The events of one run.

    Parameters
    ----------
    run
        The run directory.
    book
        What was handed over and ordered.
    is_gone
        Says of the newest submission whether DAGMan and all its jobs have left the queue; asked only where that does
        not follow from its log.
    remembered
        How DAGMan ended as the schedd remembers it; asked only where it is gone without a word in its log.
    """

    def __init__(
        self,
        run: RunPaths,
        book: Book,
        is_gone: Callable[[], bool],
        remembered: Callable[[], End | Unreachable | None] = lambda: None,
    ) -> None:
        self._run = run
        self._book = book
        self._is_gone = is_gone
        self._remembered = remembered
        self._folder = run.cache / _FOLDER
        self._told = Told()
        self._standing: Standing | None = None
        self._final = False
        self._ends: dict[int, End | None] = {}
        """How submissions ended, where that was asked in advance."""
        self._left: Event | None = None
        """The last word on the jobs that were left when DAGMan ended."""

    def events(self, mark: Mark = "") -> tuple[Iterator[Event], Mark]:
        """What happened since a mark.

        Raises
        ------
        StaleMark
            What was told up to that mark no longer holds.
        """
        if not self._keep():
            return self._unkept(mark)
        if mark.startswith(_UNKEPT):
            raise StaleMarkError
        return read_since(self._folder, mark)

    def course(self, mark: Mark = "") -> tuple[Iterator[News], Mark]:
        """The same in short; of a run that is over and was not read before, it is read once, and nothing is kept.

        Raises
        ------
        StaleMark
            What was told up to that mark no longer holds.
        """
        whole = self.mark_of_all()
        if mark == whole:
            return iter(()), mark
        if mark.startswith(_WHOLE):
            raise StaleMarkError
        newest = len(self._book.handed)
        if mark or not newest or is_told(self._folder):
            return self.events(mark)
        self._ends[newest] = self._end_of(newest)
        if self._ends[newest] is None:
            return self.events(mark)
        self._told, self._standing = Told(), None
        return self._unnumbered(self._in_short), whole

    def mark_of_all(self) -> Mark:
        """What tells all that was written about a run from all that is after anything was added."""
        number = len(self._book.handed)
        try:
            about = nodes_log(self._run, number, newest=number).stat()
        except OSError:
            return f"{_WHOLE}{number}:{len(self._book.taken)}"
        return f"{_WHOLE}{number}:{len(self._book.taken)}:{about.st_ino}:{about.st_size}"

    def in_short(self) -> Standing | None:
        """Where that left the jobs, but for the memory they were given; ``None`` where it was not read to its end."""
        return self._standing if self._told.finished else None

    def standing(self) -> Standing:
        """Where the jobs stand, once all is read."""
        if not self._keep():
            self._unkept("")
        return self._now()

    # ---------------------------------------------------------------------------------------------------------- keeping

    def _keep(self) -> bool:
        """Read what is new, and keep it; false where that cannot be done."""
        newest, self._ends = len(self._book.handed), {}
        if newest and not is_all_told(self._folder, newest):
            # A schedd may be long silent, for which nobody else is to wait.
            self._ends[newest] = self._end_of(newest)
        with held_off(self._folder) as may_write:
            if not may_write:
                return False
            try:
                self._advance()
            except OSError:
                # If it was no full disk, reading it all tells what it was.
                return False
        return True

    def _unkept(self, mark: Mark) -> tuple[Iterator[Event], Mark]:
        """All events, read from the beginning, where nothing can be written: of somebody else's run, or a full disk."""
        found: list[Event] = []
        with collection_paused():
            self._told, self._standing = Told(), None
            for event in self._in_truth(self._story(), lambda: found):
                found.append(event)  # noqa: PERF402 - what was found is looked at meanwhile
        before = int(mark.removeprefix(_UNKEPT) or 0) if mark.startswith(_UNKEPT) or not mark else -1
        if not 0 <= before <= len(found):
            raise StaleMarkError
        return iter(found[before:]), f"{_UNKEPT}{len(found)}"

    def _load(self) -> None:
        try:
            told = read_told(self._folder)
            whole = told.format == FORMAT and told.lives <= len(self._book.handed)
            whole = whole and told.orders <= len(self._book.taken)
            for number, size in enumerate(told.sizes, 1):
                path = path_of(self._folder, number)
                there = path.stat().st_size
                whole = whole and there >= size
                if there > size:
                    # Somebody died before he could say that he had written it.
                    os.truncate(path, size)
        except (OSError, msgspec.MsgspecError):
            whole = False
        if whole:
            self._told, self._standing = told, None
        else:
            self._forget()

    def _forget(self) -> None:
        forget_told(self._folder)
        self._told, self._standing = Told(), None

    def _save(self) -> None:
        if self._standing is not None:
            self._told.standing = self._standing.kept()
        write_told(self._folder, self._told)

    def _advance(self) -> None:
        """Read what is new, and write down what it means."""
        self._load()
        told = self._told
        if told.finished and told.lives == len(self._book.handed):
            return
        with collection_paused():
            try:
                changed = self._write(self._story())
            except _ReplacedError:
                self._forget()
                changed = self._write(self._story())
        if changed:
            self._save()
            self._say_who_waits()

    def _write(self, events: Iterable[Event]) -> bool:
        """Append events to the files of their lives; return whether there were any."""
        file: BinaryIO | None = None
        life = 0
        lines: list[bytes] = []

        def written() -> Iterator[Event]:
            self._flush(file, life, lines)
            return read_since(self._folder)[0]

        try:
            for event in self._in_truth(events, written):
                if isinstance(event, Life):
                    # What is left of the life before, although the newest by now is another one.
                    self._flush(file, life, lines)
                    if file is not None:
                        file.close()
                    file = None
                if file is None:
                    life = self._told.lives
                    file = open_to_append(path_of(self._folder, life))
                lines.append(encode_line(event))
                if len(lines) >= _AT_ONCE:
                    self._flush(file, life, lines)
            self._flush(file, life, lines)
        finally:
            if file is not None:
                file.close()
        return file is not None

    def _flush(self, file: BinaryIO | None, life: int, lines: list[bytes]) -> None:
        if file is not None and lines:
            text = b"".join(lines)
            file.write(text)
            file.flush()
            self._told.sizes[life - 1] += len(text)
            lines.clear()

    def _in_truth(self, events: Iterable[Event], before: Callable[[], Iterable[Event]]) -> Iterator[Event]:
        """The events, with what follows only from all before: the state at the end, and which jobs were left there.

        Of those that never ran, most were pruned and not cancelled.
        """
        state: RunState | None = None
        for event in events:
            if isinstance(event, Deleted) and event is self._left:
                state = self._state_after(before())
                left = msgspec.structs.replace(event, jobs=tuple(j for j in event.jobs if state.code[j] not in OVER))
                if not left.jobs:
                    self._told.number -= 1
                    continue
                apply_event(state, left)
                yield left
            elif isinstance(event, Finished):
                state = state or self._state_after(before())
                yield msgspec.structs.replace(event, state=state.overall())
                state = None
            else:
                yield event

    def _state_after(self, events: Iterable[Event]) -> RunState:
        return replay(JobTable(self._run, "parents"), events)

    def _say_who_waits(self) -> None:
        """Leave to reports why jobs are held."""
        reasons: dict[str, tuple[int, ...]] = {}
        for job, hold in sorted(self._now().holds.items()):
            name = f"held by HTCondor: {hold.reason}"
            reasons[name] = (*reasons.get(name, ()), job)
        with suppress(OSError):
            write_waiting(self._run, WaitReasons(reasons=reasons))

    # ---------------------------------------------------------------------------------------------------------- reading

    def _now(self) -> Standing:
        if self._standing is None:
            header = read_header(self._run)
            self._standing = Standing(header.jobs)
            self._final = header.final
            if self._told.standing is not None:
                self._standing.take_up(self._told.standing)
        return self._standing

    def _story(self) -> Iterator[Event]:
        """What is new, each event with its number."""
        told = self._told
        for event in self._unnumbered(self._at_length):
            if not isinstance(event, Life):
                msgspec.structs.force_setattr(event, "n", told.number)
                told.number += 1
            yield event

    def _unnumbered(self, tell: _Tell[_Piece]) -> Iterator[Event | _Piece]:
        told, handed = self._told, self._book.handed
        for number in range(max(1, told.lives), len(handed) + 1):
            if number == told.lives and told.finished:
                continue
            standing = self._now()
            story = Story(
                standing,
                final=self._final,
                retries=handed[number - 1].retries,
                requests=_requests_in(handed[:number]),
                asked=self._asked(number),
            )
            if number > told.lives:
                yield from self._begin(story, handed[number - 1])
            yield from self._of_life(story, number, tell)

    def _begin(self, story: Story, handed: Handed) -> Iterator[Event]:
        told = self._told
        told.lives += 1
        told.sizes.append(0)
        told.place, told.number, told.finished = Place(), 1, False
        # What was taken too late for the life before is not told of this one.
        told.orders = sum(order.life < told.lives for order in self._book.taken)
        yield msgspec.structs.replace(handed.life, life=told.lives)
        if handed.restarted is not None:
            story.restart(handed.restarted.jobs)
            yield handed.restarted
            yield from handed.steers

    def _of_life(self, story: Story, number: int, tell: _Tell[_Piece]) -> Iterator[Event | _Piece]:
        """What the log of one submission tells, with what was ordered meanwhile."""
        told, newest = self._told, len(self._book.handed)
        # Asked before the log is read: what was written before DAGMan's end is there by then.
        end = self._ends[number] if number in self._ends else self._end_of(number)
        log = EventLog(nodes_log(self._run, number, newest=newest), told.place)
        orders = [order.steer for order in self._book.taken[told.orders :] if order.life == number]
        yield from tell(story, log, orders)
        told.place = log.place
        while orders:
            yield from self._order(story, orders.pop(0))
        if end is not None:
            said = dagman_out(self._run, number, newest=newest)
            failures = never_submitted(self._run, said, end, self._now(), any_log=told.place.offset > 0)
            closing = story.finish(end.at, removed=end.removed, submit_failures=failures)
            self._left = closing[-1] if closing else None
            yield from closing
            told.finished = True
            yield Finished(state=JobState.UNKNOWN, t=end.at)

    def _at_length(self, story: Story, log: EventLog, orders: list[Steer]) -> Iterator[Event]:
        for record in log.read():
            if log.replaced:
                raise _ReplacedError
            while orders and record.at >= int(orders[0].t):
                yield from self._order(story, orders.pop(0))
            yield from story.take(record)

    def _in_short(self, story: Story, log: EventLog, orders: list[Steer]) -> Iterator[News]:
        # An order has its place among the beginnings of attempts, too.
        return self._at_length(story, log, orders) if orders else Course(story, log).news()

    def _order(self, story: Story, steer: Steer) -> Iterable[Event]:
        self._told.orders += 1
        return story.cancel(steer) if steer.act == "cancel" and not steer.select else (steer,)

    def _asked(self, life: int) -> Steer | None:
        """The newest order to end a submission of which is not written down whether it was taken."""
        found = [order.steer for order in self._book.ordered if order.life == life and not order.taken]
        return found[-1] if found else None

    def _end_of(self, number: int) -> End | None:
        newest = len(self._book.handed)
        handed = self._book.handed[number - 1]
        path = dagman_log(self._run, number, newest=newest)
        if (end := last_word(path, handed.cluster)) is not None and (number < newest or not end.removed):
            return end
        # Jobs of a DAGMan that was removed may have to be killed yet, when it is gone itself.
        if number == newest and not self._is_gone():
            return None
        # It may have said so in between.
        if (end := last_word(path, handed.cluster)) is not None:
            return end
        remembered = self._remembered() if number == newest else None
        if isinstance(remembered, Unreachable):
            return None
        if remembered is not None:
            # What is written on another host may be seen late; but a log that is lost is not waited for.
            return remembered if time.time() - remembered.at > _LATE_S else None
        at = handed.life.t
        with suppress(OSError):
            at = max(at, path.stat().st_mtime)
        return End(at=at, removed=True)


def _requests_in(handed: Iterable[Handed]) -> dict[int, Request]:
    """What jobs ask for since somebody set it: what one restart sets, the next keeps."""
    return {
        job: steer.request
        for each in handed
        for steer in each.steers
        if steer.request is not None
        for job in steer.jobs or ()
    }


class _ReplacedError(Exception):
    """The log is not the one that was read before."""
