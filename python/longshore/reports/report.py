"""The report of a run: state, from a snapshot or a replay, summary, and notes, such as on unsent notices."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from shlex import quote
from typing import Final

from msgspec import structs

from longshore.contract.capabilities import status_lines
from longshore.contract.service import Unreachable
from longshore.errors import RunUnreadableError
from longshore.model.event import Event, Life
from longshore.model.notice import NoticeEvent
from longshore.model.report import Damage, DamagedError, Failure, RunReport, Snapshot
from longshore.model.sites import SiteDecision
from longshore.model.states import JobState
from longshore.model.submission import ReusedJobs
from longshore.model.wording import count_noun, format_moment
from longshore.reports.attempts import AttemptCollector
from longshore.reports.failures import FailedJobs, ReadLogs
from longshore.reports.replay import Replay, cache_report, caches_details, read_cached_report
from longshore.reports.state import (
    RunStatus,
    engine_note,
    is_current,
    is_over,
    report_of_status,
    silence_notes,
    status_of_snapshot,
)
from longshore.reports.summary import is_cancelled, summarize_run
from longshore.rundir.archived_runs import archive_of
from longshore.rundir.batch_records import describe_copy, read_marks
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import lives
from longshore.rundir.notices import (
    RunPhase,
    describe_failed_notices,
    due_events,
    is_notifier_at_work,
    longest_notices_s,
    read_notice_records,
    read_notice_rules,
    read_notifier,
    unsent,
)
from longshore.rundir.registry import newest_entries
from longshore.rundir.run_directory import read_card, read_snapshot, read_submitting, read_waiting
from longshore.runstate.events import EventFollower
from longshore.runstate.open_run import OpenRun, map_index_errors, map_read_errors
from longshore.runstate.replay import read_reused_jobs
from longshore.runstate.run_state import RunState
from longshore.runstate.steering import describe_pause
from longshore.system.host import SystemClock, boot_id, host_name
from longshore.system.reading import read_record
from longshore.system.room import describe_full_disk


def find_phase(opened: OpenRun, report: RunReport, *, alive: bool | Unreachable) -> RunPhase:
    """Return the phase of a run that is alive or not, by a report that was made later."""
    if alive is not False:
        return RunPhase.LIVE
    if report.state is JobState.UNKNOWN or not is_over(opened, report):
        return RunPhase.STOPPED
    return RunPhase.OVER


def find_life(opened: OpenRun) -> int:
    """Return the number of what drives a run: of its engine, or of its submission where it has none."""
    known = lives(opened.run.journal)
    return known[-1][0] if known else len(read_card(opened.run).submissions)


_START_S: Final = 60.0
"""Time after the end of a run in which its notifier may still start, such as on a host that is busy."""


def describe_missing_notices(opened: OpenRun, report: RunReport, now: float) -> str:
    """Return a sentence on notices that nothing sends, with the command that does; empty if there are none.

    Only for runs with rules, it reads more than one small file.
    """
    run = opened.run
    rules = read_notice_rules(run)
    # Looked at before the records: a notifier that ends meanwhile has written them all.
    if not rules or is_notifier_at_work(run) or archive_of(run):
        return ""
    life = find_life(opened)
    notifier = read_notifier(run)
    # The locks of other hosts may not be visible here.
    is_dead = notifier is not None and notifier.life == life and notifier.host == host_name()
    latest = (report.finished_at or now) + longest_notices_s(run) + _START_S
    if not is_dead and now < latest:
        return ""
    records = read_notice_records(run)
    missing = len(list(unsent(rules, records)))
    phase = RunPhase.OVER
    # All that was due is recorded with the end; else it may cost a question to the workload manager.
    if due_events(report, phase, records, life):
        phase = find_phase(opened, report, alive=opened.is_alive())
        if not is_dead and phase is not RunPhase.OVER:
            return ""
        due = due_events(report, phase, records, life)
        missing += sum(event in rule.events for event in due for rule in rules)
    command = f"longshore notify {opened.reference}"
    if missing:
        verb = "was" if missing == 1 else "were"
        return f"{count_noun(missing, 'notice')} {verb} not sent, because no notifier is at work: {command}"
    if phase is RunPhase.LIVE and any(rule.events != (NoticeEvent.START,) for rule in rules):
        return f"no notifier is at work, so later notices are not sent: {command}"
    return ""


_PRESENT_S = 60.0
"""Age up to which a moment is the present, for which the counter of this host holds."""
_SHOWN_COPIES = 5
"""Notes on single copies of attempts in one report."""

_MOST_INNER: Final = 20
"""Inner runs that a report names."""


def report_run(opened: OpenRun, *, details: bool = False, summary: bool = True, now: float | None = None) -> RunReport:
    """Return the report of a run; `details` adds every job, `now` defaults to the clock (seconds since the epoch).

    Without `summary`, it lacks the summary and the service's lines where these are not at hand.
    Raises `RunUnreadableError` if the run directory is damaged, `RunNotFoundError` if it disappeared meanwhile.
    """
    return ReportBuilder(opened).build(time.time() if now is None else now, details=details, summary=summary)


class ReportBuilder:
    """Builds reports of a run repeatedly, reading only new events.

    While an engine lives, job states are those of its newest snapshot, and only events up to that snapshot count, so
    that both describe the same moment. Without an engine, all events are replayed.
    """

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self._jobs: JobTable | None = None
        self._attempts: AttemptCollector | None = None
        self._follower = EventFollower(opened)
        self._read_logs: ReadLogs = {}
        self._last = (0, 0)
        """Life and number of the last counted event."""
        self._later: list[Event] = []
        """Events newer than the newest snapshot."""
        self._failed: FailedJobs | None = None
        """Every job of the last report whose newest failed attempt is known, unless it was cancelled."""

    def build(self, now: float, *, details: bool = False, summary: bool = True) -> RunReport:
        """Return the run's report for this moment, optionally with every job, or without a summary.

        Raises `RunUnreadableError` if the run directory is damaged, `RunNotFoundError` if it disappeared meanwhile.
        """
        report = self._build(now, details=details, summary=summary)
        # They change after the end of the run too.
        later = (*_copy_notes(self._opened, now), *_notice_notes(self._opened, report, now))
        return structs.replace(report, notes=(*report.notes, *later)) if later else report

    def failed_attempts(self) -> tuple[Failure, ...]:
        """Return the groups of all that failed as of the last report, also of jobs that were tried again since."""
        hide = self._opened.hide_secrets
        return tuple(
            structs.replace(
                group,
                message=hide(group.message),
                reason=group.reason and hide(group.reason),
                not_retried=group.not_retried and hide(group.not_retried),
            )
            for group in (self._failed.groups() if self._failed else ())
        )

    def _build(self, now: float, *, details: bool, summary: bool) -> RunReport:
        """Return the report without notes on what may change after the end of the run."""
        run = self._opened.run
        with map_read_errors(run), map_index_errors(run):
            # Queried before any read: an engine that ends in between has written its last event by then.
            alive = self._opened.is_alive()
            snapshot = read_snapshot(run)
            cached = None
            if alive is False and (not details or caches_details(self._opened)):
                cached = read_cached_report(self._opened, snapshot, details=details)
            if cached and not self._opened.survey.damages and not self._opened.record_damages:
                return structs.replace(cached.report, specifics=tuple(_service_lines(self._opened, cached.life)))
            if details or snapshot is None or not is_current(self._opened, snapshot, alive=alive):
                return self._from_events(now, alive=alive, snapshot=snapshot, details=details, summary=summary)
            try:
                return self._as_of(snapshot, now)
            except DamagedError:
                return self._from_events(now, alive=alive, snapshot=snapshot, details=False)

    def _as_of(self, snapshot: Snapshot, now: float) -> RunReport:
        """Return the report as of the newest snapshot, with the events it includes."""
        jobs = self._jobs = self._jobs or JobTable(self._opened.run)
        events = self._follower.read()
        if self._follower.unreachable:
            return self._from_events(now, alive=True, snapshot=snapshot, details=False)
        if self._attempts is None or self._follower.has_restarted:
            self._attempts, self._last, self._later = AttemptCollector(jobs.label_of, len(jobs.labels)), (0, 0), []
        earlier, self._later = self._later, []
        self._attempts.add(self._up_to(snapshot, chain(earlier, events)))
        status = status_of_snapshot(self._opened, snapshot, now)
        status = structs.replace(
            status,
            labels={label: status.labels.get(label, {}) for label in jobs.labels},
            notes=(*status.notes, *(self._lacking(snapshot, self._last) if snapshot.finished else ())),
        )
        report = self._brief_report(jobs, self._attempts, status)
        report = self._with_summary(report, jobs, self._attempts, status, now)
        if snapshot.finished and not self._later:
            life = self._attempts.life
            cache_report(self._opened, snapshot, mark=self._follower.mark, life=life, report=report)
        return report

    def _up_to(self, snapshot: Snapshot, events: Iterator[Event]) -> Iterator[Event]:
        """Yield the events that a snapshot includes; later ones are kept."""
        newest = snapshot.life, snapshot.n
        for event in events:
            place = (event.life, 0) if isinstance(event, Life) else (self._last[0], event.n)
            if place > newest:
                self._later = [event, *events]
                break
            self._last = place
            yield event

    def _from_events(
        self,
        now: float,
        *,
        alive: bool | Unreachable,
        snapshot: Snapshot | None,
        details: bool,
        summary: bool = True,
    ) -> RunReport:
        """Return the report from a replay of all events."""
        replay = Replay(self._opened, alive=alive, details=details)
        silence = (
            () if replay.has_no_engine or replay.state.finish_event else silence_notes(self._opened, snapshot, now)
        )
        status = replay.status(
            [*self._pause_notes(replay.state), *self._notes(replay, snapshot, alive=alive), *silence],
        )
        report = self._brief_report(replay.jobs, replay.attempts, status)
        if summary:
            report = self._with_summary(report, replay.jobs, replay.attempts, status, now)
        report = structs.replace(report, jobs=replay.job_reports)
        if damages := self._damages(replay, alive=alive):
            return structs.replace(report, damage=damages)
        is_final = summary and alive is False and replay.mark and not status.is_live
        if is_final and (not details or caches_details(self._opened)):
            return cache_report(self._opened, snapshot, mark=replay.mark, life=replay.attempts.life, report=report)
        return report

    def _brief_report(self, jobs: JobTable, attempts: AttemptCollector, status: RunStatus) -> RunReport:
        """Return a report without summary."""
        report = report_of_status(self._opened, status)
        return structs.replace(
            report,
            notes=(*report.notes, *_output_notes(jobs, attempts)),
            started_at=attempts.first_start,
            finished_at=attempts.finished.t if attempts.finished else None,
            idle_s=attempts.idle_s,
        )

    def _with_summary(
        self, report: RunReport, jobs: JobTable, attempts: AttemptCollector, status: RunStatus, now: float
    ) -> RunReport:
        """Return a report with its summary, whose estimate of the time left is slow, and the service's lines."""
        failed = FailedJobs(
            run=self._opened.run,
            log_of=self._opened.log_of,
            labels=jobs.labels,
            label_of=jobs.label_of,
            jobs={
                job: self._opened.hide_reason(end) if (end := attempts.failed_ends.get(job)) else None
                for job in attempts.failed
            },
            held={job: attempts.failed_ends.get(job) for job in attempts.hold_codes if job not in attempts.failed},
            holds=attempts.hold_codes,
            user_hold_codes=self._opened.service.traits.user_hold_codes if attempts.hold_codes else (),
            names_of=jobs.names_of,
            read=self._read_logs,
            not_retried=attempts.failed,
        )
        ends = attempts.overcome_ends | attempts.failed_ends
        bad_ends = {job: end for job, end in ends.items() if not is_cancelled(end)}
        self._failed = structs.replace(failed, jobs=bad_ends)
        waiting = read_waiting(self._opened.run)
        if abs(now - time.time()) < _PRESENT_S:
            attempts.observe(now, SystemClock().elapsed(), boot_id())
        return structs.replace(
            report,
            specifics=tuple(_service_lines(self._opened, attempts.life)),
            summary=summarize_run(jobs, attempts, failed, status, now=now, waiting=waiting),
        )

    def _damages(self, replay: Replay, *, alive: bool | Unreachable) -> tuple[Damage, ...]:
        """Return the damages of the journal and, without an engine, of the keepers' records."""
        return (*replay.survey.damages, *(self._opened.record_damages if alive is False else ()))

    def _notes(self, replay: Replay, snapshot: Snapshot | None, *, alive: bool | Unreachable) -> Iterator[str]:
        if replay.unreachable:
            yield f"the workload manager does not answer: {replay.unreachable}"
            return
        damages = self._damages(replay, alive=alive)
        if replay.has_no_events or damages:
            yield from self._damage_notes(replay, damages)
            return
        life = replay.attempts.life
        if life is None:
            yield "its engine has not begun" if alive is True else _not_started_note(self._opened)
            return
        if snapshot and alive is not True and (lacking := self._lacking(snapshot, replay.last_position)):
            yield from lacking
        elif replay.has_no_engine and isinstance(alive, Unreachable):
            yield "it is unknown whether it still runs: the workload manager does not answer"
        elif replay.has_no_engine:
            since = snapshot.at if snapshot and snapshot.life == life.life else life.t
            yield f"engine not running since {format_moment(since)}: longshore resume {self._opened.reference}"
            if full := describe_full_disk(self._opened.run.root):
                yield f"{full}: make room there before the run is resumed"
        elif snapshot and snapshot.note and not snapshot.finished and not snapshot.paused:
            # The journal's reader has already noted that the run is paused.
            yield engine_note(self._opened, snapshot)

    def _pause_notes(self, state: RunState) -> Iterator[str]:
        """Yield a note that the run is paused, for runs without an engine's own note."""
        if state.paused and not state.finish_event:
            yield describe_pause(state.paused, self._opened.reference)

    def _damage_notes(self, replay: Replay, damages: Sequence[Damage]) -> Iterator[str]:
        if replay.has_no_events:
            yield "it was submitted, and no record is left of its events"
        if damages:
            yield from map(str, damages)
            yield f"to continue from what is intact: longshore resume {self._opened.reference} --accept-loss"

    def _lacking(self, snapshot: Snapshot, last: tuple[int, int]) -> list[str]:
        """Return warnings if the journal lacks events that the snapshot includes."""
        if last >= (snapshot.life, snapshot.n):
            return []
        where = f"event {last[0]}.{last[1]}" if last[0] else "its beginning"
        words = (
            f"the journal '{self._opened.run.journal}' ends with {where}, and its engine wrote up to "
            f"{snapshot.life}.{snapshot.n}: the reports of single jobs are incomplete"
        )
        return [words]


