"""Facts from accounting follow the ends: when they are asked for, what is taken, and how seldom many runs ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import Unreachable
from longshore.model.event import AttemptFacts
from longshore.rundir.batch_records import EndRecord
from longshore.services.batch.client import AccountingAnswer, BatchClient
from longshore.services.batch.executor.ends import (
    INTERVAL_S,
    LAG_S,
    LAST_PATIENCE_S,
    PATIENCE_S,
    AwaitedAttempt,
    FactCollector,
    choose_due,
    is_settled,
    needs_accounting,
)
from longshore.services.batch.executor.executor import records_interval_s
from longshore.services.batch.jobs import AccountRow, TaskId
from longshore.services.slurm.answers import ACCOUNT_FIELDS, SEPARATOR
from longshore.services.slurm.dialect import SlurmDialect
from longshore.system import sharing
from longshore.system.programs import ProgramResult, Shell

DIALECT = SlurmDialect({})
ONE = AwaitedAttempt((3, 1), TaskId(29, 0), 100.0)


def account(state: str = "COMPLETED", **fields: Any) -> AccountRow:
    return AccountRow(id=ONE.task, state=state, state_text=state, exit=0, signal=0, **fields)


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(0, 120))
def test_only_ends_that_accounting_can_know_are_due(ends: list[float], now: float) -> None:
    awaited = [AwaitedAttempt((number, 1), TaskId(number), at) for number, at in enumerate(ends)]
    due = choose_due(awaited, now)
    assert due.keys() == {each.task for each in awaited if each.ended_at + LAG_S <= now}
    assert all(at <= now for at in due.values())


@pytest.mark.parametrize(
    ("row", "age_s", "is_last", "settled"),
    [
        (account(), 2.0, False, True),
        (account(is_partial=True), 2.0, False, False),
        (account("RUNNING"), 2.0, False, False),
        (None, PATIENCE_S - 1, False, False),
        (None, PATIENCE_S, False, True),
        (account(is_partial=True), LAST_PATIENCE_S, True, True),
        (account(is_partial=True), LAST_PATIENCE_S, False, False),
    ],
)
def test_what_is_waited_for(row: AccountRow | None, age_s: float, is_last: bool, settled: bool) -> None:
    assert is_settled(row, DIALECT.states, age_s=age_s, is_last=is_last) is settled


@pytest.mark.parametrize(
    ("status", "state", "is_cancelled", "needs"),
    [
        (3, "FAILED", False, False),
        (137, "FAILED", False, True),
        (137, "TIMEOUT", False, False),
        (143, "TIMEOUT", False, False),
        (1, "OUT_OF_MEMORY", False, True),
        (143, "CANCELLED", False, True),
        (143, "CANCELLED", True, False),
        (3, "", False, True),
        (0, "COMPLETED", False, False),
        (1, "NODE_FAIL", False, False),
    ],
)
def test_only_ends_that_nothing_else_tells_wait_for_accounting(
    status: int, state: str, is_cancelled: bool, needs: bool
) -> None:
    record = EndRecord(j=3, a=1, status=status, run=1.0, host="n1")
    assert needs_accounting(DIALECT, record, state, is_cancelled=is_cancelled) is needs


def test_records_are_read_more_often_while_something_happens() -> None:
    busy, quiet = records_interval_s(0.0, 0.0001), records_interval_s(60.0, 0.0001)
    assert 0.02 <= busy <= 0.05
    assert 0.25 < quiet <= 0.5
    assert records_interval_s(1.0, 0.0001) <= 0.1, "a child waits a tenth longer at most"
    assert records_interval_s(0.0, 0.003) >= 0.3, "a slow file server is not asked all the time"


class Accounting:
    """A client whose accounting answers at once with what a test has."""

    dialect = DIALECT

    def __init__(self, *answers: Mapping[TaskId, AccountRow] | Unreachable) -> None:
        self._answers = list(answers)
        self.questions: list[list[TaskId]] = []

    def accounting_share(self, purpose: str) -> Any:
        return sharing.SharedBatch(Path("/nonexistent"), purpose)

    def ask_accounting(self, share: Any, wanted: Mapping[TaskId, float], *, min_interval_s: float) -> Any:
        self.questions.append(list(wanted))
        return AccountingAnswer(frozenset(wanted), self._answers.pop(0)) if self._answers else None


def take_at(collector: FactCollector, now: float) -> list[AttemptFacts]:
    """Take facts at a moment, with the answer to the question that is asked there."""
    found = collector.take(now)
    deadline = sharing.seconds_since_boot() + 5.0
    while collector.is_asking and sharing.seconds_since_boot() < deadline:
        found += collector.take(now)
    return found


def test_facts_are_taken_once_they_are_whole() -> None:
    kept = {"Account": "test"}
    client = Accounting(
        {ONE.task: account(gathered=kept, is_partial=True)},
        {ONE.task: account(gathered=kept, peak_memory_b=9, cpu_s=1.5, queue_s=4.0)},
    )
    collector = FactCollector(client, is_active=True)  # type: ignore[arg-type]
    collector.add(ONE.attempt, ONE.task, 100.0)
    assert list(collector.attempts) == [(3, 1)]
    assert take_at(collector, 100.5) == []
    assert client.questions == [], "accounting cannot know it yet"
    assert take_at(collector, 102.0) == []
    assert take_at(collector, 104.0) == [AttemptFacts(j=3, a=1, rss_b=9, cpu_s=1.5, queue_s=4.0, extra=kept)]
    assert not collector.attempts


def test_at_the_end_of_the_run_what_is_there_is_taken() -> None:
    client = Accounting({ONE.task: account(gathered={"Account": "test"}, is_partial=True)})
    collector = FactCollector(client, is_active=True)  # type: ignore[arg-type]
    collector.add(ONE.attempt, ONE.task, 100.0)
    collector.is_last = True
    assert take_at(collector, 102.0) == []
    assert take_at(collector, 100.0 + LAST_PATIENCE_S) == [AttemptFacts(j=3, a=1, extra={"Account": "test"})]


def test_an_attempt_that_accounting_does_not_know_is_given_up() -> None:
    collector = FactCollector(Accounting(Unreachable(why="down"), {}), is_active=True)  # type: ignore[arg-type]
    collector.add(ONE.attempt, ONE.task, 100.0)
    assert take_at(collector, 102.0) == []
    assert take_at(collector, 100.0 + PATIENCE_S) == []
    assert (collector.given_up, list(collector.attempts)) == ([(3, 1)], [])


def test_without_accounting_nothing_is_awaited() -> None:
    collector = FactCollector(Accounting(), is_active=False)  # type: ignore[arg-type]
    collector.add(ONE.attempt, ONE.task, 100.0)
    assert not collector.attempts


# ------------------------------------------------------------------------------------------------------------- queries


class CountingShell(Shell):
    """Slurm's programs: all jobs are over, and each call is counted."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 0.0, stdin: str = ""
    ) -> ProgramResult:
        self.calls[argv[0]] += 1
        tasks = next((word.partition("=")[2].split(",") for word in argv if word.startswith("--jobs=")), [])
        lines = [SEPARATOR.join([task, task, "COMPLETED", "0:0", *[""] * (len(ACCOUNT_FIELDS) - 4)]) for task in tasks]
        return ProgramResult(argv=tuple(argv), status=0, out="".join(f"{line}\n" for line in lines))


