"""Tasks that run together in one job, and the graph of such clusters."""

from __future__ import annotations

import msgspec

from longshore.model.dag import Dag
from longshore.model.task import DataId, Task, TaskGraph


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that one job runs, one after another in the order given."""

    name: str
    label: str
    tags: DataId = msgspec.field(default_factory=dict)
    tasks: tuple[Task, ...]
    section: str | None = None
    """Name of the ``cluster`` section of the configuration that made it, if one did."""


class ClusteredGraph(msgspec.Struct, frozen=True, kw_only=True):
    """All clusters of a payload and their order."""

    name: str
    dag: Dag[Cluster]
    source: TaskGraph
