"""The snapshot ``status.json``: the state of a run when its engine last wrote it."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Mapping
from typing import Annotated

import msgspec

from longshore.model.run.event import MOST_LIVES
from longshore.model.run.states import JobState


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest state that an engine wrote; only the journal is authoritative.

    Attributes
    ----------
    life, n
        The last event it includes: life of the engine, and number in that life.
    at
        Seconds since the epoch (UTC) on the engine's clock.
    pid, host, boot
        The engine's process.
    counts, labels
        Number of jobs per state, in all and per label.
    finished
        Whether the run is over.
    note
        Why the engine waits; empty if it does not.
    """

    life: Annotated[int, msgspec.Meta(ge=0, le=MOST_LIVES)]
    n: int
    at: float
    pid: int
    host: str
    boot: str
    state: JobState
    counts: Mapping[JobState, int]
    labels: Mapping[str, Mapping[JobState, int]]
    finished: bool = False
    note: str = ""

    @property
    def paused(self) -> bool:
        """Whether the run is paused; engines before 0.1 wrote the word in small letters."""
        return not self.finished and any(part.lower().startswith("paused: ") for part in self.note.split("; "))
