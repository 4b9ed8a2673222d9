"""Collects facts of attempts after the end of a run, and gives way to a newer life."""

from __future__ import annotations

from typing import Final

from longshore.contract.executor import Executor
from longshore.engine.run.executor_capabilities import awaited_facts, discard_ends, take_facts, wait_for_news
from longshore.engine.rundir.runtime_history import RuntimeHistory
from longshore.rundir.journal import Journal, LateJournal
from longshore.system.host import Clock

COLLECT_S: Final = 10.0
"""Seconds after the end of a run in which facts are collected: accounting is a second or two behind."""
_PAUSE_S: Final = 0.1


class LateFactCollector:
    """Collects facts for a run that is over; writes them behind the seal of its journal.

    `history` remembers what the jobs took.
    """

    def __init__(self, executor: Executor, journal: Journal, history: RuntimeHistory, *, clock: Clock) -> None:
        self._executor = executor
        self._journal = journal
        self._history = history
        self._clock = clock
        self._late: LateJournal | None = None

    def collect(self) -> None:
        """Collect until all facts are there, the time is over, or a newer life has begun; raises `OSError`."""
        deadline = self._clock.elapsed() + COLLECT_S
        try:
            while awaited_facts(self._executor) and self._clock.elapsed() < deadline:
                # A life that takes the run over collects the rest: nothing of the others is discarded.
                if self._journal.superseded or not self._write_news():
                    return
                wait_for_news(self._executor, _PAUSE_S)
            if not self._journal.superseded:
                self._write_news()
        finally:
            if self._late is not None:
                self._late.close()

    def _write_news(self) -> bool:
        """Write what became known; return whether there is a place for it."""
        found = take_facts(self._executor)
        if not found:
            return True
        self._late = self._late or self._journal.begin_late()
        if self._late is None:
            return False
        self._late.write(found, now=self._clock.now())
        for facts in found:
            self._history.add_facts(facts)
        discard_ends(self._executor, [(facts.j, facts.a) for facts in found])
        return True
