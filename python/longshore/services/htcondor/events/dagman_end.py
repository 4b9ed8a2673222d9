"""How and why DAGMan ended: by the log of its own job, else by the schedd's history."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.service import Unreachable
from longshore.errors import LongshoreError, UnreachableError
from longshore.services.htcondor.codes import EventType, JobStatusCode
from longshore.services.htcondor.events.log_reader import UserLog
from longshore.services.htcondor.events.parse_record import parse_reason, parse_termination
from longshore.services.htcondor.schedd.client import CLOCKS_S, CondorClient
from longshore.services.htcondor.submission_record import DagSubmission


class DagmanEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of DAGMan's job."""

    at: float
    is_removed: bool
    """Whether it was removed, or vanished without a record."""
    reason: str = ""
    """Reason of the removal, or the signal that ended it; empty if it exited, or if no reason is known."""
    exit: int | None = None
    """Exit code; ``None`` if it has none, or if it is not known."""


def read_dagman_end(path: Path, cluster: int) -> DagmanEnd | None:
    """The end of DAGMan's job `cluster` by its log, which may contain earlier submissions; ``None`` if not over."""
    end: DagmanEnd | None = None
    for record in UserLog(path).read_records():
        if record.cluster != cluster:
            continue
        if record.event_type == EventType.TERMINATED:
            ending = parse_termination(record.body)
            reason = (ending.reason or "") if ending.exit is None else ""
            end = DagmanEnd(at=record.at, is_removed=ending.exit is None, reason=reason, exit=ending.exit)
        elif record.event_type == EventType.ABORTED:
            end = DagmanEnd(at=record.at, is_removed=True, reason=parse_reason(record.body))
        elif record.event_type == EventType.EXECUTE:
            end = None
    return end


# The log of another host may be visible late: then the schedd's history tells the end.


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
