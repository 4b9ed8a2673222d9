"""Facts that accounting adds to ends which are recorded already: asked for in batches, and never waited for.

The reason is in decision 0097.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Final

import msgspec

from longshore.batch.commands.client import AccountingAnswer, BatchClient
from longshore.batch.jobs import AccountRow, QueuePhase, StateTable, TaskId
from longshore.batch.records import AttemptId
from longshore.contract.service import Unreachable
from longshore.model.event import AttemptFacts
from longshore.system.programs import BackgroundCall

LOG: Final = logging.getLogger("longshore.batch")

LAG_S: Final = 1.5
"""Seconds that accounting is given to learn of an end."""
INTERVAL_S: Final = 10.0
"""Least time between two questions of all runs while they go on: nothing depends on the answer."""
LAST_INTERVAL_S: Final = 3.0
"""As `INTERVAL_S`, for a run that is over: its engine stays for some seconds only."""
PATIENCE_S: Final = 60.0
"""Seconds after which what accounting has of an attempt is taken as all."""
LAST_PATIENCE_S: Final = 8.0
"""As `PATIENCE_S`, for a run that is over."""
_LOOK_S: Final = 1.0
"""Least time between two looks for an answer that another process may have."""


class AwaitedAttempt(msgspec.Struct, frozen=True):
    """An attempt whose end is recorded; `ended_at` is when that was seen, in seconds since boot."""

    attempt: AttemptId
    task: TaskId
    ended_at: float


def choose_due(awaited: Collection[AwaitedAttempt], now: float) -> dict[TaskId, float]:
    """Return the tasks to ask for at a moment, each with the earliest moment of a useful question."""
    return {each.task: each.ended_at + LAG_S for each in awaited if now >= each.ended_at + LAG_S}


def is_settled(row: AccountRow | None, states: StateTable, *, age_s: float, is_last: bool) -> bool:
    """Whether nothing more is expected of accounting on an attempt that has this row there.

    `age_s` is the time since its end; `is_last` says that the run is over.
    """
    if age_s >= (LAST_PATIENCE_S if is_last else PATIENCE_S):
        return True
    return row is not None and states.phase(row.state) is QueuePhase.OVER and not row.is_partial


def facts_of(attempt: AttemptId, row: AccountRow) -> AttemptFacts:
    """Return what accounting has of an attempt."""
    return AttemptFacts(
        j=attempt[0],
        a=attempt[1],
        queue_s=row.queue_s,
        cpu_s=row.cpu_s,
        rss_b=row.peak_memory_b,
        extra=row.gathered,
    )


class FactCollector:
    """Collects facts of attempts that ended. Without `is_active`, there are none to collect."""

    def __init__(self, client: BatchClient, *, is_active: bool) -> None:
        self._client = client
        self._states = client.dialect.states
        self._is_active = is_active
        self._share = client.accounting_share("facts")
        self._awaited: dict[AttemptId, AwaitedAttempt] = {}
        self._partial: dict[TaskId, AccountRow] = {}
        """What accounting has so far of tasks that it does not have whole."""
        self._call: BackgroundCall[AccountingAnswer | None] = BackgroundCall()
        self._looked_at = -_LOOK_S
        self.is_last = False
        """Whether the run is over."""
        self.given_up: list[AttemptId] = []
        """Attempts of which accounting knows nothing, until the caller clears them."""

    @property
    def attempts(self) -> Collection[AttemptId]:
        """Attempts whose facts are awaited."""
        return self._awaited.keys()

    @property
    def is_asking(self) -> bool:
        """Whether a question is under way."""
        return self._call.is_busy

    def add(self, attempt: AttemptId, task: TaskId | None, now: float) -> None:
        """Await the facts of an attempt that ended at a moment (seconds since boot)."""
        if self._is_active and task is not None:
            self._awaited[attempt] = AwaitedAttempt(attempt, task, now)

    def take(self, now: float) -> list[AttemptFacts]:
        """Return the facts that arrived by a moment (seconds since boot), and ask for others when that is due."""
        if not self._awaited:
            return []
        if not self.is_asking and now - self._looked_at >= _LOOK_S:
            self._look(now)
        rows: Mapping[TaskId, AccountRow] = {}
        for answer in self._call.take_result():
            if answer is None:
                continue
            if isinstance(answer.rows, Unreachable):
                LOG.warning("%s does not answer: %s", self._client.dialect.programs.accounting, answer.rows.why)
            else:
                rows = answer.rows
        return list(self._settle(rows, now))

    def _look(self, now: float) -> None:
        self._looked_at = now
        if due := choose_due(self._awaited.values(), now):
            interval_s = LAST_INTERVAL_S if self.is_last else INTERVAL_S
            self._call.start(partial(self._client.ask_accounting, self._share, due, min_interval_s=interval_s))

    def _settle(self, rows: Mapping[TaskId, AccountRow], now: float) -> Iterator[AttemptFacts]:
        for each in list(self._awaited.values()):
            row = rows.get(each.task) or self._partial.get(each.task)
            if not is_settled(row, self._states, age_s=now - each.ended_at, is_last=self.is_last):
                if row is not None:
                    self._partial[each.task] = row
            else:
                del self._awaited[each.attempt]
                self._partial.pop(each.task, None)
                if row is None:
                    self.given_up.append(each.attempt)
                else:
                    yield facts_of(each.attempt, row)
        if not self._awaited:
            self._share.withdraw()
