"""The end of a DAGMan by the schedd's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from longshore.contract.service import Unreachable
from longshore.errors import ServiceError, UnreachableError
from longshore.model.event import FORMAT, Life
from longshore.services.htcondor.events.dagman_end import DagmanEnd, DagmanHistory
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.submission_record import DagSubmission

HANDED = DagSubmission(
    life=Life(v=FORMAT, life=1, t=10000.0, host="ap", pid=7, boot="", by="submit"), cluster=7, schedd="ap"
)


class _Schedd(CondorClient):
    """A schedd with a history."""

    def __init__(self, answer: list[Mapping[str, Any]] | Exception) -> None:
        super().__init__()
        self._answer = answer
        self.asked: list[tuple[str, str | None]] = []

    def query_history(
        self, constraint: str, attributes: Sequence[str], *, most: int = 1, since: str | None = None
    ) -> list[Mapping[str, Any]]:
        self.asked.append((constraint, since))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_an_exit_is_queried_once() -> None:
    schedd, leaving = _Schedd([{"JobStatus": 4, "ExitCode": 1, "CompletionDate": 12000}]), DagmanHistory()
    end = DagmanEnd(at=12000.0, is_removed=False, exit=1)
    assert [leaving.find_end(schedd, "ClusterId == 7", HANDED) for _ in range(2)] == [end, end]
    assert schedd.asked == [("ClusterId == 7", "EnteredCurrentStatus < 6400")]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], None),
        ([{"JobStatus": 3}], None),
        ([{"JobStatus": 4, "CompletionDate": 12000}], None),
        (ServiceError("no history here"), None),
        (UnreachableError("nobody is there"), Unreachable(why="nobody is there")),
    ],
)
def test_other_histories_give_no_end(answer: list[Mapping[str, Any]] | Exception, said: Unreachable | None) -> None:
    assert DagmanHistory().find_end(_Schedd(answer), "ClusterId == 7", HANDED) == said
