"""Asks Slurm how attempts ended that did not end well, or left no record, and says so only where it is certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from longshore.contract.context import Unreachable
from longshore.model.event import Ended, Lost
from longshore.services.slurm.books import Books
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.outcome import ended, said_out_of_memory
from longshore.services.slurm.parse import AccountRow, ClusterFacts, TaskId, shown_row
from longshore.services.slurm.states import Phase, phase_of
from longshore.services.slurm.watch import GRACE_S, Watched

_LAG_S: Final = 10.0
"""How far accounting may be behind the queue."""
_OUTPUT_B: Final = 1 << 18
"""How much of what Slurm wrote about a batch is searched, from its end."""


class Ends:
    """Says how attempts ended.

    Parameters
    ----------
    client
        Talks to Slurm.
    books
        What was written down of batches.
    facts
        What is known of the cluster.
    """

    def __init__(self, client: SlurmClient, books: Books, facts: ClusterFacts | None) -> None:
        self._client = client
        self._books = books
        self._accounting = bool(facts and facts.accounting)

    def of(self, members: list[Watched], now: float) -> Iterator[Ended | Lost]:
        """The ends of attempts that are over, of those of which Slurm says by now how they ended."""
        if not members:
            return
        accounts = self._accounts(members)
        for member in members:
            account = accounts.get(member.task) if member.task and not isinstance(accounts, Unreachable) else None
            if account is not None and phase_of(account.state) is not Phase.OVER:
                account = None
            state = member.row.state if member.row and member.said_over else ""
            if member.record is None and account is None:
                shown = self._shown(member)
                if isinstance(shown, Unreachable):
                    continue
                if shown is None:
                    # Accounting may lag behind; what nobody knows anything of is waited for, and then lost.
                    if now - (member.wanted_at or now) > GRACE_S and not isinstance(accounts, Unreachable):
                        yield Lost(
                            j=member.attempt[0],
                            a=member.attempt[1],
                            why=f"job {member.task} is gone from Slurm, and left no record of its end",
                        )
                    continue
                account, state = shown, shown.state
            elif account is None and self._accounting and now - member.wanted_at < _LAG_S:
                continue
            yield self._end(member, state, account)

    def _end(self, member: Watched, state: str, account: AccountRow | None) -> Ended:
        words = _tail(self._books.output(member.book.tag))
        raw = (account.raw if account else "") or (member.row.raw if member.row else "")
        return ended(
            member.attempt,
            record=member.record,
            state=state,
            account=account,
            memory_b=member.book.memory_b,
            out_of_memory=bool(words) and said_out_of_memory(words, raw),
        )

    def _accounts(self, members: list[Watched]) -> Mapping[TaskId, AccountRow] | Unreachable:
        if not self._accounting:
            return {}
        return self._client.accounts(member.task.job for member in members if member.task)

    def _shown(self, member: Watched) -> AccountRow | Unreachable | None:
        """What the controller still knows of a member that left no record."""
        if member.task is None:
            return None
        fields = self._client.shown(member.task)
        if fields is None or isinstance(fields, Unreachable):
            return fields
        return shown_row(member.task, fields) if phase_of(fields.get("JobState", "")) is Phase.OVER else None


def _tail(path: Path) -> str:
    """The end of what Slurm wrote about a batch."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _OUTPUT_B))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
