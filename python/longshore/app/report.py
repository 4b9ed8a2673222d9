"""Sums a run up from its events and its engine's newest snapshot: the only place where anything is counted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from longshore.app.details import UNWATCHED, Details
from longshore.app.digest import Failed, Read
from longshore.app.history import History
from longshore.app.insight import insight, moment
from longshore.app.layout import Layout
from longshore.app.runs import OpenRun
from longshore.app.tally import Tally
from longshore.contract.context import Unreachable
from longshore.contract.executor import Mark, Waiting
from longshore.contract.service import StaleMark
from longshore.engine.fold import SHOWN, RunState, shown_counts
from longshore.engine.journal import lives
from longshore.engine.standing import shown_rows, stuck_with
from longshore.engine.waiting import held_jobs
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.event import Event, Life
from longshore.model.report import JobReport, RunReport
from longshore.model.snapshot import Snapshot
from longshore.model.state import JobState, run_state
from longshore.world.rundir import read_snapshot, read_waiting

ENDS = frozenset({JobState.DELETED, JobState.FAILED, JobState.SUCCEEDED, JobState.HELD})
"""States in which a run that is over can be."""

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


def status_run(opened: OpenRun) -> RunReport:
    """The state of one run, from its engine's newest snapshot where that is as good as the whole history."""
    snapshot = read_snapshot(opened.run)
    if snapshot is None or not is_news(opened, snapshot):
        return report_run(opened, details=False)
    return _checked(
        opened,
        snapshot.state,
        snapshot.counts,
        snapshot.labels,
        notes=(snapshot.note,) if snapshot.note else (),
        finished_at=snapshot.at if snapshot.finished else None,
    )


def is_news(opened: OpenRun, snapshot: Snapshot, *, alive: bool | Unreachable | None = None) -> bool:
    """Whether the snapshot says all: a finished run that nobody took up again, or a living engine's newest."""
    numbers = lives(opened.run.journal)
    if not numbers or numbers[-1][0] != snapshot.life:
        return False
    return snapshot.finished or (opened.service.alive(opened.run) if alive is None else alive) is True


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
        self._layout: Layout | None = None
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
        try:
            # Asked before anything is read: an engine that ends in between has written its last event by then.
            alive = self._opened.service.alive(run)
            snapshot = read_snapshot(run)
            if details or snapshot is None or not is_news(self._opened, snapshot, alive=alive):
                return self._whole(now, alive=alive, snapshot=snapshot, details=details)
            return self._as_of(snapshot, now)
        except (RunUnreadableError, OSError) as error:
            if not run.root.exists():
                raise RunNotFoundError(
                    f"'{run.root}' is gone: the run directory was removed or moved while it was read",
                    hint="If it was moved, name the run by its new path.",
                ) from error
            if isinstance(error, OSError):
                raise RunUnreadableError(f"'{error.filename or run.root}' cannot be read: {error.strerror}") from error
            raise

    def _forget(self) -> None:
        self._tally: Tally | None = None
        self._mark: Mark = ""
        self._life = 0
        self._later: list[Event] = []

    def _as_of(self, snapshot: Snapshot, now: float) -> RunReport:
        layout = self._layout = self._layout or Layout(self._opened.run, parents=False)
        try:
            answer = self._opened.service.events(self._opened.run, self._mark)
        except StaleMark:
            self._forget()
            answer = self._opened.service.events(self._opened.run)
        if isinstance(answer, Unreachable):
            return self._whole(now, alive=True, snapshot=snapshot, details=False)
        tally = self._tally = self._tally or Tally(layout.label_of, len(layout.labels))
        events, self._mark = answer
        earlier, self._later = self._later, []
        tally.take(self._up_to(snapshot, chain(earlier, events)))
        notes = (snapshot.note,) if snapshot.note else ()
        labels = {label: snapshot.labels.get(label, {}) for label in layout.labels}
        return self._report(
            layout, tally, snapshot.state, snapshot.counts, labels, now=now, notes=notes, moves=not snapshot.finished
        )

    def _up_to(self, snapshot: Snapshot, events: Iterator[Event]) -> Iterator[Event]:
        """The events that a snapshot knows of; the others are kept for later."""
        newest, last = snapshot.life, snapshot.n
        for event in events:
            if isinstance(event, Life):
                beyond = event.life > newest
                self._life = self._life if beyond else event.life
            else:
                beyond = self._life == newest and event.n > last
            if beyond:
                self._later = [event, *events]
                break
            yield event

    def _whole(self, now: float, *, alive: bool | Unreachable, snapshot: Snapshot | None, details: bool) -> RunReport:
        """All that happened, from the beginning."""
        opened = self._opened
        answer = opened.service.events(opened.run)
        layout = Layout(opened.run, parents=True)
        state = RunState(layout.parents, layout.label_of, final=layout.final)
        tally = Tally(layout.label_of, len(layout.labels))
        history = History() if details else None
        if not isinstance(answer, Unreachable):
            tally.take(_applied(answer[0], state, history))
        unwatched = alive is not True and not state.finished
        waiting = Waiting() if unwatched else read_waiting(opened.run)
        held = held_jobs(waiting, state.code)
        rows = [_shown_row(row) for row in state.counts] if unwatched else shown_rows(state, held)
        totals = {name: sum(row[name] for row in rows) for name in JobState}
        overall = run_state(totals, expected=opened.card.expected, cancelled=state.cancelled)
        if unwatched:
            overall = JobState.UNKNOWN
        elif (held and stuck_with(state, held)) or (
            state.overall() is JobState.HELD and overall is not JobState.UNKNOWN
        ):
            overall = JobState.HELD
        elif overall in ENDS and not state.finished:
            overall = JobState.RUNNING
        jobs = None
        if history is not None:
            known = layout.names_of(range(len(layout)))
            names = [known[job] for job in range(len(layout))]
            jobs = Details(
                run=opened.run,
                state=state,
                history=history,
                names=names,
                labels=layout.labels,
                unwatched=unwatched,
                held=held,
            ).all()
        return self._report(
            layout,
            tally,
            overall,
            totals,
            dict(zip(layout.labels, rows, strict=True)),
            now=now,
            notes=(
                *_steered(state),
                *self._notes(unwatched=unwatched, tally=tally, answer=answer, snapshot=snapshot),
            ),
            moves=not unwatched and not state.finished,
            jobs=jobs,
        )

    def _report(
        self,
        layout: Layout,
        tally: Tally,
        state: JobState,
        counts: Counts,
        labels: Mapping[str, Counts],
        *,
        now: float,
        notes: tuple[str, ...],
        moves: bool,
        jobs: tuple[JobReport, ...] | None = None,
    ) -> RunReport:
        failed = Failed(
            run=self._opened.run,
            labels=layout.labels,
            label_of=layout.label_of,
            jobs={job: tally.bad.get(job) for job in tally.failed},
            names_of=layout.names_of,
            read=self._read,
        )
        return _checked(
            self._opened,
            state,
            counts,
            labels,
            notes=notes,
            started_at=tally.first_start,
            finished_at=tally.finished.t if tally.finished else None,
            specifics=tuple(_specifics(self._opened, tally.life)),
            jobs=jobs,
            insight=insight(
                tally=tally,
                layout=layout,
                failed=failed,
                counts=counts,
                labels=labels,
                now=now,
                moves=moves,
                waiting=read_waiting(self._opened.run),
            ),
        )

    def _notes(self, *, unwatched: bool, tally: Tally, answer: object, snapshot: Snapshot | None) -> tuple[str, ...]:
        if isinstance(answer, Unreachable):
            return (f"the workload manager does not answer: {answer.why}",)
        life = tally.life
        if life is None:
            return ("prepared, and never handed over",)
        if unwatched:
            since = snapshot.at if snapshot and snapshot.life == life.life else life.t
            return (f"engine not running since {moment(since)}: longshore resume {self._opened.card.id}",)
        # That the run is paused is said already, by whoever read the journal.
        return (snapshot.note,) if snapshot and snapshot.note and not snapshot.note.startswith("paused: ") else ()


