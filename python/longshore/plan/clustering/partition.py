"""Divides the clusters of a rule into parts, by the values of some dimensions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain, repeat

from longshore.contract.clustering import Partition
from longshore.errors import GraphError
from longshore.origin import Origin

PartitionValues = tuple[str | int | float | bool, ...]


def assign_parts(
    values: Iterable[PartitionValues], partition: Partition, clusters: int, *, label: str, origin: Origin | None
) -> dict[PartitionValues, int]:
    """Number of the part, from 1, per combination of values.

    The values are sorted, numbers in numeric order, and cut into parts of nearly equal size. `clusters` is the number
    of clusters before they are divided.

    Raises `GraphError` if `partitionMaxClusters` is less than that number.
    """
    ordered = sorted(set(values), key=lambda these: [*map(_sort_key, these)])
    numbers = chain.from_iterable(
        repeat(number, size)
        for number, size in enumerate(_part_sizes(len(ordered), partition, clusters, label, origin), 1)
    )
    return dict(zip(ordered, numbers, strict=True))


def _part_sizes(values: int, partition: Partition, clusters: int, label: str, origin: Origin | None) -> Collection[int]:
    if partition.most_values is not None:
        whole, rest = divmod(values, partition.most_values)
        return [partition.most_values] * whole + [rest] * bool(rest)
    most = partition.most_clusters or 1
    if most < clusters:
        raise GraphError(
            f"'partitionMaxClusters' of the cluster '{label}' is {most}, but its dimensions alone make {clusters}",
            origin=origin,
            hint="Raise it, or take a dimension out of 'dimensions'.",
        )
    parts = min(most // clusters, values)
    size, larger = divmod(values, parts)
    return [size + 1] * larger + [size] * (parts - larger)


def _sort_key(value: object) -> tuple[int, float, str]:
    """Sort key of a value: numbers first, in numeric order."""
    try:
        return 0, float(str(value)), str(value)
    except ValueError:
        return 1, 0.0, str(value)
