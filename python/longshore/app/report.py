"""Sums a run up from its events and its engine's newest snapshot, for whoever asks for that run by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import chain

from msgspec import structs

from longshore.app.capabilities import status_lines
from longshore.app.details import Details
from longshore.app.digest import Failed, Read
from longshore.app.insight import insight
from longshore.app.kept import keep, read_kept
from longshore.app.runs import OpenRun, of_one_run, readable
from longshore.app.status import checked, is_news, silence
from longshore.app.tally import Tally
from longshore.app.whole import Whole
from longshore.contract.context import Mark, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.engine.job_table import JobTable
from longshore.engine.run_state import RunState
from longshore.model.event import Event, Life
from longshore.model.moment import moment
from longshore.model.report import RunReport
from longshore.model.snapshot import Snapshot
from longshore.model.state import JobState
from longshore.world.rundir import read_snapshot, read_submitting, read_waiting

Counts = Mapping[JobState, int]


def report_run(opened: OpenRun, *, details: bool, now: float | None = None) -> RunReport:
    """The state of one run, and what there is to know of it.

    Parameters
    ----------
    opened
        The run.
    details
        Whether to say of every job where it stands.
    now
        This moment, in seconds since the epoch; the clock's unless given.

    Raises
    ------
    RunUnreadableError
        Its directory is torn.
    RunNotFoundError
        It went away while it was read.
    """
    return Reading(opened).look(time.time() if now is None else now, details=details)


class Reading:
    """A run that is looked at, perhaps again and again: what was read once is not read again.

    While an engine lives, the states of jobs are those of its newest snapshot, and of the history only what the
    snapshot knows of is counted, so that both always tell of the same moment. Without one, all is counted anew.

    Parameters
    ----------
    opened
        The run.
    """

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self._table: JobTable | None = None
        self._read: Read = {}
        self._forget()

    def look(self, now: float, *, details: bool = False) -> RunReport:
        """The state of the run at this moment.

        Parameters
        ----------
        now
            This moment, in seconds since the epoch.
        details
            Whether to say of every job where it stands.

        Raises
        ------
        RunUnreadableError
            Its directory is torn.
        RunNotFoundError
            It went away while it was read.
        """
        run = self._opened.run
        with readable(run), of_one_run(run):
            # Asked before anything is read: an engine that ends in between has written its last event by then.
            alive = self._opened.is_alive()
            snapshot = read_snapshot(run)
            if alive is False and not details and (kept := read_kept(self._opened, snapshot)):
                return structs.replace(kept.report, specifics=tuple(_specifics(self._opened, kept.life)))
            if details or snapshot is None or not is_news(self._opened, snapshot, alive=alive):
                return self._whole(now, alive=alive, snapshot=snapshot, details=details)
            return self._as_of(snapshot, now)

    def _forget(self) -> None:
        self._tally: Tally | None = None
        self._mark: Mark = ""
        self._last = (0, 0)
        self._later: list[Event] = []

    def _as_of(self, snapshot: Snapshot, now: float) -> RunReport:
        jobs = self._table = self._table or JobTable(self._opened.run)
        try:
            answer = self._opened.events(self._mark)
        except StaleMarkError:
            self._forget()
            answer = self._opened.events()
        if isinstance(answer, Unreachable):
            return self._whole(now, alive=True, snapshot=snapshot, details=False)
        tally = self._tally = self._tally or Tally(jobs.label_of, len(jobs.labels))
        events, self._mark = answer
        earlier, self._later = self._later, []
        tally.take(self._up_to(snapshot, chain(earlier, events)))
        notes = [*([snapshot.note] if snapshot.note else []), *silence(self._opened, snapshot, now)]
        if snapshot.finished:
            notes += self._lacking(snapshot, self._last)
        labels = {label: snapshot.labels.get(label, {}) for label in jobs.labels}
        report = self._report(
            jobs, tally, snapshot.state, snapshot.counts, labels, now=now, notes=notes, moves=not snapshot.finished
        )
        if snapshot.finished and not self._later:
            keep(self._opened, snapshot, mark=self._mark, life=tally.life, report=report)
        return report

    def _up_to(self, snapshot: Snapshot, events: Iterator[Event]) -> Iterator[Event]:
        """The events that a snapshot knows of; the others are kept for later."""
        newest = snapshot.life, snapshot.n
        for event in events:
            place = (event.life, 0) if isinstance(event, Life) else (self._last[0], event.n)
            if place > newest:
                self._later = [event, *events]
                break
            self._last = place
            yield event

    def _whole(self, now: float, *, alive: bool | Unreachable, snapshot: Snapshot | None, details: bool) -> RunReport:
        """All that happened, from the beginning."""
        whole = Whole(self._opened, alive=alive, details=details)
        labels = whole.labels
        totals = {state: sum(row[state] for row in labels.values()) for state in JobState}
        moves = not whole.unwatched and not whole.silent and not whole.state.finished
        report = self._report(
            whole.table,
            whole.tally,
            whole.overall(totals),
            totals,
            labels,
            now=now,
            notes=[
                *_steered(whole.state),
                *self._notes(whole, snapshot, alive=alive),
                *(() if whole.unwatched or whole.state.finished else silence(self._opened, snapshot, now)),
            ],
            moves=moves,
            details=whole.jobs,
        )
        if alive is False and whole.mark and not moves and not details:
            keep(self._opened, snapshot, mark=whole.mark, life=whole.tally.life, report=report)
        return report

    def _report(
        self,
        jobs: JobTable,
        tally: Tally,
        state: JobState,
        counts: Counts,
        labels: Mapping[str, Counts],
        *,
        now: float,
        notes: list[str],
        moves: bool,
        details: Details | None = None,
    ) -> RunReport:
        failed = Failed(
            run=self._opened.run,
            log_of=self._opened.log_of,
            labels=jobs.labels,
            label_of=jobs.label_of,
            jobs={job: tally.bad.get(job) for job in tally.failed},
            held={job: tally.bad.get(job) for job in tally.holds if job not in tally.failed},
            holds=tally.holds,
            names_of=jobs.names_of,
            read=self._read,
        )
        return checked(
            self._opened,
            state,
            counts,
            labels,
            notes=tuple(notes),
            started_at=tally.first_start,
            finished_at=tally.finished.t if tally.finished else None,
            specifics=tuple(_specifics(self._opened, tally.life)),
            jobs=details,
            summary=insight(
                tally=tally,
                jobs=jobs,
                failed=failed,
                counts=counts,
                labels=labels,
                now=now,
                moves=moves,
                waiting=read_waiting(self._opened.run),
            ),
        )

    def _notes(self, whole: Whole, snapshot: Snapshot | None, *, alive: bool | Unreachable) -> Iterator[str]:
        if whole.unreachable:
            yield f"the workload manager does not answer: {whole.unreachable}"
            return
        if whole.silent:
            yield "it was handed over, and nothing is left that says what happened since"
            return
        life = whole.tally.life
        if life is None:
            yield "its engine has not begun" if alive is True else _never_begun(self._opened)
            return
        if snapshot and alive is not True and (lacking := self._lacking(snapshot, whole.last)):
            yield from lacking
        elif whole.unwatched and isinstance(alive, Unreachable):
            yield "whether it still runs cannot be told: the workload manager does not answer"
        elif whole.unwatched:
            since = snapshot.at if snapshot and snapshot.life == life.life else life.t
            yield f"engine not running since {moment(since)}: longshore resume {self._opened.card.id}"
        elif snapshot and snapshot.note and not snapshot.note.startswith("paused: "):
            # That the run is paused is said already, by whoever read the journal.
            yield snapshot.note

    def _lacking(self, snapshot: Snapshot, last: tuple[int, int]) -> list[str]:
        """What to say where a journal has lost what its engine had written when it took a snapshot."""
        if last >= (snapshot.life, snapshot.n):
            return []
        where = f"event {last[0]}.{last[1]}" if last[0] else "its beginning"
        words = (
            f"the journal '{self._opened.run.journal}' ends with {where}, and its engine wrote up to "
            f"{snapshot.life}.{snapshot.n}: what is told of single jobs is not all that happened"
        )
        return [words]


def _never_begun(opened: OpenRun) -> str:
    """What to say of a run of which nothing is written down."""
    again = f"longshore submit {opened.run.root}"
    started = read_submitting(opened.run)
    if started is None or opened.card.submissions:
        return f"prepared, and never handed over: {again}"
    return (
        f"'{started.user}' on '{started.host}' began to hand it over at {moment(started.at)}, and has not said that it "
        f"was taken; if that was interrupted, this finds out and goes on from there: {again}"
    )


def _steered(state: RunState) -> tuple[str, ...]:
    """What somebody said that keeps jobs from starting, where the engine does not say it itself."""
    return (f"paused: {state.paused}; 'longshore unpause' goes on",) if state.paused and not state.finished else ()


def _specifics(opened: OpenRun, life: Life | None) -> Iterator[str]:
    """What there is to say of who drives the run."""
    if lines := status_lines(opened.service, opened.run):
        yield from lines
    elif life and life.pid:
        yield f"Engine: life {life.life}, process {life.pid} on '{life.host}', began {moment(life.t)} by {life.by}"
    if len(opened.card.submissions) > 1:
        last = opened.card.submissions[-1]
        number = len(opened.card.submissions)
        yield f"Submissions: {number}, the last by {last.user} on '{last.host}' at {moment(last.at)}"
