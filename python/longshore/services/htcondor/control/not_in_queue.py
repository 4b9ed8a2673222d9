"""Turns the jobs that somebody means into the number of those that no order reaches: DAGMan is yet to submit them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from longshore.contract.context import RunPaths
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import replay
from longshore.engine.state.job_codes import Code
from longshore.errors import LongshoreError
from longshore.services.htcondor.events.event_source import Reading
from longshore.services.htcondor.submissions import read_book

_TO_COME: Final = (Code.UNREADY, Code.READY, Code.UNDECIDED)
_IN_QUEUE: Final = (Code.PENDING, Code.RUNNING, Code.HELD)


def told(run: RunPaths, meant: Collection[int], act: str) -> tuple[str, ...]:
    """What to say of those that an order did not reach; nothing where it reached all.

    Parameters
    ----------
    run
        The run directory.
    meant
        Numbers of the jobs that are meant.
    act
        What was ordered, such as ``hold``.
    """
    try:
        count = len(to_come(run, meant))
    except (LongshoreError, OSError) as error:
        return (f"whether DAGMan is yet to submit some of these jobs cannot be told: {error}",)
    if not count:
        return ()
    those = "1 of these jobs is" if count == 1 else f"{count} of these jobs are"
    it = "it" if count == 1 else "them"
    way = "pause the whole run" if act == "hold" else f"{act} the whole run"
    return (f"{those} not in HTCondor's queue yet, and DAGMan will submit {it}: {act} {it} once there, or {way}",)


def to_come(run: RunPaths, meant: Collection[int]) -> set[int]:
    """Those that DAGMan is yet to submit, but for what descends from others that were reached.

    Parameters
    ----------
    run
        The run directory.
    meant
        Numbers of the jobs that are meant.

    Raises
    ------
    RunUnreadableError
        What happened cannot be read.
    """
    jobs = JobTable(run, "parents")
    # Whoever gives an order has seen that the run is in the queue.
    state = replay(jobs, Reading(run, read_book(run), lambda: False).events()[0])
    code, wanted = state.code, set(meant)
    # That they are gone may not be in the log yet.
    reached = {job for job in wanted if code[job] in _IN_QUEUE}
    left = set()
    for job, parents in enumerate(jobs.parents):
        if job in reached or code[job] not in _TO_COME:
            continue
        if job != state.final and any(parent in reached for parent in parents):
            reached.add(job)
        elif job in wanted:
            left.add(job)
    return left
