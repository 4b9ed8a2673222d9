"""What a user orders of a run: which jobs are meant, and what is to happen to them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class JobSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs of a run are meant; without names, all of them.

    Attributes
    ----------
    jobs, labels
        Names.
    final_too
        Whether all jobs include the final job, which otherwise runs even after a cancellation.
    pass_thru
        Words for the workload manager, from ``--pass-thru``.
    """

    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    final_too: bool = False
    pass_thru: str = ""

    @property
    def everything(self) -> bool:
        """Whether the whole run is meant."""
        return not self.jobs and not self.labels


class RestartChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart does differently.

    Attributes
    ----------
    selection
        For which of the restarted jobs values are set.
    set
        Value per key, as for `Intervention`.
    from_labels
        Labels whose jobs run again with all their descendants, even if they succeeded.
    """

    selection: JobSelection = JobSelection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """What a user orders of a live run, other than its end.

    Attributes
    ----------
    act
        ``pause``, ``unpause``, ``throttle``, ``hold``, ``release`` or ``set``.
    selection
        Which jobs or labels are meant.
    set
        ``max`` of a throttle, ``why`` of a pause, or the keys to set, such as ``requestMemory``.
    """

    act: str
    selection: JobSelection = JobSelection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)


class CancelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a cancellation achieved.

    Attributes
    ----------
    ended
        Number of attempts that were running or waiting and are gone, or are going.
    alive
        What is still there, a note each.
    """

    ended: int
    alive: tuple[str, ...] = ()
