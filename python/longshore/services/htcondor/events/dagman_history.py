"""Reads DAGMan's end from the schedd's history, because the log of another host may be visible late."""

from __future__ import annotations

from typing import Final

from longshore.contract.service import Unreachable
from longshore.errors import LongshoreError, UnreachableError
from longshore.services.htcondor.event_codes import JobStatusCode
from longshore.services.htcondor.events.dagman_end import DagmanEnd
from longshore.services.htcondor.schedd.client import CLOCKS_S, CondorClient
from longshore.services.htcondor.submission_record import DagSubmission

_ATTRIBUTES: Final = ("JobStatus", "ExitCode", "CompletionDate")


class DagmanHistory:
    """Cached ends of DAGMan jobs that exited, by constraint."""

    def __init__(self) -> None:
        self._ends: dict[str, DagmanEnd] = {}

    def find_end(
        self, client: CondorClient, constraint: str, submission: DagSubmission
    ) -> DagmanEnd | Unreachable | None:
        """DAGMan's end by the history; ``None`` if it was removed, or is not in the history.

        `constraint` is met by DAGMan's job of the submission `submission`.
        """
        if (end := self._ends.get(constraint)) is not None:
            return end
        try:
            # A history may be long: the search stops at the time of the submission.
            before = f"EnteredCurrentStatus < {int(submission.life.t) - CLOCKS_S}"
            found = client.query_history(constraint, _ATTRIBUTES, since=before)
        except UnreachableError as error:
            return Unreachable(why=error.message)
        except LongshoreError:
            # Some schedds do not allow reading their history.
            return None
        if not found or found[0].get("JobStatus") != JobStatusCode.COMPLETED or "ExitCode" not in found[0]:
            return None
        at = float(found[0].get("CompletionDate") or 0)
        end = self._ends[constraint] = DagmanEnd(at=at, is_removed=False, exit=int(found[0]["ExitCode"]))
        return end