def queries_of(runs: int, monkeypatch: pytest.MonkeyPatch, home: Path) -> Counter[str]:
    """Count the queries of runs at once, in two minutes in which a job of each run ends every two seconds."""
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    moment = 1000.0
    for module in (sharing, sharing):
        monkeypatch.setattr(module, "seconds_since_boot", lambda: moment)
    shell = CountingShell()
    clients = [BatchClient(DIALECT, shell=shell) for _ in range(runs)]
    shares = [client.accounting_share("facts") for client in clients]
    awaited: list[dict[TaskId, AwaitedAttempt]] = [{} for _ in range(runs)]
    settled = 0
    for step in range(480):
        moment += 0.25
        for run, client in enumerate(clients):
            if step % 8 == run % 8:
                task = TaskId(1000 * run + step + 1)
                awaited[run][task] = AwaitedAttempt((step, 1), task, moment)
            client.queue(max_age_s=2.0, not_before=moment - 2.0, floor_s=2.0)
            due = choose_due(awaited[run].values(), moment)
            if due and (answer := client.ask_accounting(shares[run], due, min_interval_s=INTERVAL_S)):
                assert not isinstance(answer.rows, Unreachable)
                for task in answer.tasks & answer.rows.keys():
                    settled += awaited[run].pop(task, None) is not None
    assert settled >= 50 * runs, "each job's facts are known in the end"
    return shell.calls


def test_ten_runs_at_once_ask_hardly_more_than_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = queries_of(1, monkeypatch, tmp_path / "one")
    ten = queries_of(10, monkeypatch, tmp_path / "ten")
    assert one["sacct"] <= 14, "every ten seconds, and once for the names of fields"
    assert one["squeue"] <= 61
    for program in ("squeue", "sacct"):
        assert ten[program] <= 1.5 * one[program], (program, one, ten)
