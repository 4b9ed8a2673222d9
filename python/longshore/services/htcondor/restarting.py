"""Turns what became of a run, and what is to be different, into what a restart runs and what its jobs ask for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from longshore.contract.context import RunPaths
from longshore.contract.service import Changes
from longshore.engine.again import choose
from longshore.engine.changes import changed
from longshore.engine.codes import OVER, Code
from longshore.engine.fold import RunState
from longshore.engine.jobs import JobTable
from longshore.engine.steering import set_events
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Ended, Event, Restarted, Steer
from longshore.model.request import MIB, Request
from longshore.model.state import Cause
from longshore.services.htcondor.handing import Again
from longshore.services.htcondor.orders import chosen_jobs
from longshore.services.htcondor.standing import Standing
from longshore.world.host import user_name

_MACROS: Final[Mapping[str, str]] = {
    "requestCpus": "cpus",
    "requestMemory": "mem",
    "requestDisk": "disk",
    "requestWalltime": "wall",
}
"""Macros of a node by the key that sets them."""


def what_again(run: RunPaths, events: Iterable[Event], changes: Changes, standing: Standing) -> Again:
    """What a restart does.

    Parameters
    ----------
    run
        The run directory.
    events
        All that happened.
    changes
        What is to be different.
    standing
        Where the jobs stand.

    Raises
    ------
    SubmissionRefusedError
        There is nothing to run again, or something that cannot be set.
    """
    if unknown := sorted(set(changes.set) - set(_MACROS)):
        raise SubmissionRefusedError(
            f"'{unknown[0]}' cannot be set of jobs of HTCondor's: their descriptions are written",
            hint=f"These can: {', '.join(_MACROS)}.",
        )
    jobs = JobTable(run)
    jobs.close()
    state = RunState(jobs.parents, jobs.label_of, final=jobs.header.final, barriers=jobs.barriers)
    grown: dict[int, int] = {}
    earlier: dict[int, Request] = {}
    for event in events:
        state.apply(event)
        if isinstance(event, Steer) and event.request is not None:
            earlier |= dict.fromkeys(event.jobs or (), event.request)
        if isinstance(event, Ended):
            if event.cause is Cause.OOM:
                grown[event.j] = standing.memory[event.j]
            elif event.cause is None:
                grown.pop(event.j, None)
    labels = {number for number, label in enumerate(jobs.labels) if label in changes.from_labels}
    again = set(choose(state, labels).jobs) | {job for job, code in enumerate(state.code) if code not in OVER}
    if not again:
        raise SubmissionRefusedError(f"'{run.root}' has nothing to run again: every job succeeded")
    now = time.time()
    overrides = _kept_memory(jobs, grown, again)
    steers: tuple[Steer, ...] = ()
    if changes.set:
        meant = sorted(again if changes.selection.everything else again & set(chosen_jobs(run, changes.selection)))
        requests = {job: jobs.settings(job).request for job in meant} | {
            job: earlier[job] for job in meant if job in earlier
        }
        said = set_events(user_name(), changes.set, meant, select={}, request_of=requests.__getitem__)
        steers = tuple(msgspec.structs.replace(steer, t=now) for steer in said)
        for job in meant:
            overrides.setdefault(job, {}).update(_macros(changed(requests[job], changes.set), changes.set))
    restarted = Restarted(
        jobs=tuple(sorted(again)), set=changes.set, who=user_name(), from_labels=changes.from_labels, t=now
    )
    done = {job for job, code in enumerate(state.code) if code == Code.SUCCEEDED and job not in again}
    return Again(restarted=restarted, steers=steers, done=done - {state.final}, overrides=overrides)


def _kept_memory(jobs: JobTable, grown: Mapping[int, int], again: Iterable[int]) -> dict[int, dict[str, str]]:
    """Jobs that ran out of memory begin with what they were given last, and not with what they asked for at first."""
    found: dict[int, dict[str, str]] = {}
    for job in again:
        asked = jobs.settings(job).request.memory_b
        if asked is not None and grown.get(job, 0) > math.ceil(asked / MIB):
            found[job] = {"mem": str(grown[job])}
    return found


def _macros(request: Request, said: Mapping[str, str]) -> dict[str, str]:
    values = {
        "requestCpus": request.cpus,
        "requestMemory": None if request.memory_b is None else math.ceil(request.memory_b / MIB),
        "requestDisk": None if request.disk_b is None else math.ceil(request.disk_b / MIB),
        "requestWalltime": None if request.walltime_s is None else math.ceil(request.walltime_s),
    }
    return {_MACROS[key]: str(values[key]) for key in said if values[key] is not None}
