"""A submission of a run, and the identity of a run (``run.json``)."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Mapping

import msgspec


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transfer of a run to its workload manager; a restart adds another."""

    id: str
    """The run's id for users: Longshore's, or the workload manager's."""
    by: str
    """``submit`` or ``restart``."""
    at: float
    """Seconds since the epoch (UTC)."""
    user: str
    host: str
    notes: tuple[str, ...] = ()
    """Notes for the user, such as how the engine was detached."""
    global_id: str = ""
    """The workload manager's globally unique id, where it has such ids."""


class RunIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``run.json``: the identity of a run; other facts are in the files beside it."""

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
    """Distinguishes it from other runs with the same id: ids are unique per state directory only."""
    submissions: tuple[Submission, ...] = ()
    submitted_from: str = ""
    """Working directory of the command that submitted it, without symbolic links; empty if unknown."""
    submitted_in: str = ""
    """Directory of the run whose job submitted it; empty if a person did."""
    submitted_by_job: str = ""
    """Name of that job."""
    id_links: str | None = None
    """Directory with a link named by the id of each submission."""

    @property
    def shown_id(self) -> str:
        """Id shown to people: the workload manager's newest, where it assigns ids."""
        return self.submissions[-1].id if self.submissions else self.id

    @property
    def other_ids(self) -> tuple[str, ...]:
        """Ids that the workload manager assigned to the run, beside Longshore's."""
        ids = (name for each in self.submissions for name in (each.id, each.global_id))
        return tuple(dict.fromkeys(name for name in ids if name and name != self.id))

    @property
    def run_token(self) -> str:
        """Run token, which is unique, even if the run is moved; identifies its processes and batches."""
        return f"{self.id}-{self.key}" if self.key else self.id