def _output_notes(jobs: JobTable, attempts: AttemptCollector) -> Iterator[str]:
    """Yield a note on jobs that succeeded and left an output stale or empty."""
    ends = attempts.doubtful_ends
    if not ends:
        return
    first = min(ends)
    count = "a job" if len(ends) == 1 else f"{len(ends)} jobs"
    (name,) = jobs.names_of([first]).values()
    example = f"'{name}': {ends[first].reason}" if len(ends) == 1 else f"such as '{name}': {ends[first].reason}"
    yield f"{count} succeeded with an output that is stale or empty, {example}"


def _copy_notes(opened: OpenRun, now: float) -> Iterator[str]:
    """Yield notes on attempts that were given up: a copy may live, or ended later."""
    told = [words for mark in read_marks(opened.run) if (words := describe_copy(mark, now))]
    yield from told[:_SHOWN_COPIES]
    if (more := len(told) - _SHOWN_COPIES) > 0:
        yield f"{count_noun(more, 'other attempt')} that were given up may still run, or ended later"


def _notice_notes(opened: OpenRun, report: RunReport, now: float) -> Iterator[str]:
    """Yield notes on notices that were not sent."""
    yield from describe_failed_notices(opened.run)
    # Another program may remove the run, or change its files, meanwhile.
    with suppress(OSError):
        if words := describe_missing_notices(opened, report, now):
            yield words


