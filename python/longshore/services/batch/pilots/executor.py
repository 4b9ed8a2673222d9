"""Pilot executor: hands attempts to pilots, and reports what their records tell.

Attempts wait here until a pilot has room. What a pilot gives back waits here again. An attempt is handed to another
pilot only when the first one can certainly not start it any more: see decision 0115.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable
from typing import Final

from longshore.contract.executor import (
    Accepted,
    AttemptId,
    Batch,
    Executor,
    FindResult,
    Limits,
    NewsWait,
    PollResult,
    Rejected,
    SubmitResult,
    WaitReasons,
)
from longshore.contract.service import CancelOutcome, Mark, RunPaths, Unreachable
from longshore.keeper.protocol import run_token
from longshore.model.event import Started
from longshore.model.wording import count_noun
from longshore.rundir.batch_records import life_of_tag
from longshore.rundir.check_records import newest_acceptance
from longshore.rundir.journal import first_life_of_workflow, life_path
from longshore.services.batch.pilots.allocations import AllocationNews, AllocationSource, PilotSettings
from longshore.services.batch.pilots.fleet import Fleet
from longshore.services.batch.pilots.pool import PilotPool, plan_handouts, plan_returns, share_of, wanted_allocations
from longshore.services.batch.pilots.work_queue import MemberEncoder, TooLongError
from longshore.system.processes import processes

_MAX_BATCH: Final = 1000
_MOST_WAITING: Final = 50_000
"""Attempts that are taken before they run, which bounds the memory of the engine."""
_BUSY_S: Final = 0.05
_IDLE_S: Final = 0.5
"""Time between two looks at the records, right after news and without any."""
_SOURCE_S: Final = 0.5
"""Time between two questions to the source of allocations."""
_KILL_AGAIN_S: Final = 5.0
_REASONS_S: Final = 5.0
"""Time between two reports of why attempts wait, unless the reasons change."""


class PilotExecutor(Executor, NewsWait):
    """Runs attempts in pilots.

    Parameters
    ----------
    allocations
        Source of the allocations, in which it starts the pilot program. This executor opens and closes it.
    settings
        Size and number of allocations.
    """

    limits = Limits(max_batch=_MAX_BATCH, max_waiting=_MOST_WAITING)

    def __init__(self, allocations: AllocationSource, settings: PilotSettings) -> None:
        self._source = allocations
        self._settings = settings
        self._run: RunPaths | None = None
        self._life = 0
        self._first_life = 0
        self._accepted = 0
        self._reused: set[AttemptId] = set()
        """Attempts of lives since a loss was accepted, whose numbers may have been given before."""
        self._pool = PilotPool(settings, counts=self._counts)
        self._fleet = Fleet(self._pool, self._source, settings)
        self._encoder: MemberEncoder | None = None
        self._news: AllocationNews | None = None
        self._source_at = -1e9
        self._source_note = ""
        self._kill_at: dict[AttemptId, float] = {}
        """When an attempt that was asked to end is killed, on the monotonic clock."""
        self._late_cancels: dict[AttemptId, float] = {}
        """Attempts to cancel that no pilot is known to have, each with its grace."""
        self._looked_at = -1e9
        self._interval_s = _BUSY_S
        self._has_news = True
        self._idle_since: float | None = None
        """Since when there is no work."""
        self._reasons: tuple[tuple[str, ...], int] = ((), 0)
        self._reasons_at = -1e9
        self._polls = 0

    # ------------------------------------------------------------------------------------------------------- begin

    def open(self, run: RunPaths, life: int) -> None:
        """Get ready for one life: `poll` and `find` read what earlier lives left."""
        self._run, self._life = run, life
        self._first_life = first_life_of_workflow(run)
        self._accepted = newest_acceptance(run) or 0
        self._source.open(run, life)
        self._fleet.open(run)
        self._encoder = MemberEncoder(
            self._settings, self._pool.queue, root=str(run.root), token=run_token(run), life=life
        )

    @property
    def _open_encoder(self) -> MemberEncoder:
        if self._encoder is None:
            raise RuntimeError("the executor is not open")
        return self._encoder

    def _counts(self, tag: str, attempt: AttemptId) -> bool:
        """Return whether records of a batch are about an attempt that still has its number."""
        life = life_of_tag(tag) or self._life
        return life >= self._first_life and (life >= self._accepted or attempt not in self._reused)

    # ------------------------------------------------------------------------------------------------------ submit

    def submit(self, batch: Batch) -> SubmitResult:
        """Take a batch into the queue."""
        settings, request = self._settings, batch.request
        encoder = self._open_encoder
        if self._news is not None and self._news.refused and not self._fleet.has_live():
            return Rejected(f"no allocation for pilots: {self._news.refused}", hopeless=True)
        try:
            members = encoder.encode(batch)
        except TooLongError as error:
            return Rejected(str(error), hopeless=True)
        for member in members:
            kind = self._pool.queue.kind(member.kind)
            if share_of(kind, settings.cpus, settings.memory_b) > 1.0:
                size = f"{settings.cpus} cpus and {settings.memory_b >> 20} MiB"
                return Rejected(f"the request is larger than a pilot's {size}", hopeless=True)
        if request.walltime_s is not None and request.walltime_s > settings.walltime_s:
            return Rejected(f"the run time is longer than a pilot's {settings.walltime_s:.0f} s", hopeless=True)
        if self._accepted:
            self._reused.update(member.attempt for member in members)
        self._pool.queue.add(members)
        self._has_news = True
        return Accepted(batch.tag)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Return which members wait here or reached a pilot, once all pilots of earlier lives told what they took."""
        wanted = set(tags)
        self._look()
        if self._news is None:
            return Unreachable(why=self._source_note or "the allocations of this run are not known yet")
        if unknown := self._fleet.unanswered():
            return Unreachable(
                why=f"{count_noun(len(unknown), 'pilot')} did not tell yet what an earlier engine ordered"
            )
        lost = frozenset(wanted) if self._fleet.is_damaged else frozenset()
        return FindResult(
            self._pool.find(wanted), lost=frozenset(tag for tag in lost if life_of_tag(tag) != self._life)
        )

    # -------------------------------------------------------------------------------------------------------- poll

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return what the records of pilots told since the last call, and hand out what waits."""
        self._open_encoder  # noqa: B018 - it must be open
        self._polls += 1
        self._look()
        news = self._pool.collect()
        self._fleet.drop_settled()
        for pilot_id in news.failed:
            self._fleet.pilots[pilot_id].rest(processes.monotonic())
        ended = [(event.j, event.a) for event in news.events if not isinstance(event, Started)]
        for attempt in (*ended, *news.never_started):
            self._kill_at.pop(attempt, None)
        self._dispatch()
        if news.events or news.never_started:
            self._has_news = True
        failures = [f"a pilot cannot start jobs: {why}" for why in sorted(set(news.failed.values()))[:1]]
        notes = [self._source_note, self._fleet.note, *failures]
        return PollResult(
            events=news.events,
            never_started=news.never_started,
            mark=str(self._polls),
            note="; ".join(filter(None, notes)),
            waiting=self._wait_reasons(),
        )

    def _look(self) -> bool:
        """Ask the source, and read the records of pilots; return whether anything is new."""
        now = processes.monotonic()
        self._looked_at = now
        if now - self._source_at >= _SOURCE_S:
            self._source_at = now
            answer = self._source.poll()
            if isinstance(answer, Unreachable):
                self._source_note = f"the allocations cannot be followed: {answer.why}"
            else:
                self._news, self._source_note = answer, answer.note
                self._fleet.update(answer, now)
        is_new = self._fleet.look(now)
        self._interval_s = _BUSY_S if is_new else min(_IDLE_S, self._interval_s * 1.5)
        return is_new

    def wait(self, timeout_s: float) -> None:
        """Wait until a record tells something new."""
        until = processes.monotonic() + timeout_s
        if self._has_news:
            # What was submitted or came back is handed out by the next poll.
            self._has_news = False
            until = min(until, processes.monotonic() + _BUSY_S)
        while (now := processes.monotonic()) < until:
            due_s = self._looked_at + self._interval_s - now
            if due_s <= 0.0:
                if self._look():
                    return
                continue
            processes.sleep(min(until - now, due_s))

    # ---------------------------------------------------------------------------------------------------- dispatch

    def _dispatch(self) -> None:
        """Hand out work, move it from pilots that are silent, and ask for allocations."""
        now = processes.monotonic()
        if self._fleet.is_superseded or self._has_successor():
            # Another engine gives the orders.
            return
        self._cancel_late()
        self._kill_overdue(now)
        self._fleet.settle_silent(now)
        views = self._fleet.views(now)
        work = self._pool.waiting_work()
        for handout in plan_handouts(work, views):
            members = self._pool.queue.take(handout.kind, handout.count)
            kind = self._pool.queue.kind(handout.kind)
            self._pool.hand(handout.pilot, members)
            self._fleet.pilots[handout.pilot].hand(members, kind, handout.kind, self._open_encoder.environments)
        if not len(self._pool.queue):
            for pilot_id, count in plan_returns(views):
                self._fleet.pilots[pilot_id].ask_back(count)
        self._fleet.flush(now)
        self._follow_demand(now)

    def _has_successor(self) -> bool:
        assert self._run is not None
        try:
            return life_path(self._run.journal, self._life + 1).exists()
        except OSError:
            return True

    def _follow_demand(self, now: float) -> None:
        """Ask for as many allocations as the work is worth, and cancel those that wait for none."""
        if self._news is None:
            return
        load, work_s = self._pool.unfinished_work(self._fleet.views(now, all_live=True))
        if load > 0.0:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        if self._news.refused and not self._fleet.has_live():
            # As with jobs of their own, the refusal is the answer to a submission.
            self._pool.give_up_queue()
        elif self._idle_since is None:
            wanted = wanted_allocations(self._settings, load, work_s)
            missing = wanted - self._fleet.useful_allocations(self._pool.waiting_work(), now)
            self._fleet.request(missing)
        elif now - self._idle_since >= self._settings.idle_s:
            self._fleet.cancel_pending()

    # ------------------------------------------------------------------------------------------------------ cancel

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        """End attempts: those that wait are given back, those that run get TERM, and KILL after the grace."""
        wanted = set(attempts) - self._kill_at.keys()
        ended = self._terminate(wanted, grace_s)
        if self._news is None or self._fleet.unanswered():
            # A pilot may have taken them by orders of an earlier life, and not have told.
            self._late_cancels |= dict.fromkeys(wanted - ended, grace_s)
        self._has_news = True
        self._fleet.flush(processes.monotonic())
        return CancelOutcome(ended=len(ended))

    def _terminate(self, wanted: Collection[AttemptId], grace_s: float) -> set[AttemptId]:
        """Cancel attempts; return those that were there."""
        queue = self._pool.queue
        ended = {attempt for attempt in wanted if attempt in queue}
        now = processes.monotonic()
        for pilot_id, live in self._pool.cancel(wanted).items():
            self._fleet.pilots[pilot_id].kill(live, signal.SIGTERM)
            self._kill_at |= dict.fromkeys(live, now + grace_s)
            ended.update(live)
        return ended

    def _cancel_late(self) -> None:
        """Cancel attempts that pilots had taken by orders of an earlier life, as soon as they tell."""
        if not self._late_cancels:
            return
        is_settled = self._news is not None and not self._fleet.unanswered()
        for grace_s in set(self._late_cancels.values()):
            wanted = {attempt for attempt, each in self._late_cancels.items() if each == grace_s}
            for attempt in self._terminate(wanted, grace_s):
                del self._late_cancels[attempt]
        if is_settled:
            self._late_cancels.clear()

    def _kill_overdue(self, now: float) -> None:
        overdue = {attempt for attempt, due in self._kill_at.items() if due <= now}
        for pilot_id, live in self._pool.cancel(overdue).items() if overdue else ():
            self._fleet.pilots[pilot_id].kill(live, signal.SIGKILL)
        for attempt in overdue:
            # A process in uninterruptible sleep does not die at once.
            self._kill_at[attempt] = now + _KILL_AGAIN_S

    def _wait_reasons(self) -> WaitReasons | None:
        """Return why attempts wait, if that has changed: their allocations do."""
        news, now = self._news, processes.monotonic()
        is_waiting = news is not None and not self._fleet.has_begun() and len(self._pool.queue)
        reasons = tuple(sorted(news.waiting)) if news is not None and is_waiting else ()
        key = (reasons, self._pool.queue.version if reasons else 0)
        if key == self._reasons or (reasons == self._reasons[0] and now - self._reasons_at < _REASONS_S):
            return None
        self._reasons, self._reasons_at = key, now
        jobs = tuple(sorted({member.attempt[0] for member in self._pool.queue.members()})) if reasons else ()
        return WaitReasons(reasons={f"its pilot waits: {reason}": jobs for reason in reasons})

    def close(self) -> None:
        """End the pilots if no work is left, and release the resources of this life."""
        if self._encoder is None:
            return
        if not self._pool.has_work() and not self._fleet.is_superseded and not self._has_successor():
            # It may have allocations that were requested just now.
            self._source_at = -1e9
            self._look()
            self._fleet.end_all()
        self._source.close()
