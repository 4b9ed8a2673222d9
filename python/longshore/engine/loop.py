"""The engine of one run: reads what happened, writes it down, decides, acts, and sleeps until there is news.

The order within a round is what the promises rest on: events are applied in memory first, made durable next, and only
then is anything done on the strength of them. A life that finds a newer one beside it stops without touching anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from longshore import __version__
from longshore.contract.context import RunPaths, Unreachable
from longshore.contract.executor import (
    Accepted,
    Batch,
    Executor,
    Mark,
    MemberEvent,
    Refused,
    SubmitAnswer,
    Throttled,
)
from longshore.engine import orders
from longshore.engine.decide import Scheduler
from longshore.engine.fold import RunState, shown_counts
from longshore.engine.jobs import JobTable
from longshore.engine.journal import Journal, next_life, read_events
from longshore.engine.policy import RetryRules
from longshore.engine.pool import Pool
from longshore.engine.settings import EngineSettings
from longshore.model.event import (
    FORMAT,
    Deleted,
    Ended,
    Event,
    Life,
    Restarted,
    Steer,
    Submitted,
    Submitting,
)
from longshore.model.event import (
    Refused as BatchRefused,
)
from longshore.model.snapshot import Snapshot
from longshore.model.state import Cause, JobState, run_state
from longshore.world.clock import Clock
from longshore.world.host import boot_id, host_name
from longshore.world.rundir import read_card, write_snapshot

_NAP_S: Final = 0.25
"""Longest sleep: how late an order of the user is seen."""
_SNAPSHOT_S: Final = 1.0
"""Time between two snapshots while there is news."""
_HEARTBEAT_S: Final = 10.0
"""Time between two snapshots while there is none."""
_RETRY_DISK_S: Final = 2.0
"""Pause before writing is tried again on a disk that is full."""


class Superseded(Exception):  # noqa: N818 - a state of affairs, not an error
    """The run is this life's no longer: a newer one has begun, or its directory was taken away."""


