"""Turns an order that somebody left into the events that carry it out; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from longshore.engine.rundir.interventions import Order
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.state.job_codes import OVER
from longshore.engine.state.run_state import RunState
from longshore.engine.state.steering import set_events
from longshore.model.run.event import Deleted, Event, Restarted, Steer
from longshore.model.workflow.request import Request


def events_of(
    order: Order, jobs: JobTable, state: RunState, *, request_of: Callable[[int], Request]
) -> Sequence[Steer | Deleted]:
    """The events of an order, the first of which says who gave it.

    Parameters
    ----------
    order
        The order; nothing selected means the whole run.
    jobs
        The jobs of the run.
    state
        Where they stand.
    request_of
        What a job asks for that somebody else has set, else at its first attempt.
    """
    select = {name: words for name, words in (("jobs", order.jobs), ("labels", order.labels)) if words}
    throttles = order.act == "throttle"
    chosen = None if throttles or not select else tuple(jobs.select(names=order.jobs, labels=order.labels))
    if order.act == "set":
        meant = range(len(jobs)) if chosen is None else chosen
        left = [job for job in meant if state.code[job] not in OVER]
        return set_events(order.who, order.set, left, select=select, request_of=request_of)
    if order.act == "cancel":
        said = Steer(who=order.who, act=order.act, select=select, set=order.set)
        return [said] if chosen is None else [said, Deleted(jobs=chosen)]
    labels = tuple(jobs.labels.index(label) for label in order.labels if label in jobs.labels)
    if throttles and order.labels and not labels:
        # A label that is none must not come to mean the whole run.
        return []
    throttled = labels if throttles else ()
    return [Steer(who=order.who, act=order.act, select=select, set=order.set, jobs=chosen, labels=throttled)]


def restarted(order: Order, jobs: Iterable[int]) -> Restarted:
    """The event of a restart.

    Parameters
    ----------
    order
        The order.
    jobs
        The jobs that run again.
    """
    # What is set of some only is told of these alone, by events of its own.
    values = {} if order.jobs or order.labels else order.set
    return Restarted(jobs=tuple(jobs), set=values, who=order.who, from_labels=order.from_labels)


def described(event: Event) -> str:
    """An order in words, for the engine's log; empty for what follows from it."""
    if not isinstance(event, Steer):
        return ""
    named = " ".join(f"{kind[:-1]} {' '.join(words)}" for kind, words in event.select.items())
    values = " ".join(f"{key}={value}" for key, value in event.set.items())
    return f"{event.who} orders: {' '.join(filter(None, (event.act, values, named or 'the whole run')))}"
