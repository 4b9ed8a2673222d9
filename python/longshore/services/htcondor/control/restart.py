"""Plans a restart: which jobs run again, and their requests."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from longshore.contract.service import RestartChanges, RunPaths
from longshore.errors import SubmissionRefusedError
from longshore.jobs.commands import full_command, names_attempt
from longshore.model.event import Ended, Event, Restarted, Steer
from longshore.model.states import Cause
from longshore.model.workflow import MIB, JobSettings, Request
from longshore.rundir.job_table import JobTable
from longshore.rundir.submissions import read_changed_jobs
from longshore.runstate.apply_events import apply_event
from longshore.runstate.change_request import change_request
from longshore.runstate.replay import initial_state
from longshore.runstate.restart_selection import select_for_restart
from longshore.runstate.run_state import OVER, JobCode, RunState
from longshore.runstate.steering import make_set_events
from longshore.services.htcondor.codes import FINAL_NODE
from longshore.services.htcondor.control.interventions import selected_jobs
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.render.submit_description import STARTED
from longshore.services.htcondor.submission.submit_dag import APPEND, DagRestart
from longshore.services.htcondor.submission_record import DagSubmission, newest_folder
from longshore.system.host import user_name

_MACROS: Final[Mapping[str, str]] = {
    "requestCpus": "cpus",
    "requestMemory": "mem",
    "requestDisk": "disk",
    "requestWalltime": "wall",
}
"""Macro of a node per key that may be set."""
_COMMANDS: Final[Mapping[str, str]] = {
    "requestMemory": "request_memory",
    "requestDisk": "request_disk",
    "requestWalltime": "allowed_execute_duration",
}
"""Commands that a submit description has only if the label's first request had the key."""


def plan_restart(
    run: RunPaths,
    events: Iterable[Event],
    changes: RestartChanges,
    phases: JobPhases,
    last: DagSubmission | None = None,
) -> DagRestart:
    """The plan of a restart; `last` is the newest submission so far, which may have another workflow.

    Raises `SubmissionRefusedError` if no job is left to run, or if something cannot be set.
    """
    if unknown := sorted(set(changes.set) - set(_MACROS)):
        raise SubmissionRefusedError(
            f"'{unknown[0]}' cannot be set for jobs on HTCondor: their submit descriptions are written already",
            hint=f"These can: {', '.join(_MACROS)}. Set other keys in the configuration, and restart the run with "
            "--with-changes.",
        )
    jobs = JobTable(run, "parents")
    history = _read_history(jobs, events, phases)
    jobs_to_run, anew = _select_jobs(jobs, history.state, changes)
    void = _void_jobs(run, last)
    jobs_to_run.update(void)
    if not jobs_to_run and not changes.has_new_workflow:
        raise SubmissionRefusedError(f"'{run.root}' has nothing to run again: every job succeeded")
    now = time.time()
    restarted = Restarted(
        jobs=tuple(sorted(jobs_to_run)), set=changes.set, who=user_name(), from_labels=changes.from_labels, t=now
    )
    has_new_dag = last is not None and last.folder != newest_folder(run)
    overrides: dict[int, dict[str, str]] = {}
    steers = _repeat_sets(jobs, history, overrides) if has_new_dag else []
    for job, macros in _memory_overrides(jobs, history.granted_mb, jobs_to_run).items():
        overrides[job] = {**overrides.get(job, {}), **macros}
    for job, macros in _started_overrides(jobs, phases, jobs_to_run).items():
        overrides[job] = {**overrides.get(job, {}), **macros}
    if changes.set:
        selected = jobs_to_run if changes.selection.everything else selected_jobs(run, changes.selection)
        steers += _change_requests(jobs, history, sorted(jobs_to_run.intersection(selected)), changes.set, overrides)
    done = {job for job, code in enumerate(history.state.code) if code == JobCode.SUCCEEDED and job not in jobs_to_run}
    return DagRestart(
        restarted=restarted,
        steers=tuple(msgspec.structs.replace(steer, t=now) for steer in steers),
        done=done - {history.state.final},
        from_first_task=sorted(map(jobs.file_number, {*anew, *void})),
        overrides={
            FINAL_NODE if job == history.state.final else f"j{job}": overrides[job] for job in sorted(overrides)
        },
    )


def _void_jobs(run: RunPaths, last: DagSubmission | None) -> set[int]:
    """Jobs whose results a changed workflow voids that no submission has run yet."""
    return set(chain(*read_changed_jobs(run, after=last.life.s).values())) if last is not None else set()


class _History(NamedTuple):
    """The parts of a run's history that a restart needs."""

    state: RunState
    """State of the run."""
    granted_mb: dict[int, int]
    """Last granted memory, in MiB, of jobs that ran out of memory."""
    requests: dict[int, Request]
    """Requests that earlier interventions changed."""
    sets: dict[int, tuple[str, dict[str, str]]]
    """Author and values of these interventions, the newest of each key."""


