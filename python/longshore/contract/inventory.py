"""Inventory: what a workload manager has, by its own answers, for checks of sites and jobs before a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition or queue, as the cluster reports it.

    `state` is ``UP`` where jobs are accepted and run; `limit` is the longest run time, and `nodes` is the number of
    nodes, empty if the cluster does not report it. Empty `accounts` or `qos` allow all. `walltime_s`, `max_nodes`,
    `max_cpus` and `max_memory_b` limit one job, the last two on each node; ``None`` for no limit.
    """

    name: str
    state: str
    limit: str = ""
    nodes: str = ""
    default: bool = False
    accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    walltime_s: float | None = None
    max_nodes: int | None = None
    max_cpus: int | None = None
    max_memory_b: int | None = None


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """An account that a user may charge, with its allowed QOS and its limits."""

    account: str
    qos: frozenset[str]
    max_jobs: str = ""
    max_submitted: str = ""
    max_time: str = ""
    walltime_s: float | None = None
    """Longest run time of one job; ``None`` for no limit, and where the cluster does not enforce it."""


class Qos(msgspec.Struct, frozen=True, kw_only=True):
    """A quality of service with its limits."""

    name: str
    max_jobs: str = ""
    max_submitted: str = ""
    max_time: str = ""
    walltime_s: float | None = None
    """Longest run time of one job; ``None`` for no limit, and where the cluster does not enforce it."""
    overrides: frozenset[str] = frozenset()
    """Limits of partitions that do not hold for its jobs: ``walltime`` and ``nodes``."""


class NodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Equal nodes of one partition: their number, and what each has.

    `names` are expressions for their names, such as ``n[1-4]``; `partition` is empty where all partitions share the
    nodes. `disk_b` is ``None`` where the cluster does not report it, and `resources` lacks what it does not report.
    """

    partition: str = ""
    count: int = 1
    names: tuple[str, ...] = ()
    cpus: int
    memory_b: int
    disk_b: int | None = None
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    features: frozenset[str] = frozenset()


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster has; ``None`` for what it does not answer, so that nothing follows from it.

    `names` are those of further things by their kind, such as ``project``. `knows_resources` says that nodes list all
    resources that they have; `is_enforced` that a job may charge only the accounts in `accounts`.
    """

    partitions: tuple[PartitionState, ...] | None = None
    nodes: tuple[NodeGroup, ...] | None = None
    accounts: tuple[Association, ...] | None = None
    qos: tuple[Qos, ...] | None = None
    licences: Mapping[str, int] | None = None
    max_array: int | None = None
    """Most jobs in an array."""
    names: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    knows_resources: bool = False
    is_enforced: bool = True
