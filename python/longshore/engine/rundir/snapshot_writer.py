"""Snapshot writer: writes ``status.json`` soon after news, and at intervals as the engine's heartbeat."""

from __future__ import annotations

from typing import Final

from longshore.contract.service import RunPaths
from longshore.engine.rundir.wait_notes import WaitNotes
from longshore.model.report import Snapshot
from longshore.rundir.journal import Journal
from longshore.rundir.run_directory import write_snapshot
from longshore.system.host import Clock

_MIN_INTERVAL_S: Final = 1.0
"""Time between two snapshots while there is news."""
_HEARTBEAT_S: Final = 10.0
"""Time between two snapshots without news."""


class SnapshotWriter:
    """Writer of the snapshots of one life; its journal is never behind a snapshot."""

    def __init__(self, run: RunPaths, journal: Journal, clock: Clock) -> None:
        self._run = run
        self._journal = journal
        self._clock = clock
        self._written_at = -_HEARTBEAT_S
        self._written_number = -1
        self._note = ""

    def is_due(self, notes: WaitNotes) -> bool:
        """Return whether it is time for another snapshot, which would carry these notes."""
        age = self._clock.elapsed() - self._written_at
        news = self._journal.number != self._written_number or str(notes) != self._note
        return age >= _HEARTBEAT_S or (news and age >= _MIN_INTERVAL_S)

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot.

        Raises
        ------
        OSError
            It cannot be written; the next is due as if it had been.
        """
        self._written_at, self._written_number, self._note = self._clock.elapsed(), self._journal.number, snapshot.note
        self._journal.flush()
        write_snapshot(self._run, snapshot)
