"""Reads the events of a run from HTCondor's logs and from recorded interventions, with a cache that can be deleted.

A log is read once: the events are in ``cache/htcondor``, a file per submission as in a journal, beside the jobs'
phases and the read position. Without that folder all logs are read anew.
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
from longshore.engine.rundir.journal import life_path
from longshore.engine.rundir.read_journal import read_since
from longshore.engine.rundir.replay import replay
from longshore.engine.state.apply_event import apply_event
from longshore.engine.state.job_codes import OVER
from longshore.engine.state.run_state import RunState
from longshore.model.lines.codec import encode_line
from longshore.model.run.event import BriefEvent, Deleted, Event, Finished, Life, Steer
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
"""Seconds after which a log written on another host should be visible here."""
_AT_ONCE: Final = 5000
"""Number of events per write."""

_Piece = TypeVar("_Piece")
_Tell: TypeAlias = Callable[[Story, EventLog, list[Steer]], Iterator[_Piece]]
"""Reads new records of a log, together with the interventions of that time."""


class Reading:
    """Reader of the events of one run.

    Parameters
    ----------
    run
        The run directory.
    book
        Its submissions and interventions.
    is_gone
        Whether DAGMan and all jobs of the newest submission have left the queue; called only if the log does not say.
    remembered
        DAGMan's end by the schedd's history; called only if it is gone without a record in its log.
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
        """Ends of submissions, by number, where already determined."""
        self._left: Event | None = None
        """The event that deletes the jobs left when DAGMan ended."""

    def events(self, mark: Mark = "") -> tuple[Iterator[Event], Mark]:
        """Events since a mark, and the new mark.

        Raises `StaleMarkError` if the mark is invalid, so that the caller must read from the start.
        """
        if not self._keep():
            return self._unkept(mark)
        if mark.startswith(_UNKEPT):
            raise StaleMarkError
        return read_since(self._folder, mark)

    def course(self, mark: Mark = "") -> tuple[Iterator[BriefEvent], Mark]:
        """Like `events`, but an attempt that succeeded may be one event.

        A run that is over and has no cache is read once, and nothing is cached. Raises `StaleMarkError` if the mark is
        invalid.
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
        """Mark of a complete uncached read: it changes when anything is added to the run."""
        number = len(self._book.handed)
        try:
            about = nodes_log(self._run, number, newest=number).stat()
        except OSError:
            return f"{_WHOLE}{number}:{len(self._book.taken)}"
        return f"{_WHOLE}{number}:{len(self._book.taken)}:{about.st_ino}:{about.st_size}"

    def in_short(self) -> Standing | None:
        """Phases after `course`, without granted memory; ``None`` if that did not read to the end."""
        return self._standing if self._told.finished else None

    def standing(self) -> Standing:
        """Phases of the jobs, after reading all logs."""
        if not self._keep():
            self._unkept("")
        return self._now()

    # ------------------------------------------------------------------------------------------------------------ cache

    def _keep(self) -> bool:
        """Read new records into the cache; false if the cache cannot be used."""
        newest, self._ends = len(self._book.handed), {}
        if newest and not is_all_told(self._folder, newest):
            # Before the lock: a schedd may take long to answer, and other readers must not wait for it.
            self._ends[newest] = self._end_of(newest)
        with held_off(self._folder) as may_write:
            if not may_write:
                return False
            try:
                self._advance()
            except OSError:
                # A full disk does not prevent an uncached read, which raises any other error.
                return False
        return True

    def _unkept(self, mark: Mark) -> tuple[Iterator[Event], Mark]:
        """All events, read without a cache: another user's run, or a full disk."""
        found: list[Event] = []
        with collection_paused():
            self._told, self._standing = Told(), None
            for event in self._in_truth(self._story(), lambda: found):
                found.append(event)  # noqa: PERF402 - the list is read meanwhile
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
                path = life_path(self._folder, number)
                there = path.stat().st_size
                whole = whole and there >= size
                if there > size:
                    # A reader died between writing events and writing the state.
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
        """Read new records, and append their events to the cache."""
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
        """Append events to the files of their submissions; return whether there were any."""
        file: BinaryIO | None = None
        life = 0
        lines: list[bytes] = []

        def written() -> Iterator[Event]:
            self._flush(file, life, lines)
            return read_since(self._folder)[0]

        try:
            for event in self._in_truth(events, written):
                if isinstance(event, Life):
                    # The last events of the submission before.
                    self._flush(file, life, lines)
                    if file is not None:
                        file.close()
                    file = None
                if file is None:
                    life = self._told.lives
                    file = open_to_append(life_path(self._folder, life))
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
        """The events, completed by those that depend on all before: the final state, and the jobs left at the end.

        Most of the jobs left never ran, and were pruned, not cancelled.
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
        """Write for reports why jobs are held."""
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
        """New events, numbered."""
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
        # Interventions accepted too late for the submission before are no events of this one.
        told.orders = sum(order.life < told.lives for order in self._book.taken)
        yield msgspec.structs.replace(handed.life, life=told.lives)
        if handed.restarted is not None:
            story.restart(handed.restarted.jobs)
            yield handed.restarted
            yield from handed.steers

    def _of_life(self, story: Story, number: int, tell: _Tell[_Piece]) -> Iterator[Event | _Piece]:
        """Events of one submission, from its log, its interventions and its end."""
        told, newest = self._told, len(self._book.handed)
        # Determined before the log is read, so that the log is complete if DAGMan has ended.
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

    def _in_short(self, story: Story, log: EventLog, orders: list[Steer]) -> Iterator[BriefEvent]:
        # Interventions must be ordered among starts of attempts, which brief events omit.
        return self._at_length(story, log, orders) if orders else Course(story, log).news()

    def _order(self, story: Story, steer: Steer) -> Iterable[Event]:
        self._told.orders += 1
        return story.cancel(steer) if steer.act == "cancel" and not steer.select else (steer,)

    def _asked(self, life: int) -> Steer | None:
        """Latest cancel command that HTCondor has not confirmed."""
        found = [order.steer for order in self._book.ordered if order.life == life and not order.taken]
        return found[-1] if found else None

    def _end_of(self, number: int) -> End | None:
        newest = len(self._book.handed)
        handed = self._book.handed[number - 1]
        path = dagman_log(self._run, number, newest=newest)
        if (end := last_word(path, handed.cluster)) is not None and (number < newest or not end.removed):
            return end
        # After DAGMan was removed and is gone, some of its jobs may still be running.
        if number == newest and not self._is_gone():
            return None
        # The log may have been written in between.
        if (end := last_word(path, handed.cluster)) is not None:
            return end
        remembered = self._remembered() if number == newest else None
        if isinstance(remembered, Unreachable):
            return None
        if remembered is not None:
            # A log from another host may appear late; a lost one is not waited for.
            return remembered if time.time() - remembered.at > _LATE_S else None
        at = handed.life.t
        with suppress(OSError):
            at = max(at, path.stat().st_mtime)
        return End(at=at, removed=True)


def _requests_in(handed: Iterable[Handed]) -> dict[int, Request]:
    """Changed requests per job; a change in one restart also holds for later ones."""
    return {
        job: steer.request
        for each in handed
        for steer in each.steers
        if steer.request is not None
        for job in steer.jobs or ()
    }


class _ReplacedError(Exception):
    """The log is another file than the one read before."""
