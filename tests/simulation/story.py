"""Stories: histories as people read them, without the calls that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from tests.simulation.history import Outcome

_ROUTINE: Final = ("wait ", "open ", "stat ", "read ", "lock ", "sync ", "rename ", "act poll", "act find")
_BEGIN_S: Final = 100.0


def tell(outcome: Outcome, *, every_call: bool = False) -> str:
    """Return the story of a history: its plan, what happened, and the promises that were broken."""
    return "\n".join([*_plan(outcome), "", *_happenings(outcome, every_call=every_call), "", *_end(outcome)])


def _plan(outcome: Outcome) -> Iterator[str]:
    plan = outcome.plan
    yield f"Seed {plan.seed}, {plan.world}: {len(plan.jobs)} jobs{' and a final one' if plan.final else ''}"
    for number, job in enumerate(plan.jobs):
        courses = ", ".join(_fields(each) for each in job.attempts)
        after = f" after {', '.join(map(str, job.parents))}" if job.parents else ""
        yield f"  job {job.label}_{number}{after}: {courses}"
    for fault in plan.faults:
        yield f"  fault: {_fields(fault)}"
    if plan.damage:
        yield f"  damage: {_fields(plan.damage)}"
    for order in plan.orders:
        yield f"  order: {_fields(order)}"


def _fields(record: msgspec.Struct) -> str:
    fields = msgspec.to_builtins(record)
    return " ".join(f"{name}={value}" for name, value in fields.items()) or "succeeds"


def _happenings(outcome: Outcome, *, every_call: bool) -> Iterator[str]:
    for at, process, what in outcome.trace:
        if every_call or not what.startswith(_ROUTINE):
            yield f"{at - _BEGIN_S:10.4f} {process:<22} {what}"


def _end(outcome: Outcome) -> Iterator[str]:
    yield "All promises were kept." if not outcome.broken else "Broken:"
    yield from (f"  {each}" for each in outcome.broken)
