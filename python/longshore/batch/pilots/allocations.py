"""Source of a pilot's allocations: what a `PilotExecutor` asks of a batch system, and what it is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from longshore.contract.service import RunPaths, Unreachable


class AllocationNews(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations of a run as the batch system has them, by their numbers from 1.

    Attributes
    ----------
    pending
        All that were requested and have not begun.
    running
        All that have begun and are not known to be gone.
    gone
        Those that the batch system says are over, with the reason: nothing of them runs, and they never begin again.
        Each is told once per life at least, also those that went in earlier lives.
    waiting
        Numbers of pending allocations per reason, in the batch system's own words.
    refused
        Why the latest requests were refused for good; empty if they were not.
    note
        Note for users while it lasts, such as that the batch system does not answer.
    """

    pending: Sequence[int] = ()
    running: Sequence[int] = ()
    gone: Mapping[int, str] = msgspec.field(default_factory=dict)
    waiting: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    refused: str = ""
    note: str = ""


class AllocationSource(Protocol):
    """Requests allocations from a batch system, in which it starts the pilot program on each node.

    The source gives the numbers. No number is given twice in a run, also not in another life of the engine.
    """

    def open(self, run: RunPaths, life: int) -> None:
        """Get ready for one life of a run's engine; called once, before all else."""

    def request(self, count: int) -> None:
        """Ask for so many more allocations; never blocks long. The next `poll` lists them as pending."""

    def poll(self) -> AllocationNews | Unreachable:
        """Return the allocations of all lives as they are now, and which are gone since the last call."""

    def cancel(self, numbers: Collection[int]) -> None:
        """End allocations, pending or running, with all that runs in them; `poll` tells when they are gone."""

    def mailboxes(self, number: int) -> Sequence[Path]:
        """Return the mailbox folders of an allocation, one per node; they exist once it is listed as pending."""

    def close(self) -> None:
        """Release the resources of this life; allocations go on."""
