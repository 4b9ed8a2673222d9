"""State of a run and reports on its jobs, by replay of all events; a run without an engine is UNKNOWN."""

from __future__ import annotations

from collections.abc import Iterable

from longshore.app.report.from_snapshot import END_STATES, RunStatus
from longshore.app.report.job_reports import JobReports, ReplayedJobReports, ReplayedJobs
from longshore.app.report.replayed_events import ReplayedEvents
from longshore.app.report.report_cache import CachedReplay, cache_replay, encode_replay, read_cached_replay
from longshore.app.runs.event_source import chunk_events
from longshore.app.runs.open_run import OpenRun
from longshore.contract.context import Mark, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.engine.journal.survey import JournalSurvey, find_unknown_jobs
from longshore.engine.rundir.job_table import Column, JobTable
from longshore.engine.rundir.wait_reasons import find_held_jobs
from longshore.engine.state.job_codes import ACTIVE, JOB_STATES, JobCode, count_states
from longshore.engine.state.snapshot_of import count_held, is_stuck
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import BriefEvent
from longshore.model.run.states import JobState, state_of_run
from longshore.model.workflow.collection_pause import collection_paused
from longshore.world.runs.run_directory import read_waiting


class Replay:
    """State of a run after replaying its events.

    `alive` is whether an engine lives; `details` requests job reports.

    `unreachable` is why the workload manager did not answer, empty if it did. `has_no_events` means that no event is
    known: the manager did not answer, or the submitted run has no event and no engine to come. `has_no_engine` means
    not finished and without engine; `is_watched` means that neither holds. `last_position` is life and number of the
    last event, `mark` the position after it.
    `held` are jobs that the workload manager holds until a person releases them. `survey` tells the journal's damages;
    `unknown` are the jobs whose state is not known because of them.
    """

    def __init__(self, opened: OpenRun, *, alive: bool | Unreachable, details: bool) -> None:
        self._opened = opened
        self._is_damaged, self._to_cache = False, b""
        with collection_paused():
            cached = read_cached_replay(opened) if details else None
            # A dead engine is resumed by what the journal says, so all of it is checked then.
            if cached is not None and alive is False and opened.survey.damages:
                cached = None
            has_events = self._replay(cached, details=details)
        self.state, self.attempts = self._replayed.state, self._replayed.attempts
        self.last_position = self._replayed.last_position
        self.survey = JournalSurvey(())
        self.unknown: frozenset[int] = frozenset()
        # An engine that is itself a job may be queued for long before its first event.
        lost = bool(opened.card.submissions) and alive is not True
        self.has_no_events = not has_events and (bool(self.unreachable) or lost)
        self.has_no_engine = alive is not True and not self.state.finish_event
        if self._is_damaged or (alive is False and not self.unreachable and opened.find_lost_lives()):
            self.survey = opened.survey
            self.unknown = find_unknown_jobs(self.state, self.survey)
        elif self._to_cache:
            cache_replay(opened, self._to_cache)
        self._shown = [self._shown_for(code) for code in JobCode]
        self.is_watched = not self.has_no_engine and not self.has_no_events and not self.survey.damages
        self.held = find_held_jobs(read_waiting(opened.run), self.state.code) if self.is_watched else frozenset()

    def _replay(self, cached: CachedReplay | None, *, details: bool) -> bool:
        """Replay all events, or those after a cached replay; return whether there are any."""
        opened = self._opened
        try:
            answer = opened.brief_events(cached.mark if cached else "", with_attempts=details)
        except StaleMarkError:
            cached = None
            answer = opened.brief_events(with_attempts=details)
        self.unreachable = answer.why if isinstance(answer, Unreachable) else ""
        self.mark: Mark = "" if isinstance(answer, Unreachable) else answer[1]
        columns: list[Column] = ["names"] if details else []
        if cached is None:
            columns.append("parents")
        self.jobs = JobTable(opened.run, *columns)
        if cached is not None:
            self._replayed = ReplayedEvents.continue_from(cached.replay, self.jobs)
        else:
            self._replayed = ReplayedEvents.before_the_first(self.jobs, newest=details)
        number = 0 if isinstance(answer, Unreachable) else self._add(answer[0])
        if cached is not None and self._is_damaged:
            # Only a replay of all events knows what precedes the damage.
            self._is_damaged = False
            return self._replay(None, details=details)
        return bool(cached or number)

    def _add(self, events: Iterable[BriefEvent]) -> int:
        """Process events, those before a damage if there is one; return their number."""
        number = 0
        try:
            for piece in chunk_events(events):
                number += len(piece)
                self._replayed.add(piece)
        except DamagedError:
            self._is_damaged = True
        else:
            self._to_cache = encode_replay(self._opened, self._replayed, mark=self.mark, number=number)
        self._replayed.finish()
        return number

    def _shown_for(self, code: int) -> JobState:
        """Return the state to show for a code: unknown for jobs that no engine watches."""
        if self.has_no_events or (self.has_no_engine and code in ACTIVE):
            return JobState.UNKNOWN
        return JOB_STATES[code]

    def status(self, notes: Iterable[str] = ()) -> RunStatus:
        """Return the run's status with some notes."""
        rows = list(map(self._shown_row, self.state.counts))
        for job in self.unknown:
            row = rows[self.state.labels[job]]
            row[self._shown[self.state.code[job]]] -= 1
            row[JobState.UNKNOWN] += 1
        count_held(rows, self.state, self.held)
        # Only a damaged header has labels without jobs.
        labels = {label: count_states([]) for label in self.jobs.labels} | dict(
            zip(self.jobs.labels, rows, strict=False)
        )
        for label, reported in self._opened.reported_counts.items():
            if label in labels:
                labels[label] = dict.fromkeys(JobState, 0) | dict(reported)
        counts = {state: sum(row[state] for row in labels.values()) for state in JobState}
        return RunStatus(
            state=self._state_of_run(counts),
            counts=counts,
            labels=labels,
            notes=tuple(notes),
            is_live=self.is_watched and not self.state.finish_event,
            is_paused=bool(self.state.paused) and not self.state.finish_event,
        )

    def _shown_row(self, row: Iterable[int]) -> dict[JobState, int]:
        counts = count_states([])
        for code, number in enumerate(row):
            counts[self._shown[code]] += number
        return counts

    def _state_of_run(self, counts: dict[JobState, int]) -> JobState:
        state = self.state
        if not self.is_watched:
            return JobState.UNKNOWN
        overall = state_of_run(counts, expected=self._opened.card.expected, cancelled=state.is_cancelled)
        if self.held and is_stuck(state, self.held):
            return JobState.HELD
        if state.compute_state() is JobState.HELD and overall is not JobState.UNKNOWN:
            return JobState.HELD
        if overall in END_STATES and not state.finish_event:
            return JobState.RUNNING
        return overall

    @property
    def job_reports(self) -> JobReports | None:
        """Return the reports of all jobs if `details` was requested."""
        newest = self.attempts.newest
        if newest is None:
            return None
        return ReplayedJobReports(
            ReplayedJobs(
                state=self.state,
                attempts=newest,
                names=self.jobs.names,
                labels=self.jobs.labels,
                shown=self._shown,
                held=self.held,
                unknown=self.unknown,
                locator=self._opened.log_locator,
                hide=self._opened.hide_secrets,
                not_retried=self.attempts.failed,
            )
        )
