"""Interventions of users: cancel, restart, pause, hold, set; the selected jobs; the outcome of a cancellation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class JobSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selection of jobs; without names, all jobs of a run.

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
        """Whether the whole run is selected."""
        return not self.jobs and not self.labels


class RestartChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a restart makes.

    Attributes
    ----------
    selection
        For which of the restarted jobs values are set.
    set
        Value per key, as for `Intervention`.
    from_labels
        Labels whose jobs run again with all their descendants, even if they succeeded.
    has_new_workflow
        Whether the submission has another workflow than the one before it; only for services that are `Amendable`.
    """

    selection: JobSelection = JobSelection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()
    has_new_workflow: bool = False


class Intervention(msgspec.Struct, frozen=True, kw_only=True):
    """Intervention in a live run, other than a cancellation.

    Attributes
    ----------
    act
        ``pause``, ``unpause``, ``throttle``, ``hold``, ``release`` or ``set``.
    selection
        Selected jobs or labels.
    set
        ``max`` of a throttle, ``why`` of a pause, or the keys to set, such as ``requestMemory``.
    """

    act: str
    selection: JobSelection = JobSelection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)


class CancelOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a cancellation.

    Attributes
    ----------
    ended
        Number of running or waiting attempts that ended or will end.
    alive
        Notes on what is still alive.
    """

    ended: int
    alive: tuple[str, ...] = ()
