"""Main loop of a run's engine: polls for events, makes them durable, decides, submits, and sleeps until there is news.

The engine's guarantees rest on the order within a round: events are applied in memory first, made durable next, and
only then acted on. A life that finds a newer one beside it stops without touching anything. It is one file because that
order can only be checked where all of it is in sight. After the end of a run, it collects facts of attempts that arrive
late, and gives way to a newer life.

"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from longshore import __version__
from longshore.contract.executor import (
    Accepted,
    Batch,
    Executor,
    MemberEvent,
    NewsWait,
    Rejected,
    SubmitResult,
    Throttled,
    Urgency,
    awaited_facts,
    discard_ends,
    end_leftovers,
    free_submissions,
    reprioritise,
    take_facts,
)
from longshore.contract.service import Mark, RunPaths, Unreachable
from longshore.engine.outer_job import read_outer_job
from longshore.engine.policy.fast_failures import FastFailures
from longshore.engine.run.intervention_events import (
    describe_intervention,
    make_intervention_events,
    make_restart_event,
    mark_order,
)
from longshore.engine.run.judge_end import EndJudge, forget_tasks
from longshore.engine.run.make_scheduler import RuntimeHistory, make_scheduler
from longshore.engine.run.members import MemberBuilder
from longshore.engine.run.progress import SnapshotWriter, WaitNotes, WaitReasonsWriter
from longshore.engine.schedule.estimates import BatchUrgencies
from longshore.engine.schedule.resource_pool import NO_IDENTITIES, ConcurrencyLimits
from longshore.engine.settings import EngineSettings
from longshore.engine.shares import RunShares
from longshore.errors import RunUnreadableError
from longshore.model.event import (
    FORMAT,
    AttemptFacts,
    Deleted,
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Lost,
    Restarted,
    Started,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.event import Refused as BatchRefused
from longshore.model.report import Snapshot
from longshore.model.states import Cause, JobState
from longshore.model.wording import count_noun
from longshore.rundir.batch_records import tag_prefix
from longshore.rundir.interventions import InterventionRecord, read_interventions
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import Journal, LateJournal, next_life, read_events
from longshore.rundir.run_directory import read_card
from longshore.rundir.submissions import newest_submission, read_changed_jobs
from longshore.runstate.apply_events import apply_event, apply_events
from longshore.runstate.replay import initial_state, make_reuse_events
from longshore.runstate.restart_selection import select_for_restart
from longshore.runstate.run_state import OVER, make_snapshot
from longshore.runstate.steering import describe_pause, describe_throttles
from longshore.system.folder import make_folders, remove_file
from longshore.system.host import Clock, boot_id, host_name
from longshore.system.processes import processes
from longshore.system.room import describe_failed_write


def wait_for_news(executor: Executor, timeout_s: float) -> None:
    """Wait until something may be new, at most `timeout_s` seconds."""
    if isinstance(executor, NewsWait):
        executor.wait(timeout_s)
    else:
        time.sleep(timeout_s)


# After the end of a run.


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


# The loop.


_MAX_SLEEP_S: Final = 0.25
"""Longest sleep: how late an intervention is seen."""
_RETRY_DISK_S: Final = 2.0
"""Pause before writing is tried again on a disk that is full."""


class Superseded(Exception):  # noqa: N818 - a state of affairs, not an error
    """The run no longer belongs to this life: a newer one has begun, or its directory is gone."""


class Engine:
    """One life of a run's engine.

    Parameters
    ----------
    run
        The run directory.
    executor
        Submits single jobs to the workload manager.
    settings
        Settings that were fixed when the run was prepared.
    clock
        The time.
    by
        Why this life begins: ``submit``, ``resume``, ``restart`` or ``cancel``.
    log_line
        Takes a line for the engine's log.
    """

    def __init__(
        self,
        run: RunPaths,
        executor: Executor,
        settings: EngineSettings,
        *,
        clock: Clock,
        by: str,
        log_line: Callable[[str], None],
    ) -> None:
        self._run = run
        self._executor = executor
        self._settings = settings
        self._clock = clock
        self._log_line = log_line
        self._jobs = jobs = JobTable(run, "parents")
        self._members = MemberBuilder(jobs)
        self.state = initial_state(jobs)
        number, seal = next_life(run.journal)
        self._fast_failures = FastFailures(settings.max_fast_failures, settings.fast_failure_s)
        for events in read_events(run.journal, seal=seal).chunks:
            apply_events(self.state, events)
            self._fast_failures.update(events)
        self._end_judge = EndJudge(run, jobs, log_line)
        self._began = clock.elapsed()
        self._polled_ends: list[tuple[int, int]] = []
        """Attempts whose ends were polled, and perhaps are not durable yet."""
        self._executed: set[Path] = set()
        self._refusals: set[str] = set()
        """Interventions that were carried out, and whose files perhaps could not be removed yet."""
        self.life = _make_life(run, number, by, clock)
        make_folders(run.journal, below=run.root, durable=True)
        self._journal = Journal(run.journal, self.life)
        for event in self._journal.seal(seal, now=clock.now()):
            # An engine that was thought dead wrote this, and perhaps acted on it, while this one was beginning.
            apply_event(self.state, event)
        apply_event(self.state, self.life)
        tag = self._take_over_results()
        self._mark: Mark = ""
        self._notes = WaitNotes(clock, log_line)
        self._wait_reasons = WaitReasonsWriter(run, self.state)
        self._pause = (0.0, "")
        """Monotonic time until which nothing is started, and the reason."""
        self._unanswered = set(self.state.active.values())
        """Batches of earlier lives whose submission may have succeeded without this life's having seen the answer."""
        self._ended_attempts: set[tuple[int, int]] = set()
        """Attempts that the executor was asked to end."""
        self._checked_at = -_MAX_SLEEP_S
        """When interventions were last looked for."""
        self._snapshot_writer = SnapshotWriter(run, self._journal, clock)
        executor.open(run, number)
        self._history = history = RuntimeHistory(settings.history, jobs, clock=clock, log_line=log_line)
        limits = ConcurrencyLimits(settings, jobs.header.settings)
        card = read_card(run)
        self._id = card.id
        self._outer_job = read_outer_job()
        self._scheduler = scheduler = make_scheduler(
            self.state, jobs, limits, settings, executor=executor, estimates=history.estimates, tag=tag
        )
        self._urgencies = BatchUrgencies(self.state, scheduler.pressure_of, self._rest_s)
        self._shares = RunShares(
            card,
            scheduler,
            limits,
            executor=executor,
            machine=settings.share_machine,
            job_name=lambda job: jobs[job].name,
            clock=clock,
            log_line=log_line,
        )

    def _take_over_results(self) -> str:
        """Record the results of another run that this one begins with; return the prefix of the tags of batches."""
        tag = tag_prefix(read_card(self._run).run_token, self.life.life)
        for event in list(make_reuse_events(self._run, self.state, tag=tag)):
            apply_event(self.state, self._journal.append(event, now=self._clock.now()))
        return tag

    def run(self) -> JobState:
        """Work until nothing of the run can move any more, and return the run's state.

        Raises
        ------
        Superseded
            A newer life has begun.
        """
        try:
            while not self._round():
                wait_for_news(self._executor, self._sleep_s())
            if self.state.is_cancelled:
                end_leftovers(self._executor)
            self._end_judge.clean_up_lost(self.state.lost)
        finally:
            self._executor.close()
            self._shares.release()
            self._history.add(last=True, awaited=awaited_facts(self._executor))
            self._journal.close()
        assert self.state.finish_event is not None
        return self.state.finish_event.state

    def collect_late_facts(self) -> None:
        """Collect what becomes known of attempts after the end of the run, for some seconds.

        Called without the lock of the engine, so that a restart meanwhile is not refused.
        """
        try:
            LateFactCollector(self._executor, self._journal, self._history, clock=self._clock).collect()
        except OSError as error:
            self._log_line(f"what some attempts used is not recorded: {error.strerror}")
        self._history.add(last=True)

    def restart(self) -> int:
        """Run every job again that did not succeed or that the intervention names; return their number."""
        pending = [each for each in read_interventions(self._run, self._note_refusal) if each[1].act == "restart"]
        for path, _ in pending[:-1]:
            # The newest stands for all. An earlier one that outlived it would be carried out after it.
            self._remove_order(path)
        if not pending:
            return self._restart(InterventionRecord(who="", act="restart"), "")
        # Removed as all interventions are, once the events that follow from it are durable.
        path, intervention = pending[-1]
        self._executed.add(path)
        return 0 if path.name in self.state.orders else self._restart(intervention, path.name)

    def _restart(self, intervention: InterventionRecord, order: str) -> int:
        changed = self._void_changed_jobs(intervention)
        named = {number for number, label in enumerate(self._jobs.labels) if label in intervention.from_labels}
        chosen = select_for_restart(self.state, named)
        # Before the restart is recorded: if this life dies in between, the next one only repeats it.
        self._forget_tasks(chosen.restarted_jobs)
        if chosen.jobs:
            event = make_restart_event(intervention, chosen.jobs, order="" if intervention.set else order)
            self._log_line(f"{intervention.who or 'a user'} orders: restart of {count_noun(len(event.jobs), 'job')}")
            self._record(event)
        if intervention.set:
            self._apply_intervention(msgspec.structs.replace(intervention, act="set"), order)
            if chosen.jobs and order and order not in self.state.orders:
                # No job took the values: an event without jobs completes the order.
                self._record(Steer(who=intervention.who, act="set", set=intervention.set, jobs=(), order=order))
        return changed + len(chosen.jobs)

    def _void_changed_jobs(self, intervention: InterventionRecord) -> int:
        """Record that jobs run again whose results a changed workflow voids, once per submission; return how many."""
        voided = 0
        for order, jobs in read_changed_jobs(self._run).items():
            if order in self.state.orders:
                continue
            self._forget_tasks(jobs)
            over = [job for job in jobs if self.state.code[job] in OVER]
            self._log_line(f"the workflow changed: the results of {count_noun(len(over), 'job')} are void")
            self._record(Restarted(jobs=tuple(over), who=intervention.who, order=order))
            voided += len(over)
        return voided

    def _forget_tasks(self, jobs: Iterable[int]) -> None:
        forget_tasks(self._run, map(self._jobs.file_number, jobs))

    def _round(self) -> bool:
        """Do one round; return whether it was the last."""
        self._notes.begin(self._pause[1] if self._is_paused else "")
        self._poll()
        self._record_facts()
        self._apply_interventions()
        self._decide()
        for why in self._shares.look():
            self._notes.add(why)
        batches = self._next_batches()
        for batch_event in batches:
            self._record(batch_event)
        finish_event = self._scheduler.make_finish_event()
        if finish_event:
            self._record(finish_event)
        if not self._commit():
            return False
        self._end_judge.remove_read()
        self._discard_ends()
        self._cancel_attempts()
        self._shares.settle(batches)
        for batch_event in batches:
            self._submit_batch(batch_event)
        self._reprioritise()
        self._history.add(awaited=awaited_facts(self._executor))
        # The last event may be of an earlier round, which could not write it.
        last = self.state.finish_event
        if last is not None:
            self._seal_end(last)
        self._write_snapshot(last=last is not None)
        return last is not None

    def _next_batches(self) -> list[Submitting]:
        """Return the batches to submit in this round, within the manager's present limits."""
        if self._is_paused:
            return []
        self._scheduler.limits = self._executor.limits
        batches = self._scheduler.next_batches(self._time_of_day(), at_most=free_submissions(self._executor))
        for why in self._scheduler.put_off_reasons():
            self._notes.add(why)
        return batches

    def _urgency(self, batch_event: Submitting) -> Urgency | None:
        """Return the urgency of a batch; ``None`` where the manager has no queue of its own."""
        if self._executor.limits.max_batch < 2:
            return None
        return self._urgencies.urgency_of(batch_event.b, (job for job, _ in batch_event.jobs), self._clock.now())

    def _reprioritise(self) -> None:
        if self._executor.limits.max_batch < 2:
            return
        if moved := self._urgencies.find_changes(self._clock.elapsed(), self._clock.now()):
            reprioritise(self._executor, moved)

    def _rest_s(self) -> float:
        return self._history.rest_s(self.state, max(1, len(self.state.active)))

    def _decide(self) -> None:
        """Decide about jobs that ended badly, and pause the run where too many fail fast."""
        for judgement in self._scheduler.decide_retries():
            self._record(judgement)
        if self._fast_failures.pause_reason and not self.state.is_over:
            self._record(Steer(who="longshore", act="pause", set={"why": self._fast_failures.pause_reason}))
        if self.state.paused:
            self._notes.add(describe_pause(self.state.paused, self._id))
        elif self.state.throttles and not self.state.is_over:
            self._notes.add(describe_throttles(self.state.throttles, self._jobs.labels, self._id))

    def _poll(self) -> None:
        answer = self._executor.poll(self._mark)
        if isinstance(answer, Unreachable):
            self._notes.add(f"the workload manager does not answer: {answer.why}")
            return
        self._mark = answer.mark
        if answer.note:
            self._notes.add(answer.note)
        if answer.waiting is not None:
            self._wait_reasons.update(answer.waiting)
        if note := self._wait_reasons.note:
            self._notes.add(note)
        self._unanswered |= answer.recheck
        if answer.busy:
            self._pause_submission(answer.busy.retry_after_s, answer.busy.why)
        self._polled_ends += [(event.j, event.a) for event in answer.events if not isinstance(event, Started)]
        for event in answer.events:
            if self.state.is_active_attempt(event.j, event.a):
                self._record(self._judge_end(event))
        for job, attempt in answer.never_started:
            if self.state.is_active_attempt(job, attempt):
                self._take_back(self.state.active[job], ((job, attempt),))
        self._find_unanswered()

    def _record_facts(self) -> None:
        """Record what became known of attempts after their ends."""
        for facts in take_facts(self._executor):
            if 0 <= facts.j < self.state.size:
                self._record(facts)
                self._polled_ends.append((facts.j, facts.a))

    def _discard_ends(self) -> None:
        """Let the executor discard the ends that are durable by now."""
        if self._polled_ends:
            discard_ends(self._executor, self._polled_ends)
            self._polled_ends = []

    def _judge_end(self, event: MemberEvent) -> MemberEvent:
        """Return an end with its outcome: a bad end of a job that is being cancelled is a cancellation."""
        if not isinstance(event, Ended):
            return event
        if event.cause and event.j in self.state.cancelling:
            self._end_judge.clean_up(event)
            return msgspec.structs.replace(event, cause=Cause.CANCELLED)
        return self._end_judge.judge(event)

    def _find_unanswered(self) -> None:
        """Look up the batches whose submission has no certain answer, because a life died in between."""
        unanswered = self._unanswered | self.state.batches.keys()
        if not unanswered:
            return
        lookup = self._executor.find(sorted(unanswered))
        if isinstance(lookup, Unreachable):
            self._notes.add(f"the outcome of {len(unanswered)} submissions is unknown: {lookup.why}")
            return
        self._unanswered = set()
        members: dict[str, list[tuple[int, int]]] = {}
        for job, batch in self.state.active.items():
            members.setdefault(batch, []).append((job, self.state.attempts[job]))
        for batch in sorted(unanswered):
            if batch in lookup.late and batch in self.state.batches:
                self._record_answer(self.state.batches[batch], lookup.late[batch])
                continue
            taken, is_lost = lookup.taken.get(batch, frozenset()), batch in lookup.lost
            if (taken or is_lost) and batch in self.state.batches:
                self._record(Submitted(b=batch, id=batch))
            missing = tuple(member for member in members.get(batch, ()) if member not in taken)
            if is_lost:
                for job, attempt in missing:
                    why = "it may have run, and its records are lost or damaged"
                    self._record(Lost(j=job, a=attempt, why=why))
            elif missing:
                self._take_back(batch, missing)

    def _take_back(self, batch: str, members: tuple[tuple[int, int], ...]) -> None:
        """Take back attempts that were submitted and certainly never started."""
        self._record(BatchRefused(b=batch, why="the batch never reached the workload manager", jobs=members))

    def _submit_batch(self, batch_event: Submitting) -> None:
        self._is_newest_life()
        if self._is_paused:
            # The manager refused another batch of this round for now, and that holds for all.
            self._record(BatchRefused(b=batch_event.b, why=self._pause[1]))
            return
        if why := self._scheduler.find_put_off(batch_event):
            self._record(BatchRefused(b=batch_event.b, why=why))
            return
        if not self._shares.hold(batch_event):
            self._record(BatchRefused(b=batch_event.b, why="another run was quicker to take what it needs"))
            return
        assert batch_event.request is not None
        lane, slots = self._scheduler.find_lane(batch_event.request, batch_event.jobs[0][0])
        try:
            members = tuple(
                self._members.build(
                    job,
                    attempt,
                    batch_event.request,
                    ids := batch_event.ids.get(job, NO_IDENTITIES),
                    self._shares.units_of(job, ids),
                )
                for job, attempt in batch_event.jobs
            )
        except RunUnreadableError as error:
            self._record_answer(batch_event, Throttled(f"the jobs cannot be read: {error.message}", _RETRY_DISK_S))
            return
        batch = Batch(
            lane=lane,
            slots=slots,
            id=batch_event.b,
            tag=batch_event.tag,
            request=batch_event.request,
            members=members,
            attributes=self._jobs.settings(batch_event.jobs[0][0]).attributes,
            urgency=self._urgency(batch_event),
            settings=self._jobs.settings(batch_event.jobs[0][0]).service_settings,
        )
        self._record_answer(batch_event, self._executor.submit(batch))

    def _record_answer(self, batch_event: Submitting, answer: SubmitResult) -> None:
        match answer:
            case Accepted():
                self._record(Submitted(b=batch_event.b, id=answer.id))
                self._scheduler.take_up(batch_event)
            case Rejected():
                self._scheduler.take_up(batch_event)
                self._record(BatchRefused(b=batch_event.b, why=answer.why, spent=True, hopeless=answer.hopeless))
                if answer.for_all:
                    self._fail_run(batch_event, answer.why)
            case Throttled():
                self._record(BatchRefused(b=batch_event.b, why=answer.why))
                if answer.alike:
                    label = self._jobs.label(batch_event.jobs[0][0])
                    why = f"jobs of '{label}' wait: {answer.why}"
                    self._scheduler.put_off(batch_event, why, until=self._time_of_day() + answer.retry_after_s)
                    self._notes.add(why)
                else:
                    self._pause_submission(answer.retry_after_s, answer.why)
            case _:
                # Unsure: it stays unanswered, and the next round looks it up.
                self._notes.add(answer.why)

    def _fail_run(self, batch_event: Submitting, why: str) -> None:
        """End the run because of a refused batch: its jobs fail, and the others are cancelled."""
        self._log_line(f"the engine ends the run: {why}")
        for job, _ in batch_event.jobs:
            if job in self.state.undecided_ends:
                self._record(Failed(j=job, why=f"the workload manager refused the job, and refuses all others: {why}"))
        code, final = self.state.code, self.state.final
        if pending := tuple(job for job in range(self.state.size) if code[job] not in OVER and job != final):
            self._record(Deleted(jobs=pending))

    def _apply_interventions(self) -> None:
        """Carry out pending interventions."""
        if self._clock.elapsed() - self._checked_at < _MAX_SLEEP_S:
            return
        self._checked_at = self._clock.elapsed()
        self._end_with_outer_job()
        for path, intervention in read_interventions(self._run, self._note_refusal):
            # An earlier life may have died before it removed the file of an order that it carried out.
            if path not in self._executed and path.name not in self.state.orders:
                self._executed.add(path)
                self._apply_intervention(intervention, path.name)
            if self._commit():
                self._remove_order(path)

    def _end_with_outer_job(self) -> None:
        """Cancel the run when the job around it has ended: what it was granted belongs to others now."""
        outer = self._outer_job
        if outer is not None and outer.is_over:
            self._outer_job = None
            self._log_line(f"job '{outer.job}' of '{outer.run}', which this run is inside of, has ended")
            self._apply_intervention(InterventionRecord(who=f"the end of job '{outer.job}'", act="cancel"), "")

    def _remove_order(self, path: Path) -> None:
        with suppress(OSError):
            remove_file(path, below=self._run.root, durable=True)

    def _note_refusal(self, line: str) -> None:
        """Log a refused intervention once, even if it cannot be set aside."""
        if line not in self._refusals:
            self._refusals.add(line)
            self._log_line(line)

    def _apply_intervention(self, intervention: InterventionRecord, order: str) -> None:
        if intervention.act == "restart":
            # The life that was begun for this restart died before carrying it out.
            self._restart(intervention, order)
            return
        events = make_intervention_events(
            intervention, self._jobs, self.state, request_of=self._scheduler.planned_request_of
        )
        for event in mark_order(events, order):
            if description := describe_intervention(event):
                self._log_line(description)
            self._record(event)

    def _cancel_attempts(self) -> None:
        """End cancelled attempts through the executor; a life that begins amid a cancellation asks again."""
        if not self.state.cancelling:
            return
        # An unanswered batch is looked up first: it may not exist, and then cannot be ended.
        answered = (job for job in self.state.cancelling if self.state.active[job] not in self.state.batches)
        attempts = {(job, self.state.attempts[job]) for job in answered} - self._ended_attempts
        if attempts and self._is_newest_life():
            self._ended_attempts |= attempts
            self._executor.cancel(attempts, grace_s=self._settings.grace_s)

    def _record(self, event: Event) -> None:
        if type(event) is Finished:
            event = msgspec.structs.replace(event, up=self._clock.elapsed())
        written = self._journal.append(event, now=self._clock.now())
        apply_event(self.state, written)
        self._fast_failures.update((written,))
        if type(event) is Ended and event.cause is None:
            self._history.add_success(event)
        elif type(event) is AttemptFacts:
            self._history.add_facts(event)

    def _commit(self) -> bool:
        """Make events durable, before anything is done; false if the engine must wait, as with a full disk."""
        if not self._is_newest_life():
            return False
        try:
            self._journal.commit()
        except OSError as error:
            why = f"the journal cannot be written: {describe_failed_write(error, self._run.journal)}"
            self._pause_submission(_RETRY_DISK_S, why)
            return False
        # Checked after the disk, which may take its time: what follows acts on the strength of durable events.
        return self._is_newest_life()

    def _seal_end(self, end: Finished) -> None:
        try:
            self._journal.seal_end(end)
        except OSError as error:
            # The run is over without it: a cut of its last lines would only be harder to notice.
            self._log_line(f"the end of the run cannot be sealed: {error.strerror}")

    def _is_newest_life(self) -> bool:
        """Return whether this life is still the newest; false while that cannot be checked."""
        try:
            superseded, gone = self._journal.superseded, self._journal.gone
        except OSError as error:
            self._pause_submission(_RETRY_DISK_S, f"the run directory cannot be read: {error.strerror}")
            return False
        if superseded:
            raise Superseded("a newer engine has taken the run up")
        if gone:
            raise Superseded("the run directory was moved or removed")
        return True

    @property
    def _is_paused(self) -> bool:
        return self._clock.elapsed() < self._pause[0]

    def _pause_submission(self, seconds: float, why: str) -> None:
        self._pause = max(self._pause, (self._clock.elapsed() + seconds, why))
        self._notes.add(why)

    def _time_of_day(self) -> float:
        """Return the time of day for decisions: this life's first, moved on by the monotonic clock."""
        return self.life.t + self._clock.elapsed() - self._began

    def _sleep_s(self) -> float:
        due = self._scheduler.next_wake()
        until, _ = self._pause
        if (pause := until - self._clock.elapsed()) > 0:
            # Nothing that is ready can start: being awake would only keep the workload manager busy.
            return min(_MAX_SLEEP_S, pause)
        if self.state.newly_ready or self.state.undecided_ends or self._scheduler.has_more:
            return 0.0
        longest = min(_MAX_SLEEP_S, self._shares.poll_s)
        return longest if due is None else max(0.0, min(longest, due - self._time_of_day()))

    def _write_snapshot(self, *, last: bool) -> None:
        if not (last or self._snapshot_writer.is_due(self._notes)) or not self._is_newest_life():
            return
        try:
            self._snapshot_writer.write(self.snapshot())
        except OSError as error:
            self._notes.add(f"the snapshot cannot be written: {error.strerror}")

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the run."""
        return make_snapshot(
            self.state,
            self._jobs.labels,
            life=self.life,
            number=self._journal.number,
            now=self._clock.now(),
            note=str(self._notes),
            held=self._wait_reasons.held,
        )


def _make_life(run: RunPaths, number: int, by: str, clock: Clock) -> Life:
    submission, digest = newest_submission(run)
    return Life(
        v=FORMAT,
        life=number,
        t=clock.now(),
        host=host_name(),
        pid=processes.getpid(),
        boot=boot_id(),
        by=by,
        longshore=__version__,
        s=submission,
        manifest=digest,
        up=clock.elapsed(),
    )