class Engine:
    """One life of a run's engine.

    Parameters
    ----------
    run
        The run directory.
    executor
        The manager of single jobs.
    settings
        What was fixed when the run was prepared.
    clock
        The time.
    by
        Why this life begins: ``submit``, ``resume``, ``restart`` or ``cancel``.
    say
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
        say: Callable[[str], None],
    ) -> None:
        self._run = run
        self._executor = executor
        self._settings = settings
        self._clock = clock
        self._say = say
        self._jobs = JobTable(run)
        self.state = RunState(self._jobs.parents, self._jobs.label_of, final=self._jobs.header.final)
        number, seal = next_life(run.journal)
        for event in read_events(run.journal, seal=seal):
            self.state.apply(event)
        self._obeyed: set[Path] = set()
        """Orders that were taken, and perhaps could not be removed yet."""
        self.life = Life(
            v=FORMAT,
            life=number,
            t=clock.now(),
            host=host_name(),
            pid=os.getpid(),
            boot=boot_id(),
            by=by,
            seals=seal,
            longshore=__version__,
        )
        run.journal.mkdir(exist_ok=True)
        self._journal = Journal(run.journal, self.life)
        self.state.apply(self.life)
        self._mark: Mark = ""
        self._note = ""
        """Why the engine waits, as of this round."""
        self._said = ""
        self._pause = (0.0, "")
        """Until when nothing is started, on the clock that never jumps, and why."""
        self._doubtful = set(self.state.active.values())
        """Batches of earlier lives: whether they were taken was perhaps written down, but never seen by this life."""
        self._told: set[tuple[int, int]] = set()
        """Attempts the executor was asked to end."""
        self._looked_at = -_NAP_S
        """When orders were last looked for."""
        self._snapshot_at = -_HEARTBEAT_S
        self._snapshot_number = -1
        executor.open(run, number)
        probe = executor.probe()
        self._scheduler = Scheduler(
            self.state,
            requests=[profile.request for profile in self._jobs.header.settings],
            rules=[
                RetryRules(
                    retries=profile.number_of_retries,
                    unless_exit=profile.retry_unless_exit,
                    retries_on_lost=settings.retries_on_lost,
                )
                for profile in self._jobs.header.settings
            ],
            profile_of=self._jobs.profile_of,
            pool=Pool(probe.capacity) if probe.capacity is not None else None,
            limits=executor.limits,
            tag=f"{read_card(run).mark}-{number}",
        )

    def run(self) -> JobState:
        """Work until nothing of the run can move any more, and return the run's state.

        Raises
        ------
        Superseded
            A newer life has begun.
        """
        try:
            while not self._round():
                self._executor.wait(self._nap())
            if self.state.cancelled:
                self._executor.sweep()
        finally:
            self._executor.close()
            self._jobs.close()
            self._journal.close()
        assert self.state.finished is not None
        return self.state.finished.state

    def restart(self) -> int:
        """Give every job that is over and did not succeed another chance; return how many there are."""
        again = self.state.not_succeeded()
        final = self.state.final
        if again and final >= 0 and final not in again and final not in self.state.active:
            # What it gathers is no longer all there is.
            again.append(final)
        if again:
            self._note_event(Restarted(jobs=tuple(again)))
        return len(again)

    def _round(self) -> bool:
        """One round; whether it was the last."""
        until, why = self._pause
        self._note = why if self._clock.elapsed() < until else ""
        self._poll()
        self._obey()
        for judgement in self._scheduler.judgements():
            self._note_event(judgement)
        starts = [] if self._clock.elapsed() < until else self._scheduler.starts(self._clock.now())
        for start in starts:
            self._note_event(start)
        finished = self._scheduler.finish()
        if finished:
            self._note_event(finished)
        if not self._commit():
            return False
        self._end_cancelled()
        for start in starts:
            self._hand_over(start)
        # The last event may be of an earlier round, which could not write it.
        last = self.state.finished is not None
        self._write_snapshot(last=last)
        return last

    def _poll(self) -> None:
        answer = self._executor.poll(self._mark)
        if isinstance(answer, Unreachable):
            self._waits(f"the workload manager does not answer: {answer.why}")
            return
        self._mark = answer.mark
        for event in answer.events:
            if self.state.expects(event.j, event.a):
                self._note_event(self._as_cancelled(event))
        for job, attempt in answer.never:
            if self.state.expects(job, attempt):
                self._give_back(self.state.active[job], ((job, attempt),))
        self._find_unanswered()

    def _as_cancelled(self, event: MemberEvent) -> MemberEvent:
        """A bad end that somebody asked for is a cancellation."""
        if isinstance(event, Ended) and event.cause and event.j in self.state.dying:
            return msgspec.structs.replace(event, cause=Cause.CANCELLED)
        return event

    def _find_unanswered(self) -> None:
        """Look up the batches of which it is not certain that they were taken: a life died in between."""
        doubtful = self._doubtful | self.state.batches.keys()
        if not doubtful:
            return
        found = self._executor.find(sorted(doubtful))
        if isinstance(found, Unreachable):
            self._waits(f"it cannot be told what became of {len(doubtful)} batches: {found.why}")
            return
        self._doubtful = set()
        members: dict[str, list[tuple[int, int]]] = {}
        for job, batch in self.state.active.items():
            members.setdefault(batch, []).append((job, self.state.attempts[job]))
        for batch in sorted(doubtful):
            taken = found.taken.get(batch, frozenset())
            if taken and batch in self.state.batches:
                self._note_event(Submitted(b=batch, id=batch))
            if missing := tuple(member for member in members.get(batch, ()) if member not in taken):
                self._give_back(batch, missing)

    def _give_back(self, batch: str, members: tuple[tuple[int, int], ...]) -> None:
        """Take back attempts that were handed over and certainly never started."""
        self._note_event(BatchRefused(b=batch, why="it never reached the workload manager", jobs=members))

    def _hand_over(self, start: Submitting) -> None:
        self._stop_if_superseded()
        until, why = self._pause
        if self._clock.elapsed() < until:
            # Not now was the answer to another batch of this round, and it holds for all.
            self._note_event(BatchRefused(b=start.b, why=why))
            return
        assert start.request is not None
        batch = Batch(
            id=start.b,
            tag=start.tag,
            request=start.request,
            members=tuple(self._jobs.member(job, attempt, start.request) for job, attempt in start.jobs),
        )
        self._take_answer(start, self._executor.submit(batch))

    def _take_answer(self, start: Submitting, answer: SubmitAnswer) -> None:
        match answer:
            case Accepted():
                self._note_event(Submitted(b=start.b, id=answer.id))
            case Refused():
                self._note_event(BatchRefused(b=start.b, why=answer.why, spent=True))
            case Throttled():
                self._note_event(BatchRefused(b=start.b, why=answer.why))
                self._start_nothing_for(answer.retry_after_s, answer.why)
            case _:
                # Unsure: it stays unanswered, and the next round looks it up.
                self._waits(answer.why)

    def _obey(self) -> None:
        """Take the orders that people left."""
        if self._clock.elapsed() - self._looked_at < _NAP_S:
            return
        self._looked_at = self._clock.elapsed()
        for path, order in orders.waiting(self._run):
            if path not in self._obeyed:
                self._obeyed.add(path)
                self._take_order(order)
            if self._commit():
                path.unlink(missing_ok=True)

    def _take_order(self, order: orders.Order) -> None:
        selected = {name: words for name, words in (("jobs", order.jobs), ("labels", order.labels)) if words}
        self._say(f"{order.who} orders: {order.act} {selected or 'the whole run'}")
        self._note_event(Steer(who=order.who, act=order.act, select=selected, set=order.set))
        if selected:
            self._note_event(Deleted(jobs=tuple(self._selected(order))))

    def _end_cancelled(self) -> None:
        """Have the executor end what was cancelled; a life that begins amid a cancellation asks again."""
        if not self.state.dying:
            return
        # Nobody can end what is perhaps not there: a batch that was never answered is looked up first.
        known = (job for job in self.state.dying if self.state.active[job] not in self.state.batches)
        attempts = {(job, self.state.attempts[job]) for job in known} - self._told
        if attempts:
            self._stop_if_superseded()
            self._told |= attempts
            self._executor.cancel(attempts, grace_s=self._settings.grace_s)

    def _selected(self, order: orders.Order) -> Iterable[int]:
        labels = set(order.labels)
        names = set(order.jobs)
        for job in range(len(self._jobs)):
            if self._jobs.settings(job).label in labels or (names and self._jobs[job].name in names):
                yield job

    def _note_event(self, event: Event) -> None:
        self.state.apply(self._journal.append(event, now=self._clock.now()))

    def _commit(self) -> bool:
        """Make durable what is known; nothing may be done before that, so a full disk makes the engine wait."""
        self._stop_if_superseded()
        try:
            self._journal.commit()
        except OSError as error:
            why = f"the journal cannot be written: {error.strerror}"
            self._start_nothing_for(_RETRY_DISK_S, why)
            return False
        return True

    def _stop_if_superseded(self) -> None:
        if self._journal.superseded:
            raise Superseded("a newer engine has taken the run up")
        if self._journal.gone:
            raise Superseded("the run directory was moved or removed")

    def _start_nothing_for(self, seconds: float, why: str) -> None:
        self._pause = max(self._pause, (self._clock.elapsed() + seconds, why))
        self._waits(why)

    def _waits(self, why: str) -> None:
        """Say why, once, and show it in the snapshot of this round."""
        if why != self._said:
            self._say(why)
        self._said = self._note = why

    def _nap(self) -> float:
        due = self._scheduler.next_wake()
        until, _ = self._pause
        if (pause := until - self._clock.elapsed()) > 0:
            # Nothing that is ready can start: being awake would only keep the workload manager busy.
            return min(_NAP_S, pause)
        if self.state.freed or self.state.undecided or self._scheduler.more:
            return 0.0
        return _NAP_S if due is None else max(0.0, min(_NAP_S, due - self._clock.now()))

    def _write_snapshot(self, *, last: bool) -> None:
        age = self._clock.elapsed() - self._snapshot_at
        news = self._journal.number != self._snapshot_number
        if not (last or age >= _HEARTBEAT_S or (news and age >= _SNAPSHOT_S)):
            return
        self._stop_if_superseded()
        self._snapshot_at, self._snapshot_number = self._clock.elapsed(), self._journal.number
        try:
            self._journal.flush()
            write_snapshot(self._run, self.snapshot())
        except OSError as error:
            self._waits(f"the snapshot cannot be written: {error.strerror}")

    def snapshot(self) -> Snapshot:
        """Where the run stands."""
        state = self.state
        totals = state.totals()
        overall = run_state(totals, expected=state.size, cancelled=state.cancelled)
        if not state.finished and overall not in (JobState.UNKNOWN, JobState.HELD):
            overall = JobState.RUNNING
        return Snapshot(
            life=self.life.life,
            n=self._journal.number,
            at=self._clock.now(),
            pid=self.life.pid,
            host=self.life.host,
            boot=self.life.boot,
            state=overall,
            counts=totals,
            labels={label: shown_counts(row) for label, row in zip(self._jobs.labels, state.counts, strict=True)},
            finished=state.finished is not None,
            note=self._note,
        )
