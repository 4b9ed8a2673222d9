"""What a job really asks of a workload manager, all ways to write it combined: nodes, tasks, and amounts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from longshore.model.workflow.request import Request

WHOLE_NODE_B: Final = 2**63 - 1
"""Memory of a job that asks for all memory of its nodes."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes and tasks of a job, or of one component of it, and what each has.

    Attributes
    ----------
    nodes
        Least number of nodes; ``None`` for as many as the tasks need.
    tasks, cpus_per_task
        Number of tasks, and logical processors of each.
    memory_b, disk_b, resources
        Bytes, and amount per name, on each node.
    walltime_s
        Seconds.
    features
        Sets of features of which nodes must have at least one each.
    partitions
        Partitions that the job names; empty for none.
    account, qos
        Account to charge, and quality of service, that the job names; empty for none.
    licences
        Number of each licence.
    hosts
        Nodes that the job names, as written: ``n[1-3]`` is one expression.
    names
        Names of further things that it uses, by their kind, such as ``project``.
    """

    nodes: int | None = None
    tasks: int = 1
    cpus_per_task: int = 1
    memory_b: int | None = None
    disk_b: int | None = None
    walltime_s: float | None = None
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    features: tuple[frozenset[str], ...] = ()
    partitions: tuple[str, ...] = ()
    account: str = ""
    qos: tuple[str, ...] = ()
    licences: Mapping[str, int] = msgspec.field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @classmethod
    def of_request(cls, request: Request) -> Allocation:
        """Return the allocation of a job that asks for nothing beside its request."""
        return cls(
            cpus_per_task=request.cpus,
            memory_b=request.memory_b,
            disk_b=request.disk_b,
            walltime_s=request.walltime_s,
            resources=request.resources,
        )

    @property
    def cpus_per_node(self) -> int:
        """Least number of processors on one of the nodes."""
        return -(-self.tasks // self.nodes) * self.cpus_per_task if self.nodes else self.cpus_per_task

    def least_nodes(self, cpus: int | None) -> int:
        """Return how many nodes it needs at least, where each has so many processors; ``None`` for any number."""
        if self.nodes:
            return self.nodes
        return -(-self.tasks // max(1, cpus // self.cpus_per_task)) if cpus else 1


def total_request(components: Sequence[Allocation]) -> Request:
    """Return what all components of a job have together, on all of their nodes."""
    memory = [each.memory_b * (each.nodes or 1) for each in components if each.memory_b is not None]
    walltimes = [each.walltime_s for each in components if each.walltime_s is not None]
    return Request(
        cpus=sum(each.tasks * each.cpus_per_task for each in components),
        memory_b=min(sum(memory), WHOLE_NODE_B) if memory else None,
        walltime_s=max(walltimes, default=None),
    )
