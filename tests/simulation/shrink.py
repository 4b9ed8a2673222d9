"""Shrinker: makes the plan of a failing history smaller while the same promise is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace
from tests.simulation.history import Outcome, run_history
from tests.simulation.plan import AttemptPlan, Fault, JobPlan, Plan

MOST_TRIES: Final = 600
"""Histories that one shrinking may take."""


def kinds_of(outcome: Outcome) -> frozenset[str]:
    """Return the broken promises without names and numbers, by which two failures are alike."""
    return frozenset(re.sub(r"'[^']*'|[\d.]+", "*", each) for each in outcome.broken)


def shrink(outcome: Outcome, *, tries: int = MOST_TRIES) -> Outcome:
    """Return the smallest history found that breaks one of the same promises."""
    wanted = kinds_of(outcome)
    best = outcome
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for plan in _smaller(best.plan):
            left -= 1
            if left <= 0:
                break
            candidate = run_history(plan)
            if kinds_of(candidate) & wanted:
                best, progress = candidate, True
                break
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans that are simpler by one thing, the greatest simplifications first."""
    for number in range(len(plan.faults)):
        yield replace(plan, faults=_without(plan.faults, number))
    for number in range(len(plan.orders)):
        yield replace(plan, orders=_without(plan.orders, number))
    for number in range(len(plan.jobs) - 1, -1, -1):
        if len(plan.jobs) > 1:
            yield _without_job(plan, number)
    if plan.damage:
        yield replace(plan, damage=None)
    settings = {"final": False, "prepares": False, "replies": plan.replies[:-1], "shuffles": False, "max_batch": 1}
    for name, value in settings.items():
        if value != getattr(plan, name):
            yield replace(plan, **{name: value})
    yield from _with_simpler_parts(plan)


def _with_simpler_parts(plan: Plan) -> Iterator[Plan]:
    for number, job in enumerate(plan.jobs):
        for simpler in _simpler_jobs(job):
            yield replace(plan, jobs=(*plan.jobs[:number], simpler, *plan.jobs[number + 1 :]))
    for number, fault in enumerate(plan.faults):
        for each in _simpler_faults(fault):
            yield replace(plan, faults=(*plan.faults[:number], each, *plan.faults[number + 1 :]))


def _simpler_faults(fault: Fault) -> Iterator[Fault]:
    earlier = [replace(fault, after=each) for each in (0, fault.after // 2, fault.after - 1) if each >= 0]
    for each in (*earlier, replace(fault, op="any"), replace(fault, at="any")):
        if each != fault and each.after <= fault.after:
            yield each


def _simpler_jobs(job: JobPlan) -> Iterator[JobPlan]:
    if len(job.attempts) > 1:
        yield replace(job, attempts=job.attempts[:1])
    if job.attempts != (AttemptPlan(),):
        yield replace(job, attempts=(AttemptPlan(),))
    for parent in job.parents:
        yield replace(job, parents=tuple(each for each in job.parents if each != parent))


def _without(items: tuple[object, ...], number: int) -> tuple[object, ...]:
    return (*items[:number], *items[number + 1 :])


def _without_job(plan: Plan, number: int) -> Plan:
    def shift(job: int) -> int:
        return job - (job > number)

    jobs = [
        replace(job, parents=tuple(shift(parent) for parent in job.parents if parent != number))
        for index, job in enumerate(plan.jobs)
        if index != number
    ]
    orders = [replace(order, jobs=tuple(shift(job) for job in order.jobs if job != number)) for order in plan.orders]
    return replace(plan, jobs=tuple(jobs), orders=tuple(orders))
