"""State of a run and reports on its jobs, by replay of all events; a run without an engine is UNKNOWN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from longshore.app.report.attempts import AttemptCollector
from longshore.app.report.from_snapshot import END_STATES, RunStatus
from longshore.app.report.job_reports import JobReports
from longshore.app.report.newest_attempts import NewestAttempts
from longshore.app.runs.event_source import chunk_events
from longshore.app.runs.open_run import OpenRun
from longshore.contract.context import Mark, Unreachable, log_path
from longshore.engine.journal.join_successes import SuccessJoiner
from longshore.engine.journal.survey import JournalSurvey, find_unknown_jobs
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import initial_state
from longshore.engine.rundir.wait_reasons import find_held_jobs
from longshore.engine.state.apply_events import apply_events
from longshore.engine.state.job_codes import ACTIVE, JOB_STATES, JobCode, count_states
from longshore.engine.state.snapshot_of import count_held, is_stuck
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import AttemptSucceeded, BriefEvent, Life
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
        answer = opened.brief_events(with_attempts=details)
        self.unreachable = answer.why if isinstance(answer, Unreachable) else ""
        self.mark: Mark = "" if isinstance(answer, Unreachable) else answer[1]
        self.last_position = (0, 0)
        self.unknown: frozenset[int] = frozenset()
        with collection_paused():
            self.jobs = jobs = JobTable(opened.run, "parents", *(("names",) if details else ()))
            self.state = initial_state(jobs)
            self._newest = NewestAttempts(len(jobs)) if details else None
            self.attempts = AttemptCollector(jobs.label_of, len(jobs.labels), newest=self._newest)
            self.survey = JournalSurvey(())
            has_events = not isinstance(answer, Unreachable) and self._replay(answer[0])
        # An engine that is itself a job may be queued for long before its first event.
        lost = bool(opened.card.submissions) and alive is not True
        self.has_no_events = not has_events and (bool(self.unreachable) or lost)
        self.has_no_engine = alive is not True and not self.state.finish_event
        if alive is False and not self.unreachable and not self.survey.damages and opened.find_lost_lives():
            self._take_survey()
        self._shown = [self._shown_for(code) for code in JobCode]
        self.is_watched = not self.has_no_engine and not self.has_no_events and not self.survey.damages
        self.held = find_held_jobs(read_waiting(opened.run), self.state.code) if self.is_watched else frozenset()

    def _replay(self, events: Iterable[BriefEvent]) -> bool:
        """Process events; return whether there were any."""
        joiner = SuccessJoiner()
        has_events = False
        try:
            for piece in chunk_events(events):
                has_events = True
                self._add(joiner.join(piece))
                self._record_position(piece[-1])
        except DamagedError:
            # What precedes the damage counts.
            self._add(list(joiner.release()))
            self._take_survey()
            return True
        self._add(list(joiner.release()))
        self.attempts.most_running = max(self.attempts.most_running, joiner.most_running)
        return has_events

    def _add(self, events: Sequence[BriefEvent]) -> None:
        apply_events(self.state, events)
        self.attempts.add(events)

    def _take_survey(self) -> None:
        self.survey = self._opened.survey
        self.unknown = find_unknown_jobs(self.state, self.survey)

    def _record_position(self, event: BriefEvent) -> None:
        life = self.attempts.life
        if life is not None:
            self.last_position = life.life, 0 if isinstance(event, Life | AttemptSucceeded) else event.n

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
        if self._newest is None:
            return None
        return JobReports(
            state=self.state,
            attempts=self._newest,
            names=self.jobs.names,
            labels=self.jobs.labels,
            shown=self._shown,
            held=self.held,
            unknown=self.unknown,
            log_of=self._opened.log_of if self._opened.log_locator else log_path,
            not_retried=self.attempts.failed,
        )
