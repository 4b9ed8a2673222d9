"""Compares the rows and limits of a site's profile with what its cluster has (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from longshore.config.values.quantities import format_walltime, parse_memory, parse_walltime
from longshore.contract.inventory import Inventory, NodeGroup, PartitionState
from longshore.model.workflow.request import MIB
from longshore.sites.limits import SiteLimits
from longshore.sites.partitions import PartitionRow
from longshore.sites.unmet_requests import unknown_name


class RowProblem(NamedTuple):
    """Row of ``partitions``, by its index, that promises more than the cluster has."""

    row: int
    message: str
    hint: str


def find_row_problems(rows: Sequence[PartitionRow], inventory: Inventory) -> Iterator[RowProblem]:
    """Find amounts in rows that the partition does not have; a partition that is not there has no amounts."""
    partitions = {each.name: each for each in inventory.partitions or ()}
    for index, row in enumerate(rows):
        if (partition := partitions.get(row["name"])) is None:
            continue
        nodes = [each for each in inventory.nodes or () if each.partition in ("", partition.name)]
        for what, hint in _row_excesses(row, partition, nodes, knows_resources=inventory.knows_resources):
            yield RowProblem(index, f"the row '{row['name']}' of 'partitions' has {what}", hint)


def _row_excesses(
    row: PartitionRow, partition: PartitionState, nodes: Sequence[NodeGroup], *, knows_resources: bool
) -> Iterator[tuple[str, str]]:
    walltime, memory = row.get("walltime"), row.get("memory")
    longest_s = None if walltime is None else parse_walltime(walltime, "partitions.walltime")
    if longest_s is not None and partition.walltime_s is not None and longest_s > partition.walltime_s:
        there = format_walltime(partition.walltime_s // 60 * 60)
        yield f"'walltime' {walltime}, and the partition has {there}", f'Write walltime: "{there}".'
    amounts: list[tuple[str, int | None, list[int | None]]] = [
        ("cpus", row.get("cpus"), [partition.max_cpus, max((each.cpus for each in nodes), default=None)]),
        ("nodes", row.get("nodes"), [partition.max_nodes, sum(each.count for each in nodes) or None]),
    ]
    for key, promised, limits in amounts:
        there_is = min((each for each in limits if each is not None), default=None)
        if promised is not None and there_is is not None and promised > there_is:
            yield f"'{key}' {promised}, and the partition has {there_is}", f"Write {key}: {there_is}."
    memory_b = None if memory is None else parse_memory(memory, "partitions.memory")
    sizes = [partition.max_memory_b, max((each.memory_b for each in nodes), default=None)]
    there_b = min((each for each in sizes if each is not None), default=None)
    if memory_b is not None and there_b is not None and memory_b > there_b:
        yield f"'memory' {memory}, and its nodes have {there_b // MIB} MiB", f"Write memory: {there_b // MIB} MiB."
    yield from _unknown_parts(row, nodes, knows_resources=knows_resources)


def _unknown_parts(
    row: PartitionRow, nodes: Sequence[NodeGroup], *, knows_resources: bool
) -> Iterator[tuple[str, str]]:
    """Find resources and features that no node of the partition has."""
    if not nodes:
        return
    features = {feature for each in nodes for feature in each.features}
    for name in row.get("features") or ():
        if name not in features:
            yield f"the feature '{name}', which none of its nodes has", unknown_name("feature", name, features).hint
    counts: dict[str, int] = {}
    for each in nodes:
        for name, amount in each.resources.items():
            counts[name] = max(counts.get(name, 0), amount)
    for name, amount in (row.get("resources") or {}).items() if knows_resources else ():
        there = counts.get("gpus" if name == "gpu" else name, 0)
        if amount > there:
            hint = f"Write {name}: {there}." if there else unknown_name("resource", name, counts).hint
            yield f"{amount} of '{name}', and its nodes have {there}", hint


def find_limit_problems(
    limits: SiteLimits, capacity: Mapping[str, int], max_array: int | None
) -> Iterator[tuple[str, str, str]]:
    """Find ceilings beyond what the cluster has: the name of the limit, a message and the mend."""
    sizes = {"cpus": capacity.get("cpus"), "memory": capacity.get("memory"), "arraySize": max_array}
    for name, there in sizes.items():
        limit = limits.get(name)
        if limit is None or there is None or limit.amount <= there:
            continue
        text = f"{there // MIB} MiB" if name == "memory" else str(there)
        subject = "accepts arrays of" if name == "arraySize" else "has nodes with"
        yield name, f"'limits.{name}' is {limit.written}, and the cluster {subject} {text}", f"Write {name}: {text}."