def _steered(state: RunState) -> tuple[str, ...]:
    """What somebody said that keeps jobs from starting, where the engine does not say it itself."""
    return (f"paused: {state.paused}; 'longshore unpause' goes on",) if state.paused and not state.finished else ()


def _applied(events: Iterable[Event], state: RunState, history: History | None) -> Iterator[Event]:
    """The same events, after the states of the jobs, and perhaps their histories, have taken them in."""
    for event in events:
        state.apply(event)
        if history is not None:
            history.take(event)
        yield event


def _shown_row(row: Iterable[int]) -> dict[JobState, int]:
    """Counts of a label that no engine watches: what becomes of its jobs is unknown."""
    shown = shown_counts(row)
    for code in UNWATCHED:
        shown[JobState.UNKNOWN] += shown[SHOWN[code]]
        shown[SHOWN[code]] = 0
    return shown


def _checked(
    opened: OpenRun,
    state: JobState,
    counts: Counts,
    labels: Mapping[str, Counts],
    *,
    notes: tuple[str, ...],
    **rest: Any,
) -> RunReport:
    """A report whose counts add up; where they cannot, it says so."""
    card, run = opened.card, opened.run
    counted = sum(counts.values())
    if counted != card.expected:
        notes = (*notes, f"the states of {counted} jobs are known, and the run has {card.expected}")
        state = JobState.UNKNOWN
    attributes = card.attributes
    first = card.submissions[0] if card.submissions else None
    return RunReport(
        id=card.id,
        name=card.name,
        path=str(run.root),
        service=card.service,
        state=state,
        expected=card.expected,
        counts=counts,
        labels=labels,
        expected_labels=card.labels or None,
        global_id=card.mark,
        operator=attributes.get("bps_operator", ""),
        project=attributes.get("bps_project", ""),
        campaign=attributes.get("bps_campaign", ""),
        payload=attributes.get("bps_payload", ""),
        site=attributes.get("bps_runsite", ""),
        user=first.user if first else "",
        submitted_at=first.at if first else card.created_at,
        notes=notes,
        **rest,
    )


def _specifics(opened: OpenRun, life: Life | None) -> Iterator[str]:
    """What there is to say of who drives the run."""
    if life:
        yield f"Engine: life {life.life}, process {life.pid} on '{life.host}', began {moment(life.t)} by {life.by}"
    if len(opened.card.submissions) > 1:
        last = opened.card.submissions[-1]
        number = len(opened.card.submissions)
        yield f"Submissions: {number}, the last by {last.user} on '{last.host}' at {moment(last.at)}"
