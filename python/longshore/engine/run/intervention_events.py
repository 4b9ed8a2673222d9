"""Converts interventions of users into events that carry them out; apart because the loop only decides when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from longshore.model.event import Deleted, Event, Restarted, Steer
from longshore.model.workflow import Request
from longshore.rundir.interventions import InterventionRecord
from longshore.rundir.job_table import JobTable
from longshore.runstate.run_state import OVER, RunState
from longshore.runstate.steering import make_set_events


def make_intervention_events(
    record: InterventionRecord, jobs: JobTable, state: RunState, *, request_of: Callable[[int], Request]
) -> Sequence[Steer | Deleted]:
    """Return the events of an intervention; the first names the user.

    `request_of` gives the request that an earlier intervention set for a job, else that of its first attempt.
    """
    select = {name: names for name, names in (("jobs", record.jobs), ("labels", record.labels)) if names}
    throttles = record.act == "throttle"
    chosen = None if throttles or not select else tuple(jobs.select(names=record.jobs, labels=record.labels))
    if record.act == "set":
        selected = range(len(jobs)) if chosen is None else chosen
        open_jobs = [job for job in selected if state.code[job] not in OVER]
        return make_set_events(record.who, record.set, open_jobs, select=select, request_of=request_of)
    if record.act == "cancel":
        steer_event = Steer(who=record.who, act=record.act, select=select, set=record.set)
        return [steer_event] if chosen is None else [steer_event, Deleted(jobs=chosen)]
    labels = tuple(jobs.labels.index(label) for label in record.labels if label in jobs.labels)
    if throttles and record.labels and not labels:
        # A throttle of unknown labels must not come to mean the whole run.
        return []
    throttled = labels if throttles else ()
    return [Steer(who=record.who, act=record.act, select=select, set=record.set, jobs=chosen, labels=throttled)]


def mark_order(events: Sequence[Steer | Deleted], order: str) -> Sequence[Steer | Deleted]:
    """Return the events of an order, the last with the name of its file: with that event, all of them are written."""
    return [*events[:-1], *(structs.replace(event, order=order) for event in events[-1:])]


def make_restart_event(record: InterventionRecord, jobs: Iterable[int], *, order: str) -> Restarted:
    """Return the event of a restart that runs these jobs again; `order` is the name of its file."""
    # Values set for some jobs only have events of their own, for these jobs alone.
    values = {} if record.jobs or record.labels else record.set
    return Restarted(jobs=tuple(jobs), set=values, who=record.who, from_labels=record.from_labels, order=order)


def describe_intervention(event: Event) -> str:
    """Describe an intervention for the engine's log; empty for an event that only follows from one."""
    if not isinstance(event, Steer):
        return ""
    selection = " ".join(f"{kind[:-1]} {' '.join(names)}" for kind, names in event.select.items())
    values = " ".join(f"{key}={value}" for key, value in event.set.items())
    return f"{event.who} orders: {' '.join(filter(None, (event.act, values, selection or 'the whole run')))}"
