"""Reads all that happened in a run, from its first event on, and says where that leaves each of its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from longshore.app.details import UNWATCHED, Details
from longshore.app.history import History
from longshore.app.runs import OpenRun
from longshore.app.status import ENDS
from longshore.app.tally import Tally
from longshore.contract.context import Mark, Unreachable, log_path
from longshore.engine.apply_event import apply_event
from longshore.engine.job_codes import SHOWN, Code, shown_counts
from longshore.engine.job_table import JobTable
from longshore.engine.replay import initial_state
from longshore.engine.standing import show_held, stuck_with
from longshore.engine.waiting import held_jobs
from longshore.model.event import Life, News, Passed
from longshore.model.garbage import collection_paused
from longshore.model.state import JobState, run_state
from longshore.world.rundir import read_waiting

_PIECE: Final = 5000
"""Events held at once."""


class Whole:
    """A run as its events tell of it.

    Parameters
    ----------
    opened
        The run.
    alive
        Whether there is an engine.
    details
        Whether every job is to be told of.

    Attributes
    ----------
    table, tally, state
        The jobs, what was counted, and where each job stands.
    unreachable
        Why nobody says what happened; empty where somebody does.
    silent
        Whether nothing is known of what happened: nobody says it, or it was handed over, no word of it is left and
        no engine is to come.
    last
        Life and number of the last event.
    mark
        Up to where events were read.
    held
        Jobs that the workload manager has and only a person lets go.
    """

    def __init__(self, opened: OpenRun, *, alive: bool | Unreachable, details: bool) -> None:
        self._opened = opened
        # Of single jobs there is more to tell than where they stand.
        answer = opened.events() if details else opened.brief_events()
        self.unreachable = answer.why if isinstance(answer, Unreachable) else ""
        self.mark: Mark = "" if isinstance(answer, Unreachable) else answer[1]
        self.last = (0, 0)
        told = False
        with collection_paused():
            self.table = jobs = JobTable(opened.run, "parents", *(("names",) if details else ()))
            self.state = initial_state(jobs)
            self.tally = Tally(jobs.label_of, len(jobs.labels))
            self._history = History(len(jobs)) if details else None
            if not isinstance(answer, Unreachable):
                told = self._take(answer[0])
        # An engine that is itself a job may wait for long before it has anything to say.
        lost = bool(opened.card.submissions) and alive is not True
        self.silent = not told and (bool(self.unreachable) or lost)
        self.unwatched = alive is not True and not self.state.finished
        self._shown = [self._shown_for(code) for code in Code]
        watched = not self.unwatched and not self.silent
        self.held = held_jobs(read_waiting(opened.run), self.state.code) if watched else frozenset()

    def _take(self, events: Iterable[News]) -> bool:
        """Take all events in; return whether there were any."""
        state, count = self.state, self.tally.take
        told = False
        for piece in _pieces(events):
            for event in piece:
                apply_event(state, event)
            count(piece)
            if self._history is not None:
                self._history.take(piece)
            self._note_last(piece[-1])
            told = True
        return told

    def _note_last(self, event: News) -> None:
        life = self.tally.life
        if life is not None:
            self.last = life.life, 0 if isinstance(event, Life | Passed) else event.n

    def _shown_for(self, code: int) -> JobState:
        """What is shown of jobs in a state: what no engine watches is unknown."""
        if self.silent or (self.unwatched and code in UNWATCHED):
            return JobState.UNKNOWN
        return SHOWN[code]

    @property
    def labels(self) -> dict[str, dict[JobState, int]]:
        """Number of jobs per label and state."""
        rows = list(map(self._shown_row, self.state.counts))
        show_held(rows, self.state, self.held)
        labels = dict(zip(self.table.labels, rows, strict=True))
        counted = {label: counts for label, counts in self._opened.reported_counts.items() if label in labels}
        return labels | {label: dict.fromkeys(JobState, 0) | dict(counts) for label, counts in counted.items()}

    def _shown_row(self, row: Iterable[int]) -> dict[JobState, int]:
        counts = shown_counts([])
        for code, number in enumerate(row):
            counts[self._shown[code]] += number
        return counts

    def overall(self, totals: dict[JobState, int]) -> JobState:
        """The state of the run.

        Parameters
        ----------
        totals
            Number of jobs per state.
        """
        state = self.state
        if self.unwatched or self.silent:
            return JobState.UNKNOWN
        overall = run_state(totals, expected=self._opened.card.expected, cancelled=state.cancelled)
        if self.held and stuck_with(state, self.held):
            return JobState.HELD
        if state.overall() is JobState.HELD and overall is not JobState.UNKNOWN:
            return JobState.HELD
        if overall in ENDS and not state.finished:
            return JobState.RUNNING
        return overall

    @property
    def jobs(self) -> Details | None:
        """Every job, if they were asked for."""
        if self._history is None:
            return None
        return Details(
            state=self.state,
            history=self._history,
            names=self.table.names,
            labels=self.table.labels,
            shown=self._shown,
            held=self.held,
            log_of=self._opened.log_of if self._opened.log_locator else log_path,
        )


def _pieces(events: Iterable[News]) -> Iterator[list[News]]:
    """Events in lists, each of which several readers take in in turn: that is quicker than one by one."""
    each = iter(events)
    while piece := list(islice(each, _PIECE)):
        yield piece
