"""Encodes a graph of clusters as JSON Lines: a header, then a line per cluster, parents first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from longshore.model.lines.json_line import encode_line
from longshore.model.tasks.cluster import ClusteredGraph
from longshore.model.tasks.task import Scalar

FORMAT: Final = 1
"""Version of this format."""


class ClusterHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    v: int
    name: str
    clusters: int
    tasks: int


class StoredTask(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A task of a cluster."""

    name: str
    label: str
    data_id: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    node_id: str = ""


class StoredCluster(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A cluster as its line has it; its number is that of the line, from 0."""

    name: str
    label: str
    p: tuple[int, ...] = ()
    """Numbers of its parents."""
    tags: Mapping[str, Scalar] = msgspec.field(default_factory=dict)
    tasks: tuple[StoredTask, ...]


def clustered_lines(clustered: ClusteredGraph) -> Iterator[bytes]:
    """Encode a graph of clusters; the same graph always gives the same bytes."""
    dag = clustered.dag
    tasks = sum(len(cluster.tasks) for cluster in dag.nodes)
    yield encode_line(ClusterHeader(v=FORMAT, name=clustered.name, clusters=len(dag), tasks=tasks))
    line_of = [0] * len(dag)
    for line, position in enumerate(dag.order):
        line_of[position] = line
        cluster = dag.nodes[position]
        yield encode_line(
            StoredCluster(
                name=cluster.name,
                label=cluster.label,
                p=tuple(sorted(line_of[parent] for parent in dag.parents[position])),
                tags=cluster.tags,
                tasks=tuple(
                    StoredTask(name=task.name, label=task.label, data_id=task.data_id, node_id=task.node_id)
                    for task in cluster.tasks
                ),
            )
        )
