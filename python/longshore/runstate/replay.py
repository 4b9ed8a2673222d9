"""State of a run by its events, with reused results and damage; apart from the state because it reads files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import BriefEvent, Ended, Event, FileStamp, Submitted, Submitting
from longshore.model.submission import REUSED_BATCH, REUSED_FROM, REUSED_JOBS, ReusedJobs
from longshore.model.tasks import Adjacency
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import first_life_of_workflow
from longshore.rundir.journal_damage import JournalSurvey
from longshore.runstate.apply_events import apply_events
from longshore.runstate.run_state import OVER, JobCode, RunState
from longshore.system.reading import read_file


def initial_state(jobs: JobTable, part: Collection[int] | None = None) -> RunState:
    """Return the state of a run before its first event.

    With `part`, the state holds for those jobs and all their ancestors; for other jobs it is meaningless.
    """
    if part is None or len(part) == len(jobs):
        return RunState(jobs.parents, jobs.label_of, final=jobs.header.final, barriers=jobs.barriers)
    members = frozenset(part)
    parents = Adjacency([row if job in members else () for job, row in enumerate(jobs.parents)])
    # All jobs before a barrier are ancestors of the jobs behind it.
    barriers = [barrier for barrier in jobs.barriers if not members.isdisjoint(barrier.before)]
    return RunState(parents, jobs.label_of, barriers=barriers)


def replay(jobs: JobTable, events: Iterable[BriefEvent], part: Collection[int] | None = None) -> RunState:
    """Return the state of a run after events, from the first one on; `part` as for `initial_state`."""
    state = initial_state(jobs, part)
    apply_events(state, events)
    return state


def find_unknown_jobs(state: RunState, survey: JournalSurvey) -> frozenset[int]:
    """Return the jobs whose state is not known, after a replay of the intact part.

    A job that was over keeps its state, unless a later event names it or the lost part may have restarted it.
    """
    if survey.may_restart:
        return frozenset(range(state.size))
    named = {job for event in survey.later for job in _jobs_of(event) if 0 <= job < state.size}
    return frozenset(named | {job for job, code in enumerate(state.code) if code not in OVER})


def _jobs_of(event: Event) -> Iterator[int]:
    job: int | None = getattr(event, "j", None)
    if job is not None:
        yield job
    jobs: Collection[int | tuple[int, int]] = getattr(event, "jobs", None) or ()
    for each in jobs:
        yield each if isinstance(each, int) else each[0]


# Events by which a run takes over the results of another: each such job has an attempt that succeeded elsewhere.


def make_reuse_events(run: RunPaths, state: RunState, *, tag: str) -> Iterator[Event]:
    """Yield the events that are missing so far; `tag` is the prefix of this life's batches.

    An engine may die after any of them, so the next one yields the rest. Raises `RunUnreadableError` if the record of
    the results cannot be read.
    """
    record = read_reused_jobs(run)
    # With a changed workflow the events are in the journal, and jobs have other numbers.
    if record is None or first_life_of_workflow(run):
        return
    new = [
        job for job in record.jobs if state.code[job] in (JobCode.UNREADY, JobCode.READY) and not state.attempts[job]
    ]
    begun = [job for job, batch in state.active.items() if batch == REUSED_BATCH]
    yield from list_reuse_events(record.run, new, begun, stamps=record.stamps, tag=f"{tag}-0")


def list_reuse_events(
    earlier_run: str,
    new: Sequence[int],
    begun: Sequence[int] = (),
    *,
    stamps: Mapping[int, tuple[FileStamp, ...]],
    tag: str,
    t: float = 0.0,
) -> Iterator[Event]:
    """Yield the events of jobs that take over results of an earlier run, at a time `t`.

    The attempts of jobs in `begun` are submitted already. `stamps` are those of the outputs, by job.
    """
    if new:
        yield Submitting(b=REUSED_BATCH, tag=tag, jobs=tuple((job, 1) for job in new), t=t)
    if new or begun:
        yield Submitted(b=REUSED_BATCH, id=earlier_run, t=t)
    for job in sorted({*new, *begun}):
        why = f"kept from run '{earlier_run}'"
        extra = {REUSED_FROM: earlier_run}
        yield Ended(j=job, a=1, exit=0, reason=why, stamps=stamps.get(job, ()), extra=extra, t=t)


def read_reused_jobs(run: RunPaths) -> ReusedJobs | None:
    """Return the record of the results that a run begins with; ``None`` without any.

    Raises `RunUnreadableError` if it cannot be read.
    """
    path = run.root / REUSED_JOBS
    try:
        return msgspec.json.decode(read_file(path), type=ReusedJobs)
    except FileNotFoundError:
        return None
    except (OSError, *DECODE_ERRORS) as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error
