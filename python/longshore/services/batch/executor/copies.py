"""Copies of attempts that were given up and may live: their marks and leases, and what must wait for their end.

The reason is in decision 0101.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from shlex import quote
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import BatchFiles, has_lease
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.model.wording import count_noun
from longshore.rundir.batch_records import LEASE_S, MARGIN_S, GivenUp, add_record, describe_copy, read_marks, write_mark
from longshore.rundir.find_run import hint_reference
from longshore.services.batch.executor.monitor import LiveAttempt
from longshore.system.programs import BackgroundCall
from longshore.system.sharing import seconds_since_boot

LOG: Final = logging.getLogger("longshore.batch")
_INTERVAL_S: Final = 5.0
"""Seconds between two looks at leases and late records."""
_BOOT_INTERVAL_S: Final = 10.0
"""Seconds between two questions when nodes booted."""
_BOOT_MARGIN_S: Final = 2.0
"""Error of the time at which a node booted: it is calculated from how long the node is up."""


class LeaseWatch:
    """Whether a lease is over, by changes of its stamp and this process's own clock alone.

    Its holder ends itself `LEASE_S` after a renewal that was not followed by another. A renewal is seen at most
    `MARGIN_S` late. `now` is in seconds since boot.
    """

    def __init__(self, now: float, stamp: int | None) -> None:
        self._since = now
        self._stamp = stamp

    def is_over(self, now: float, stamp: int | None) -> bool:
        """Return whether the holder is certainly dead, by the newest stamp; ``None`` if there is none to be read."""
        if stamp is not None and stamp != self._stamp:
            self._since, self._stamp = now, stamp
        return now - self._since >= LEASE_S + MARGIN_S


class _Copy:
    """A copy that may live, with the end of its attempt while that is held back.

    `started_at` is when it started on its node, by the clock of the queue; ``None`` if that is unknown.
    """

    def __init__(self, mark: GivenUp, watch: LeaseWatch) -> None:
        self.mark = mark
        self.watch = watch
        self.held: Ended | Lost | None = None
        self.started_at: float | None = None


class BootTimes:
    """Times at which nodes booted last, asked for in the background by `ask`, which returns ``None`` for unknown."""

    def __init__(self, ask: Callable[[str], float | None]) -> None:
        self._ask = ask
        self._call: BackgroundCall[tuple[str, float | None]] = BackgroundCall()
        self._asked_at: dict[str, float] = {}
        self._known: dict[str, float] = {}

    def is_after(self, nodes: str, started_at: float | None, now: float) -> bool:
        """Whether all these nodes booted after a job started there; `now` is in seconds since boot."""
        if not nodes or started_at is None:
            return False
        for named, booted_at in self._call.take_result():
            if booted_at is not None:
                self._known[named] = booted_at
        if not self._call.is_busy and now - self._asked_at.get(nodes, -1e9) >= _BOOT_INTERVAL_S:
            self._asked_at[nodes] = now
            self._call.start(lambda: (nodes, self._ask(nodes)))
        return nodes in self._known and self._known[nodes] > started_at + _BOOT_MARGIN_S


def _may_live(member: LiveAttempt, end: Ended | Lost) -> bool:
    """Whether a copy of an attempt that left no record of its end may live."""
    if isinstance(end, Lost) or end.cause is Cause.LOST:
        return True
    # A workload manager also requeues what ran on a node that no longer answers.
    is_requeued = member.is_requeued or member.record is not None
    return end.cause is Cause.PREEMPTED and is_requeued


class CopyWatch:
    """The copies of a run's attempts. With `fence`, an attempt ends only once no copy of it can live."""

    def __init__(self, run: RunPaths, *, fence: bool, now: float, boots: BootTimes | None = None) -> None:
        self._run = run
        self._fence = fence
        self._has_lease = has_lease(run)
        self._boots = boots or BootTimes(lambda _: None)
        self._looked_at = -1e9
        self._copies = {
            (mark.tag, mark.id): _Copy(mark, LeaseWatch(now, self._stamp(mark)))
            for mark in read_marks(run)
            if not mark.outcome
        }

    def holds(self, member: LiveAttempt, end: Ended | Lost, now: float) -> bool:
        """Give up an attempt whose machine was lost, and return whether its end has to wait."""
        if member.has_end_record or not _may_live(member, end):
            return False
        key = (member.batch.tag, member.attempt)
        copy = self._copies.get(key) or self._give_up(member)
        if copy is None or not self._fence or member.is_cancelled:
            return False
        copy.held = end
        # Where the first start was is not known once a second one was refused.
        copy.started_at = member.started_at if member.record is None else None
        return True

    def _give_up(self, member: LiveAttempt) -> _Copy | None:
        """Mark an attempt as given up; return its copy, or ``None`` if it never began."""
        files, (job, attempt) = BatchFiles(self._run, member.batch.tag), member.attempt
        mark = GivenUp(
            tag=member.batch.tag,
            job=job,
            attempt=attempt,
            name=files.read_name(member.position),
            at=time.time(),
            host=member.node if member.record is None else "",
            leased=self._has_lease,
        )
        # First the mark, then the look: a wrapper that begins between them finds it.
        self._write(mark)
        now, stamp = seconds_since_boot(), files.read_lease(member.attempt)
        # A start that was refused found one before it.
        if stamp is None and not member.started and member.record is None:
            self._write(msgspec.structs.replace(mark, outcome="unstarted"))
            return None
        copy = self._copies[mark.tag, mark.id] = _Copy(mark, LeaseWatch(now, stamp))
        return copy

    def is_held(self, member: LiveAttempt) -> bool:
        """Whether the end of an attempt is held back."""
        copy = self._copies.get((member.batch.tag, member.attempt))
        return copy is not None and copy.held is not None

    def release(self, member: LiveAttempt, now: float) -> Iterator[Ended | Lost]:
        """Yield the held end of an attempt that was cancelled, or whose copies are all over."""
        copy = self._copies[member.batch.tag, member.attempt]
        if copy.held is None:
            return
        outcome = self._find_outcome(copy, now)
        if outcome or member.is_cancelled:
            end, copy.held = copy.held, None
            if outcome:
                self._settle(copy, outcome)
            yield end

    def end(self, member: LiveAttempt) -> None:
        """Settle a held attempt that left a record: it ended by itself after all, or its wrapper found the mark."""
        copy = self._copies.get((member.batch.tag, member.attempt))
        if copy is not None and copy.held is not None and member.has_end_record:
            copy.held = None
            self._settle(copy, "ended")

    def look(self, now: float) -> None:
        """Look for late records of attempts that have ended, and for leases that are over."""
        if not self._copies or now - self._looked_at < _INTERVAL_S:
            return
        self._looked_at = now
        for copy in [each for each in self._copies.values() if each.held is None]:
            mark = add_record(self._run, copy.mark)
            if mark.outcome:
                copy.mark = mark
                self._settle(copy, mark.outcome)
                if words := describe_copy(mark, 0.0):
                    LOG.warning("%s", words)
                self._discard(mark)
            elif outcome := self._find_outcome(copy, now):
                self._settle(copy, outcome)
                self._discard(mark)

    def keeps(self, tag: str, attempt: AttemptId) -> bool:
        """Whether the files of an attempt are needed by a copy of it."""
        return (tag, attempt) in self._copies

    @property
    def note(self) -> str:
        """Which attempts wait for the end of a copy; empty if none does."""
        held = [copy.mark for copy in self._copies.values() if copy.held is not None]
        if not held:
            return ""
        # One that may wait for ever comes first.
        first = min(held, key=lambda mark: mark.leased)
        where = f" on '{first.host}'" if first.host else ""
        more = f", and {count_noun(len(held) - 1, 'other')}" if len(held) > 1 else ""
        words = f"job '{first.name}' waits until its attempt {first.attempt}{where} is certainly dead ('fence'){more}"
        if first.leased:
            return words
        return (
            f"{words}; its wrapper, of an older version, has no lease, so only its record or a reboot of the node ends"
            f" this: longshore cancel {hint_reference(self._run)} --job {quote(first.name)} gives the job up, and"
            " 'restart' runs it again"
        )

    def _find_outcome(self, copy: _Copy, now: float) -> str:
        """Return how it is known that a copy is dead; empty if it is not."""
        if self._boots.is_after(copy.mark.host, copy.started_at, now):
            return "reboot"
        return "lease" if copy.mark.leased and copy.watch.is_over(now, self._stamp(copy.mark)) else ""

    def _stamp(self, mark: GivenUp) -> int | None:
        return BatchFiles(self._run, mark.tag).read_lease(mark.id)

    def _settle(self, copy: _Copy, outcome: str) -> None:
        copy.mark = msgspec.structs.replace(copy.mark, outcome=outcome)
        self._copies.pop((copy.mark.tag, copy.mark.id), None)
        self._write(copy.mark)

    def _discard(self, mark: GivenUp) -> None:
        files = BatchFiles(self._run, mark.tag)
        try:
            files.remove_end(mark.id)
        except OSError as error:
            LOG.warning("the files of an attempt in '%s' cannot be removed: %s", files.ends, error.strerror)
        files.remove_directory()

    def _write(self, mark: GivenUp) -> None:
        try:
            write_mark(self._run, mark)
        except OSError as error:
            LOG.warning("attempt %d of job '%s' cannot be marked: %s", mark.attempt, mark.name, error.strerror)
