"""Turns a workflow into what HTCondor, or this pool of it, cannot do for it; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from longshore.contract.context import Context, Problem
from longshore.model.request import MIB

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory", "disk": "requestDisk", "gpus": "requestGpus"}


def check(workflow: Workflow, ctx: Context) -> list[Problem]:
    """What cannot be done as asked."""
    return list(_too_large(workflow, (ctx.probe.capacity if ctx.probe else None) or {}))


def _too_large(workflow: Workflow, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Requests that no machine can hold: HTCondor would let them wait for ever."""
    judged: set[int] = set()
    for job in workflow:
        # Jobs of one profile share their settings and so their fate.
        if id(job.settings) in judged:
            continue
        judged.add(id(job.settings))
        for name, amount in job.settings.request.amounts().items():
            if name in _KEYS and amount > capacity.get(name, amount):
                asked, there = (
                    (f"{number / MIB:.0f} MiB" if name in {"memory", "disk"} else str(number))
                    for number in (amount, capacity[name])
                )
                yield Problem(
                    message=f"job '{job.name}' asks for {asked} of '{name}', and the largest machine has {there}",
                    job=job.name,
                    key=_KEYS[name],
                    hint="Ask for less, or choose another site.",
                )
