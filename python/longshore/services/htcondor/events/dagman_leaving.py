"""Turns what a schedd remembers of a DAGMan that left its queue into how that ended, as its log may be seen late."""

from __future__ import annotations

from typing import Final

from longshore.contract.context import Unreachable
from longshore.errors import LongshoreError, UnreachableError
from longshore.services.htcondor.events.dagman_end import End
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.submissions import Handed

_ASKED: Final = ("JobStatus", "ExitCode", "CompletionDate")
_COMPLETED: Final = 4
"""``JobStatus`` of a job that ended by itself."""
_CLOCKS_S: Final = 3600
"""What clocks of two hosts may differ by."""


class Leaving:
    """What is known of DAGMans that ended by themselves; each is asked about until then."""

    def __init__(self) -> None:
        self._known: dict[str, End] = {}

    def of(self, client: CondorClient, constraint: str, handed: Handed) -> End | Unreachable | None:
        """How it ended; ``None`` where it was removed, or nobody remembers.

        Parameters
        ----------
        client
            Of its schedd.
        constraint
            What its job meets.
        handed
            The submission.
        """
        if (end := self._known.get(constraint)) is not None:
            return end
        try:
            # A history may be long: what is older than the submission is not looked at.
            before = f"EnteredCurrentStatus < {int(handed.life.t) - _CLOCKS_S}"
            found = client.history(constraint, _ASKED, since=before)
        except UnreachableError as error:
            return Unreachable(why=error.message)
        except LongshoreError:
            # Not every schedd shows its history.
            return None
        if not found or found[0].get("JobStatus") != _COMPLETED or "ExitCode" not in found[0]:
            return None
        at = float(found[0].get("CompletionDate") or 0)
        end = self._known[constraint] = End(at=at, removed=False, exit=int(found[0]["ExitCode"]))
        return end
