"""Attempts whose numbers were given again after a loss was accepted: older keepers' records of them do not count."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.contract.executor import AttemptId, MemberEvent
from longshore.contract.service import RunPaths
from longshore.engine.run.check_records import newest_acceptance
from longshore.services.local.keeper_file import KeeperFile, keeper_files, recorded_attempts


class ReusedAttempts:
    """Attempts of the lives since the newest acceptance of a loss; none without one.

    The journal may lack attempts that earlier lives made, so that their numbers are given again.
    """

    def __init__(self, run: RunPaths) -> None:
        self._accepted = newest_acceptance(run) or 0
        self._attempts: set[AttemptId] = set()
        if self._accepted:
            for file in keeper_files(run.keeper).values():
                if file.life >= self._accepted:
                    self._attempts |= recorded_attempts(file)

    def add(self, attempts: Iterable[AttemptId]) -> None:
        """Add attempts that are sent to a keeper now."""
        if self._accepted:
            self._attempts.update(attempts)

    def of_older_life(self, file: KeeperFile) -> frozenset[AttemptId]:
        """Return the attempts that a keeper's records are not about, though they have their numbers."""
        return frozenset(self._attempts) if file.life < self._accepted else frozenset()

    def select_valid(self, file: KeeperFile, events: Iterable[MemberEvent]) -> Iterable[MemberEvent]:
        """Return the events that a keeper's records tell of attempts that still have their numbers."""
        if file.life >= self._accepted:
            return events
        return [each for each in events if (each.j, each.a) not in self._attempts]
