"""Fleet: the pilots of all allocations of a run, with what the batch system says of these."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from longshore.contract.service import RunPaths
from longshore.model.wording import count_noun
from longshore.services.batch.pilots.allocations import AllocationNews, AllocationSource, PilotSettings
from longshore.services.batch.pilots.pilot_link import PilotLink
from longshore.services.batch.pilots.pilot_state import PilotId
from longshore.services.batch.pilots.pool import PilotPool, PilotView, WaitingWork, room_for
from longshore.system.room import describe_failed_write

LOG: Final = logging.getLogger("longshore.batch")


class Fleet:
    """All pilots that are not settled, by allocation and node."""

    def __init__(self, pool: PilotPool, source: AllocationSource, settings: PilotSettings) -> None:
        self._pool = pool
        self._source = source
        self._settings = settings
        self._run: RunPaths | None = None
        self.pilots: dict[PilotId, PilotLink] = {}
        self._news = AllocationNews()
        self._settled: set[int] = set()
        """Allocations that are gone, and whose records were read to the end."""
        self._asked = 0
        """Allocations that were requested, and that the source did not list yet."""
        self._listed: set[int] = set()
        """Allocations that the source ever listed."""
        self._cancelled: set[int] = set()
        self._unreachable = ""
        """Why the newest look at a mailbox failed."""
        self._unwritten = ""
        """Why orders cannot be written."""
        self.is_damaged = False
        """Whether records or orders of a pilot could not be read to their ends when it was settled."""

    def open(self, run: RunPaths) -> None:
        """Get ready for one life."""
        self._run = run

    # -------------------------------------------------------------------------------------------------------- look

    def update(self, news: AllocationNews, now: float) -> None:
        """Follow the batch system: open the mailboxes of new allocations, and note which are gone."""
        self._news = news
        listed = self._listed.union(news.pending, news.running, news.gone)
        self._asked = max(0, self._asked - len(listed) + len(self._listed))
        self._listed = listed
        for number in (*news.pending, *news.running):
            if number not in self._settled:
                self._open_mailboxes(number, is_gone=False)
        for number, why in news.gone.items():
            if number not in self._settled:
                self._open_mailboxes(number, is_gone=True)
            for pilot in self._of(number):
                if pilot.gone_since is None:
                    pilot.gone_since, pilot.gone_why = now, why

    def _open_mailboxes(self, number: int, *, is_gone: bool) -> None:
        assert self._run is not None
        for node, mailbox in enumerate(self._source.mailboxes(number)):
            if (number, node) in self.pilots:
                continue
            try:
                pilot = PilotLink((number, node), mailbox, below=self._run.root, is_gone=is_gone)
            except OSError as error:
                self._unwritten = describe_failed_write(error, self._run.root)
                continue
            self.pilots[number, node] = pilot
            self._pool.pilots[number, node] = pilot.state

    def _of(self, number: int) -> list[PilotLink]:
        return [pilot for (each, _), pilot in self.pilots.items() if each == number]

    def look(self, now: float) -> bool:
        """Read the new records of all pilots; return whether there are any."""
        is_new = False
        self._unreachable = ""
        for pilot in self.pilots.values():
            if pilot.state.is_over:
                continue
            try:
                is_new = pilot.look(now) or is_new
            except OSError as error:
                self._unreachable = error.strerror or str(error)
                continue
            self._settle(pilot, now)
        return is_new

    def _settle(self, pilot: PilotLink, now: float) -> None:
        """Settle the attempts of a pilot whose allocation is gone, once all its records can be read."""
        state = pilot.state
        is_due = pilot.gone_since is not None and now - pilot.gone_since >= self._settings.settle_s
        if is_due and not state.is_over:
            self.is_damaged = self.is_damaged or pilot.has_damage
            state.finish(f"its pilot is gone: {pilot.gone_why}", is_damaged=pilot.has_damage)

    def drop_settled(self) -> None:
        """Forget gone allocations whose events were all collected."""
        for pilot_id, pilot in list(self.pilots.items()):
            state = pilot.state
            if state.is_over and pilot.gone_since is not None and not (state.events or state.returned or state.failed):
                del self.pilots[pilot_id], self._pool.pilots[pilot_id]
                if not self._of(pilot_id[0]):
                    self._settled.add(pilot_id[0])

    def unanswered(self) -> list[PilotId]:
        """List the pilots that may have taken orders of earlier lives, and did not tell which."""
        return [
            pilot_id
            for pilot_id, pilot in self.pilots.items()
            if not pilot.has_read_older
            or not pilot.state.has_answered
            or (pilot.gone_since is not None and not pilot.state.is_over)
        ]

    @property
    def is_superseded(self) -> bool:
        """Whether a pilot follows the orders of a later life."""
        return any(pilot.state.is_superseded for pilot in self.pilots.values())

    @property
    def note(self) -> str:
        """What users should know."""
        silent = sum(pilot.is_moved and not pilot.state.is_over for pilot in self.pilots.values())
        notes = (
            f"the records of pilots cannot be read: {self._unreachable}" if self._unreachable else "",
            f"orders for pilots cannot be written: {self._unwritten}" if self._unwritten else "",
            f"{count_noun(silent, 'pilot')} gave no sign of life" if silent else "",
        )
        return "; ".join(filter(None, notes))

    # ------------------------------------------------------------------------------------------------------ orders

    def settle_silent(self, now: float) -> None:
        """Move what waits in pilots whose lease is over, and cancel their allocations."""
        for pilot_id, pilot in self.pilots.items():
            state = pilot.state
            if state.begun is None or state.is_over or pilot.gone_since is not None:
                continue
            if pilot.quiet_s <= self._settings.lease_s + self._settings.margin_s:
                continue
            try:
                pilot.move_waiting()
            except OSError as error:
                self._unwritten = error.strerror or str(error)
                continue
            if pilot_id[0] not in self._cancelled:
                LOG.warning("pilot %d.%d gave no sign of life for %.0f s: it is cancelled", *pilot_id, pilot.quiet_s)
                self._cancel([pilot_id[0]])

    def flush(self, now: float) -> None:
        """Acknowledge signs of life, and write all orders."""
        assert self._run is not None
        self._unwritten = ""
        for pilot in self.pilots.values():
            if pilot.gone_since is not None:
                continue
            pilot.acknowledge(now, self._settings.lease_s)
            try:
                pilot.flush()
            except OSError as error:
                # They count as given: a reader may see them. A later call writes them again.
                self._unwritten = describe_failed_write(error, self._run.root)

    def views(self, now: float, *, all_live: bool = False) -> list[PilotView]:
        """Return the pilots that take work; with `all_live`, also those that take none and still have some."""
        return [
            self._pool.view(pilot_id, left_s=pilot.left_s(now), is_asked_back=pilot.is_asked_back)
            for pilot_id, pilot in self.pilots.items()
            if (pilot.takes_work and pilot.rest_until <= now) or (all_live and pilot.state.begun is not None)
        ]

    # ------------------------------------------------------------------------------------------------- allocations

    def has_live(self) -> bool:
        """Return whether an allocation is there, or may come."""
        return bool(self._news.pending or any(self._is_live(pilot) for pilot in self.pilots.values()))

    def has_begun(self) -> bool:
        """Return whether a pilot runs."""
        return any(self._is_live(pilot) and pilot.state.begun is not None for pilot in self.pilots.values())

    def _is_live(self, pilot: PilotLink) -> bool:
        return pilot.gone_since is None and not pilot.state.is_over

    def useful_allocations(self, works: Sequence[WaitingWork], now: float) -> int:
        """Count allocations that wait, or that can take what waits here."""
        useful = set(self._news.pending) - self._cancelled
        for (number, _), pilot in self.pilots.items():
            if number in useful or not self._is_live(pilot):
                continue
            if pilot.state.begun is None or (not pilot.state.is_ending and self._could_take(pilot, works, now)):
                useful.add(number)
        return len(useful) + self._asked

    def _could_take(self, pilot: PilotLink, works: Sequence[WaitingWork], now: float) -> bool:
        """Return whether a pilot could take some of the work, were it idle."""
        begun = pilot.state.begun
        assert begun is not None
        idle = PilotView(id=pilot.id, cpus=begun.cpus, memory_b=begun.memory, left_s=pilot.left_s(now))
        return idle.left_s > 0.0 and (not works or any(room_for(idle, work) for work in works))

    def request(self, count: int) -> None:
        """Ask for so many more allocations."""
        if count > 0:
            self._asked += count
            self._source.request(count)

    def cancel_pending(self) -> None:
        """Cancel the allocations that have not begun."""
        begun = {number for (number, _), pilot in self.pilots.items() if pilot.state.begun is not None}
        unused = {number for (number, _), pilot in self.pilots.items() if self._is_live(pilot)}
        self._cancel(sorted(unused.union(self._news.pending) - begun - self._cancelled))

    def _cancel(self, numbers: Sequence[int]) -> None:
        if numbers:
            self._cancelled.update(numbers)
            self._source.cancel(numbers)

    def end_all(self) -> None:
        """Let all pilots end, and cancel the allocations that have not begun."""
        for pilot in self.pilots.values():
            if self._is_live(pilot) and pilot.state.begun is not None:
                pilot.end()
                try:
                    pilot.flush()
                except OSError as error:
                    # Without orders, it ends when it was idle for a while.
                    LOG.warning("pilot %d.%d cannot be told to end: %s", *pilot.id, error.strerror or error)
        self.cancel_pending()
