"""Events by which a run takes over the results of another: each such job has an attempt that succeeded elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.model.event import Ended, Event, FileStamp, Submitted, Submitting
from longshore.model.submission import REUSED_BATCH, REUSED_FROM, REUSED_JOBS, ReusedJobs
from longshore.rundir.journal import first_life_of_workflow
from longshore.system.reading import read_file


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
