"""One handing over of a run, and what names a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run was handed to its workload manager; a restart adds another."""

    id: str
    """The run's id as users give it: our own, or the workload manager's."""
    by: str
    """``submit`` or ``restart``."""
    at: float
    """Seconds since the epoch (UTC)."""
    user: str
    host: str
    notes: tuple[str, ...] = ()
    """What the user should know, such as how the engine was detached."""
    global_id: str = ""
    """The workload manager's id that no other machine's run has, where it has such ids."""


class RunCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``run.json``: who a run is. Everything else about it is in the files beside."""

    format: int
    """Version of the run directory's layout."""
    id: str
    name: str
    service: str
    longshore: str
    created_at: float
    expected: int
    """Number of jobs, the final one included."""
    labels: Mapping[str, int]
    """Number of jobs per label, in the order of the pipeline."""
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    key: str = ""
    """Tells it from any other run of the same id: ids are unique to a state directory, and a user may have several."""
    submissions: tuple[Submission, ...] = ()
    id_links: str | None = None
    """Directory in which a link named by the id of each submission is made."""

    @property
    def shown_id(self) -> str:
        """The id that is shown to people: the workload manager's newest, where it gives runs ids of its own."""
        return self.submissions[-1].id if self.submissions else self.id

    @property
    def other_ids(self) -> tuple[str, ...]:
        """Ids that the workload manager gave the run, beside our own."""
        given = (name for each in self.submissions for name in (each.id, each.global_id))
        return tuple(dict.fromkeys(name for name in given if name and name != self.id))

    @property
    def mark(self) -> str:
        """What no other run has, wherever this one is moved: processes and batches are known by it."""
        return f"{self.id}-{self.key}" if self.key else self.id