def _read_history(jobs: JobTable, events: Iterable[Event], phases: JobPhases) -> _History:
    history = _History(initial_state(jobs), {}, {}, {})
    for event in events:
        apply_event(history.state, event)
        if isinstance(event, Steer) and event.request is not None:
            history.requests.update(dict.fromkeys(event.jobs or (), event.request))
            values = {key: value for key, value in event.set.items() if key in _MACROS}
            for job in event.jobs or ():
                _, before = history.sets.get(job, ("", {}))
                history.sets[job] = event.who, {**before, **values}
        if isinstance(event, Ended):
            if event.cause is Cause.OOM:
                history.granted_mb[event.j] = phases.memory[event.j]
            elif event.cause is None:
                history.granted_mb.pop(event.j, None)
    return history


def _select_jobs(jobs: JobTable, state: RunState, changes: RestartChanges) -> tuple[set[int], list[int]]:
    """The jobs that run again, and those of them that start from their first task."""
    selected = select_for_restart(
        state, {number for number, label in enumerate(jobs.labels) if label in changes.from_labels}
    )
    jobs_to_run = set(selected.jobs) | {job for job, code in enumerate(state.code) if code not in OVER}
    # Jobs that were active when DAGMan ended are gone by now.
    return jobs_to_run, sorted({*selected.restarted_jobs, *selected.active_jobs})


def _change_requests(
    jobs: JobTable,
    history: _History,
    jobs_to_change: Iterable[int],
    values: Mapping[str, str],
    overrides: dict[int, dict[str, str]],
) -> list[Steer]:
    """Add changed requests to the overrides, and return their events."""
    requests = {job: history.requests.get(job, jobs.settings(job).request) for job in jobs_to_change}
    for job, request in requests.items():
        own = overrides.setdefault(job, {})
        for key in values:
            own |= _macro(key, jobs.settings(job), request, change_request(request, values))
    return make_set_events(user_name(), values, requests, select={}, request_of=requests.__getitem__)


def _repeat_sets(jobs: JobTable, history: _History, overrides: dict[int, dict[str, str]]) -> list[Steer]:
    """Add what users set before to the overrides of a new DAG, on top of its own requests; return the events."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, Request]] = {}
    for job, (who, values) in sorted(history.sets.items()):
        settings = jobs.settings(job)
        history.requests[job] = request = change_request(settings.request, values)
        given = [key for key in values if _amount(key, request) is not None]
        macros = [_macro(key, settings, settings.request, request) for key in given]
        overrides[job] = dict(chain(*(each.items() for each in macros)))
        groups.setdefault((who, tuple(sorted(values.items()))), {})[job] = settings.request
    return [
        steer
        for (who, values), requests in groups.items()
        for steer in make_set_events(who, dict(values), requests, select={}, request_of=requests.__getitem__)
    ]


def _macro(key: str, first: JobSettings, before: Request, after: Request) -> dict[str, str]:
    """Macro or command of a node that changes its job's request.

    `first` are the settings of the submit description; `before` and `after` are the last and the new request. Raises
    `SubmissionRefusedError` if a limit in the description would have to be removed.
    """
    value = _amount(key, after)
    if value is None and _amount(key, before) is None:
        return {}
    if value is None:
        raise SubmissionRefusedError(
            f"'{key}' of '{first.label}' cannot be removed: submit descriptions on HTCondor are written already",
            hint=f"Set '{key}' to an amount that is enough for all of them.",
        )
    if _amount(key, first.request) is not None:
        return {_MACROS[key]: str(value)}
    # The description does not use the macro: append the command itself.
    return {f"{APPEND}{_COMMANDS[key]}": f"{value}M" if key == "requestDisk" else str(value)}


def _amount(key: str, request: Request) -> int | None:
    """Requested amount, in HTCondor's unit; ``None`` without a request."""
    return {
        "requestCpus": request.cpus,
        "requestMemory": None if request.memory_b is None else math.ceil(request.memory_b / MIB),
        "requestDisk": None if request.disk_b is None else math.ceil(request.disk_b / MIB),
        "requestWalltime": None if request.walltime_s is None else math.ceil(request.walltime_s),
    }[key]


def _memory_overrides(
    jobs: JobTable, grown: Mapping[int, int], jobs_to_run: Iterable[int]
) -> dict[int, dict[str, str]]:
    """Memory overrides: jobs that ran out of memory start with their last granted memory, not their first request."""
    found: dict[int, dict[str, str]] = {}
    for job in jobs_to_run:
        first_request = jobs.settings(job).request.memory_b
        if first_request is not None and grown.get(job, 0) > math.ceil(first_request / MIB):
            found[job] = {"mem": str(grown[job])}
    return found


def _started_overrides(jobs: JobTable, phases: JobPhases, jobs_to_run: Iterable[int]) -> dict[int, dict[str, str]]:
    """Starts so far of the jobs that run again and use the number of the attempt: HTCondor counts anew."""
    return {
        job: {STARTED: str(phases.attempts[job])}
        for job in jobs_to_run
        if phases.attempts[job] and _uses_attempt(jobs, job)
    }


def _uses_attempt(jobs: JobTable, job: int) -> bool:
    stored, settings = jobs[job], jobs.settings(job)
    texts = (*stored.env.values(), *settings.environment.values())
    return any(map(names_attempt, (full_command(stored.c, settings), *texts)))