def _not_started_note(opened: OpenRun) -> str:
    """Return the note for a run without events."""
    if opened.directory != opened.run.root:
        return f"prepared, and never submitted; only the tool that made '{opened.directory}' can submit it"
    command = f"longshore submit {quote(str(opened.run.root))}"
    started = read_submitting(opened.run)
    if started is None or opened.card.submissions:
        return f"prepared, and never submitted: {command}"
    return (
        f"'{started.user}' on '{started.host}' began to submit it at {format_moment(started.at)}, "
        f"without a result so far; if that was interrupted, this continues it: {command}"
    )


def _reused_jobs(opened: OpenRun) -> ReusedJobs | None:
    """Return the results that a run took over when it was submitted; nothing if the record cannot be read."""
    try:
        return read_reused_jobs(opened.run)
    except RunUnreadableError:
        return None


def _nesting_lines(opened: OpenRun) -> Iterator[str]:
    """Yield the job that the run is inside of, and the runs that its jobs submitted."""
    card = opened.card
    if card.submitted_in:
        yield f"Inside: job '{card.submitted_by_job}' of '{card.submitted_in}'"
    inner = []
    for entry in newest_entries():
        if entry.created_at < card.created_at:
            break
        if entry.submitted_in == str(opened.run.root):
            inner.append(entry.id)
    if inner:
        named = ", ".join(reversed(inner[:_MOST_INNER]))
        more = f", and {len(inner) - _MOST_INNER:,} before" if len(inner) > _MOST_INNER else ""
        yield f"Runs inside its jobs: {named}{more}"


def _service_lines(opened: OpenRun, life: Life | None) -> Iterator[str]:
    """Yield notes about the engine that drives the run."""
    if lines := status_lines(opened.service, opened.run):
        yield from lines
    elif life and life.pid:
        yield (
            f"Engine: life {life.life}, process {life.pid} on '{life.host}', began {format_moment(life.t)} by {life.by}"
        )
    yield from _nesting_lines(opened)
    if decision := read_record(opened.run.site_choice, SiteDecision):
        yield f"Choice: {decision.summary()}"
    if reused := _reused_jobs(opened):
        yield f"Kept: results of {count_noun(len(reused.jobs), 'job')}, from run '{reused.run}'"
    if len(opened.card.submissions) > 1:
        last = opened.card.submissions[-1]
        number = len(opened.card.submissions)
        yield f"Submissions: {number}, the last by {last.user} on '{last.host}' at {format_moment(last.at)}"
