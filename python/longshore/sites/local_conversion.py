"""Converts what jobs ask of another workload manager to requests of this machine, as well as that goes (pure).

What this machine does not have is left out, and what exceeds it is lowered. Such jobs run one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from longshore.model.workflow.allocation import WHOLE_NODE_B, Allocation
from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import MIB, Request

SINGLE: Final = "longshore-single"
"""Concurrency limit of converted jobs that run one at a time; its amount is 1."""
_ALIASES: Final = {"gpu": "gpus"}
"""Names of resources of other workload managers that have another name here."""
_QUEUE: Final = "queue"


def convert_to_local(
    settings: JobSettings, asked: Sequence[Allocation], capacity: Mapping[str, int]
) -> tuple[JobSettings, list[str]]:
    """Return the settings with a request that this machine can grant, and why jobs run one at a time."""
    alone: list[str] = []
    cpus = _within("cpus", sum(each.tasks * each.cpus_per_task for each in asked), capacity, alone)
    memory_b = _within("memory", _sum_over_nodes([each.memory_b for each in asked], asked), capacity, alone)
    disk_b = _within("disk", _sum_over_nodes([each.disk_b for each in asked], asked), capacity, alone)
    wanted: Counter[str] = Counter()
    for each in asked:
        for name, amount in each.resources.items():
            wanted[_ALIASES.get(name, name) if name not in capacity else name] += amount * (each.nodes or 1)
    resources: dict[str, int] = {}
    for name, amount in wanted.items():
        if not amount:
            continue
        if name not in capacity:
            alone.append(f"'{name}' is not a resource here")
        else:
            resources[name] = _within(name, amount, capacity, alone) or 0
    partitions = {name for each in asked for name in each.partitions} | {str(settings.attributes.get(_QUEUE) or "")}
    if named := sorted(partitions - {""}):
        alone.append(f"the partition '{named[0]}' has no counterpart")
    if any(each.features for each in asked):
        alone.append("features of nodes have no counterpart")
    request = Request(
        cpus=cpus or 1,
        memory_b=memory_b,
        disk_b=disk_b,
        walltime_s=settings.request.walltime_s,
        resources=resources,
    )
    attributes = {name: value for name, value in settings.attributes.items() if name != _QUEUE}
    if alone:
        limits = [str(attributes[key]) for key in ("concurrencyLimit",) if attributes.get(key)]
        attributes["concurrencyLimit"] = ",".join([*limits, SINGLE])
    return msgspec.structs.replace(settings, request=request, attributes=attributes, defaulted=()), alone


def _sum_over_nodes(amounts: Sequence[int | None], asked: Sequence[Allocation]) -> int | None:
    """Return an amount on all nodes of all components; ``None`` if none asks for it."""
    given = [amount * (each.nodes or 1) for amount, each in zip(amounts, asked, strict=True) if amount is not None]
    return min(sum(given), WHOLE_NODE_B) if given else None


def _within(name: str, amount: int | None, capacity: Mapping[str, int], alone: list[str]) -> int | None:
    """Return an amount, limited to the capacity where the resource is counted."""
    there = capacity.get(name)
    if amount is None or there is None or amount <= there:
        return None if amount == WHOLE_NODE_B and there is None else amount
    unit, suffix = (MIB, " MiB") if name in {"memory", "disk"} else (1, "")
    asked = "all" if amount == WHOLE_NODE_B else f"{amount // unit}{suffix}"
    alone.append(f"'{name}' is {asked}, and this machine has {there // unit}{suffix}")
    return there
